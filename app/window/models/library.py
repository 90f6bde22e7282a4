"""What is known about models, asked of children, and asked anew whenever something came or went."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app.window.models.asking import Asker
from app.window.models.documents import Entries, Fits, Inventory, Overview, Pairs, Removal
from app.window.models.shelf import COMES_ALONG, Row, Shelf

Then = Callable[[Removal], None]
Answer = TypeVar("Answer")


class Library(QObject):
    """shelf: all of it. troubles: of the questions that failed, in words.

    changed(): something is known that was not. listed(): so is everything that is here.
    """

    changed = Signal()
    listed = Signal()

    def __init__(self, asker: Asker, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.asker = asker
        self.shelf = Shelf()
        self.troubles: dict[str, str] = {}
        self._untold: set[str] = set()  # questions whose first answer is awaited

    @property
    def loading(self) -> bool:
        """Whether the page would still be empty for want of answers."""
        return bool(self._untold)

    def look(self) -> None:
        """Ask for what is here; and once, for the machine and the catalogue."""
        self.look_for_names()
        if self.shelf.overview is None:
            self._ask((), Overview, self._machine)
            self._ask(("search",), Entries, self._catalogue)
        self._ask(("pairs",), Pairs, self._pairs)

    def look_for_names(self) -> None:
        """Ask only for what is here."""
        self._ask(("list",), Inventory, self._list)

    def look_at(self, row: Row) -> None:
        """Ask whether a model that is here fits, before everything else that waits."""
        name, shelf = row.here.name if row.here else "", self.shelf
        known = name in shelf.fits or name in shelf.unfit or self.asker.asks(("fits", name))
        if row.usable and not known:
            then, fail = partial(self._keep, shelf.fits, name), partial(self._keep, shelf.unfit, name)
            self.asker.ask(("fits", name), Fits, then, fail, first=True)

    def plan_removal(self, row: Row, then: Then, fail: Callable[[str], None]) -> None:
        """What would go."""
        self.asker.ask((*_removing(row), "--dry-run"), Removal, then, fail, first=True)

    def remove(self, row: Row, then: Then, fail: Callable[[str], None]) -> None:
        """Let it go; what is here is asked for anew."""

        def gone(removal: Removal) -> None:
            self.look()
            then(removal)

        self.asker.ask((*_removing(row), "--yes"), Removal, gone, fail, first=True)

    def _ask(self, words: tuple[str, ...], type: type, then: Callable[..., None]) -> None:
        said = " ".join(words)
        self._untold.add(said)

        def told(answer: object) -> None:
            self._untold.discard(said)
            self.troubles.pop(said, None)
            then(answer)
            self.changed.emit()

        def failed(why: str) -> None:
            self._untold.discard(said)
            self.troubles[said] = why
            self.changed.emit()

        self.asker.ask(words, type, told, failed)

    def _list(self, inventory: Inventory) -> None:
        self.shelf.here = inventory.models
        self.shelf.fits.clear()
        self.shelf.unfit.clear()  # a drafter that came or went changes what auto takes
        self.listed.emit()

    def _machine(self, overview: Overview) -> None:
        self.shelf.overview = overview

    def _catalogue(self, entries: Entries) -> None:
        self.shelf.known = {entry.repository: entry for entry in entries.entries}

    def _pairs(self, pairs: Pairs) -> None:
        self.shelf.judged = {judged.target: judged for judged in pairs.targets}

    def _keep(self, answers: dict[str, Answer], name: str, answer: Answer) -> None:
        answers[name] = answer
        self.changed.emit()


def _removing(row: Row) -> tuple[str, ...]:
    here = row.here or COMES_ALONG
    return ("remove", here.name, "--from", here.origin)
