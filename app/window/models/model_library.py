"""What is known about models: the catalogue, and what `redline models ... --json` says in child processes.

Each command prints one document of `app.protocol.model_documents`. The commands run again when something changes.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec
from PySide6.QtCore import QObject, Signal

from app.inference.machine import this_machine
from app.protocol.model_documents import InstalledModels, MemoryFit, PairVerdicts, Removal
from app.window.common.child_process import ChildProcess, Ending
from app.window.common.timer import call_later
from app.window.models.downloads import models_command
from app.window.models.known_models import BUILTIN_MODEL, KnownModels, ModelRow
from models.catalogue.entries import read_catalogue

AT_ONCE = 2  # processes; each is busy for about a second
TIMEOUT_MS = 60_000
Document = TypeVar("Document")
Failure = Callable[[str], None]
Then = Callable[[Removal], None]


@dataclass(eq=False)
class Command:
    """One command. type: of its document. then, fail: called with the document, or with why there is none."""

    words: tuple[str, ...]
    type: Any
    then: Callable[[Any], None]
    fail: Failure

    def deliver(self, ending: Ending) -> None:
        """Passes the document on. The exit status does not matter: 1 also means that nothing was found or fits."""
        if ending.not_started:
            self.fail(f"the command could not start ({ending.not_started})")
            return
        output = ending.output.strip()
        try:
            document = msgspec.json.decode(output, type=self.type) if output else None
        except msgspec.MsgspecError as error:
            self.fail(f"the answer could not be read ({error})")
            return
        if document is None:
            last = ending.errors.strip().rpartition("\n")[2]
            self.fail(last.removeprefix("redline: ") or "the command ended without an answer")
        else:
            self.then(document)


class CommandQueue(QObject):
    """Runs commands, AT_ONCE at a time. command: stands before the words of each; `redline models` if empty."""

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or models_command()
        self._waiting: deque[Command] = deque()
        self._running: dict[ChildProcess, Command] = {}

    @property
    def busy(self) -> bool:
        """Whether a command runs or waits."""
        return bool(self._running or self._waiting)

    def ask(
        self,
        words: Sequence[str],
        type: type[Document],
        then: Callable[[Document], None],
        fail: Failure = lambda _: None,
        first: bool = False,
    ) -> None:
        """Runs a command, and calls `then` with its document or `fail` with why there is none.

        A command that already waits with the same words is dropped. first: before all others that wait.
        """
        command = Command(tuple(words), type, then, fail)
        for other in [one for one in self._waiting if one.words == command.words]:
            self._waiting.remove(other)
        self._waiting.insert(0 if first else len(self._waiting), command)
        self._start_next()

    def close(self) -> None:
        """Ends all commands, without answers."""
        self._waiting.clear()
        running, self._running = self._running, {}
        for child in running:
            child.stop()

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE:
            child, command = ChildProcess(self), self._waiting.popleft()
            self._running[child] = command
            child.ended.connect(partial(self._end, child))
            call_later(child, child.kill, TIMEOUT_MS)
            child.begin([*self.command, *command.words, "--json"])

    def _end(self, child: ChildProcess, ending: Ending) -> None:
        command = self._running.pop(child, None)
        if command is not None:
            command.deliver(ending)
            self._start_next()


class ModelLibrary(QObject):
    """known: the catalogue, and the answers so far. troubles: by command, why it failed. command: as of CommandQueue.

    changed(): there is a new answer. listed(): the models on this computer were listed.
    """

    changed = Signal()
    listed = Signal()

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.commands, self.known = CommandQueue(command, self), KnownModels(this_machine(), read_catalogue())
        self.troubles: dict[str, str] = {}
        self._unanswered: set[tuple[str, ...]] = set()

    @property
    def loading(self) -> bool:
        """Whether answers are awaited."""
        return bool(self._unanswered)

    def refresh(self) -> None:
        """Lists the models and pairs on this computer."""
        self.list_installed()
        self._ask(("pairs",), PairVerdicts, self.known.receive_pairs)

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
            self._ask(("fits", name), MemoryFit, partial(known.receive_fit, name), fail, first=True)

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
        self.known.receive_list(models)
        self.listed.emit()


def _remove(row: ModelRow) -> Sequence[str]:
    here = row.here or BUILTIN_MODEL
    return ("remove", here.name, "--from", here.origin)
