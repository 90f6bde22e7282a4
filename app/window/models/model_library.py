"""What is known about models: the documents of `redline models ... --json`, read again whenever something changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app.protocol.model_documents import (
    CatalogueEntries,
    InstalledModels,
    MachineOverview,
    MemoryFit,
    PairVerdicts,
    Removal,
)
from app.window.models.catalogue_view import COMES_ALONG, Row, Shelf
from app.window.models.command_queue import CommandQueue

Then = Callable[[Removal], None]
Answer = TypeVar("Answer")


class ModelLibrary(QObject):
    """What is known about models. shelf: all of it. troubles: of the commands that failed, in words.

    changed(): something new is known. listed(): so is everything on this computer.
    """

    changed = Signal()
    listed = Signal()

    def __init__(self, commands: CommandQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.commands = commands
        self.shelf = Shelf()
        self.troubles: dict[str, str] = {}
        self._unanswered: set[str] = set()  # questions whose first answer is awaited

    @property
    def loading(self) -> bool:
        """Whether the first answers are still awaited."""
        return bool(self._unanswered)

    def refresh(self) -> None:
        """Lists what is on this computer; and once, the machine and the catalogue."""
        self.list_installed()
        if self.shelf.overview is None:
            self._ask((), MachineOverview, self._machine)
            self._ask(("search",), CatalogueEntries, self._catalogue)
        self._ask(("pairs",), PairVerdicts, self._pairs)

    def list_installed(self) -> None:
        """Lists only what is on this computer."""
        self._ask(("list",), InstalledModels, self._list)

    def check_memory(self, row: Row) -> None:
        """Checks whether a model on this computer fits, before everything else that waits."""
        name, shelf = row.here.name if row.here else "", self.shelf
        known = name in shelf.fits or name in shelf.unfit or self.commands.asks(("fits", name))
        if row.usable and not known:
            then, fail = partial(self._keep, shelf.fits, name), partial(self._keep, shelf.unfit, name)
            self.commands.ask(("fits", name), MemoryFit, then, fail, first=True)

    def plan_removal(self, row: Row, then: Then, fail: Callable[[str], None]) -> None:
        """Finds out what would be deleted."""
        self.commands.ask((*_removing(row), "--dry-run"), Removal, then, fail, first=True)

    def remove(self, row: Row, then: Then, fail: Callable[[str], None]) -> None:
        """Deletes a model, and lists again what is on this computer."""

        def gone(removal: Removal) -> None:
            self.refresh()
            then(removal)

        self.commands.ask((*_removing(row), "--yes"), Removal, gone, fail, first=True)

    def _ask(self, words: tuple[str, ...], type: type, then: Callable[..., None]) -> None:
        command = " ".join(words)
        self._unanswered.add(command)

        def received(answer: object) -> None:
            self._unanswered.discard(command)
            self.troubles.pop(command, None)
            then(answer)
            self.changed.emit()

        def failed(why: str) -> None:
            self._unanswered.discard(command)
            self.troubles[command] = why
            self.changed.emit()

        self.commands.ask(words, type, received, failed)

    def _list(self, inventory: InstalledModels) -> None:
        self.shelf.here = inventory.models
        self.shelf.fits.clear()
        self.shelf.unfit.clear()  # a drafter that came or went changes what auto takes
        self.listed.emit()

    def _machine(self, overview: MachineOverview) -> None:
        self.shelf.overview = overview

    def _catalogue(self, entries: CatalogueEntries) -> None:
        self.shelf.known = {entry.repository: entry for entry in entries.entries}

    def _pairs(self, pairs: PairVerdicts) -> None:
        self.shelf.judged = {judged.target: judged for judged in pairs.targets}

    def _keep(self, answers: dict[str, Answer], name: str, answer: Answer) -> None:
        answers[name] = answer
        self.changed.emit()


def _removing(row: Row) -> tuple[str, ...]:
    here = row.here or COMES_ALONG
    return ("remove", here.name, "--from", here.origin)
