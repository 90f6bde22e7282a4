"""Asks `redline models` what is known about models, again whenever something changes, and removes models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PySide6.QtCore import QObject, Signal

from app.protocol.model_documents import (
    CatalogueEntries,
    InstalledModels,
    MachineOverview,
    MemoryFit,
    PairVerdicts,
    Removal,
)
from app.window.models.command_queue import CommandQueue, Failure
from app.window.models.known_models import BUILTIN_MODEL, KnownModels, ModelRow

Then = Callable[[Removal], None]


class ModelLibrary(QObject):
    """known: the answers so far. troubles: by command, why it failed.

    changed(): there is a new answer. listed(): the models on this computer were listed.
    """

    changed = Signal()
    listed = Signal()

    def __init__(self, commands: CommandQueue, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.commands, self.known = commands, KnownModels()
        self.troubles: dict[str, str] = {}
        self._unanswered: set[tuple[str, ...]] = set()

    @property
    def loading(self) -> bool:
        """Whether answers are awaited."""
        return bool(self._unanswered)

    def refresh(self) -> None:
        """Lists the models and pairs on this computer; the first time, also the catalogue and what fits."""
        self.list_installed()
        if self.known.overview is None:
            self._ask((), MachineOverview, self.known.receive)
            self._ask(("search",), CatalogueEntries, self.known.receive)
        self._ask(("pairs",), PairVerdicts, self.known.receive)

    def list_installed(self) -> None:
        """Lists only the models on this computer."""
        self._ask(("list",), InstalledModels, self._take_list)

    def check_memory(self, row: ModelRow) -> None:
        """Asks before anything else whether a usable model fits into memory, unless that is known."""
        if row.here is None or not row.usable:
            return
        name, known = row.here.name, self.known
        if name not in known.fits and name not in known.fit_failures and ("fits", name) not in self._unanswered:
            fail = partial(known.fit_failures.__setitem__, name)
            self._ask(("fits", name), MemoryFit, partial(known.fits.__setitem__, name), fail, first=True)

    def plan_removal(self, row: ModelRow, then: Then, fail: Failure) -> None:
        """Finds out what removing a model would delete."""
        self.commands.ask((*_remove(row), "--dry-run"), Removal, then, fail, first=True)

    def remove(self, row: ModelRow, then: Then, fail: Failure) -> None:
        """Removes a model, and lists the models again."""

        def removed(removal: Removal) -> None:
            self.refresh()
            then(removal)

        self.commands.ask((*_remove(row), "--yes"), Removal, removed, fail, first=True)

    def _ask(
        self,
        words: tuple[str, ...],
        type: type,
        then: Callable[[Any], None],
        fail: Failure | None = None,
        first: bool = False,
    ) -> None:
        self._unanswered.add(words)

        def answered(take: Callable[[Any], None], answer: object) -> None:
            self._unanswered.discard(words)
            self.troubles.pop(" ".join(words), None)
            take(answer)
            self.changed.emit()

        fail = fail or partial(self.troubles.__setitem__, " ".join(words))
        self.commands.ask(words, type, partial(answered, then), partial(answered, fail), first)

    def _take_list(self, models: InstalledModels) -> None:
        self.known.receive(models)
        self.listed.emit()


def _remove(row: ModelRow) -> Sequence[str]:
    here = row.here or BUILTIN_MODEL
    return ("remove", here.name, "--from", here.origin)
