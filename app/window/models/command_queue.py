"""Runs `redline models ... --json` in child processes, a few at a time, and decodes the document that each prints."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from PySide6.QtCore import QObject, QProcess, QTimer, Signal

AT_ONCE = 2  # processes; each is busy for about a second
TIMEOUT_MS = 60_000
Document = TypeVar("Document")
Failure = Callable[[str], None]


def models_command() -> list[str]:
    """Returns the command line of `redline models`."""
    return [sys.executable, "-m", "app", "models"]


class Command(QProcess):
    """One command. type: of its document. then, fail: called with the document, or with why there is none.

    ended(Command): it ended, or could not start. Its slots are methods, because a lambda that is connected to
    `QProcess.finished` and starts another process crashes PySide 6.9.
    """

    ended = Signal(object)

    def __init__(
        self, words: Sequence[str], type: Any, then: Callable[[Any], None], fail: Failure, parent: QObject
    ) -> None:
        super().__init__(parent)
        self.words, self._type, self._then, self._fail = tuple(words), type, then, fail
        self.finished.connect(self._finish)
        self.errorOccurred.connect(self._handle_error)

    def begin(self, command: Sequence[str]) -> None:
        """Starts the process. command: stands before the words."""
        QTimer.singleShot(TIMEOUT_MS, self, self.kill)
        self.start(command[0], [*command[1:], *self.words, "--json"])
        self.closeWriteChannel()

    def deliver(self) -> None:
        """Passes the document on. The exit status does not matter: 1 also means that nothing was found or fits."""
        if self.error() == QProcess.ProcessError.FailedToStart:
            self._fail(f"the command could not start ({self.errorString()})")
            return
        output = bytes(self.readAllStandardOutput().data()).strip()
        errors = bytes(self.readAllStandardError().data()).decode(errors="replace").strip()
        try:
            document = msgspec.json.decode(output, type=self._type) if output else None
        except msgspec.MsgspecError as error:
            self._fail(f"the answer could not be read ({error})")
            return
        if document is None:
            self._fail(errors.rpartition("\n")[2].removeprefix("redline: ") or "the command ended without an answer")
        else:
            self._then(document)

    def _handle_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # every other error ends in `finished`
            self.ended.emit(self)

    def _finish(self, _: int, __: QProcess.ExitStatus) -> None:
        self.ended.emit(self)


class CommandQueue(QObject):
    """Runs commands, AT_ONCE at a time. command: stands before the words of each; `redline models` if empty."""

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or models_command()
        self._waiting: deque[Command] = deque()
        self._running: list[Command] = []

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
        command = Command(words, type, then, fail, self)
        command.ended.connect(self._end)
        self._waiting = deque(other for other in self._waiting if other.words != command.words)
        self._waiting.insert(0 if first else len(self._waiting), command)
        self._start_next()

    def close(self) -> None:
        """Ends all commands, without answers."""
        self._waiting.clear()
        running, self._running = self._running, []
        for command in running:
            command.kill()
            command.waitForFinished(1000)

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < AT_ONCE:
            command = self._waiting.popleft()
            self._running.append(command)
            command.begin(self.command)

    def _end(self, command: Command) -> None:
        if command in self._running:
            self._running.remove(command)
            command.deleteLater()
            command.deliver()
            self._start_next()
