"""Child processes that answer with one JSON document each, a few at a time: `redline models ... --json`."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec
from PySide6.QtCore import QObject, QProcess, QTimer, Signal

AT_ONCE = 2  # children; each is busy for about a second
PATIENCE_MS = 60_000
Document = TypeVar("Document")
Failure = Callable[[str], None]


def usual_command() -> list[str]:
    """Returns the terminal's own `redline models`."""
    return [sys.executable, "-m", "app", "models"]


@dataclass
class Question:
    """A command, the type of its document, and what to call with it."""

    words: tuple[str, ...]
    type: Any
    then: Callable[[Any], None]
    fail: Failure

    def tell(self, output: bytes, trouble: str) -> None:
        """Passes the document on, whatever the exit code: 1 says that nothing was found, or nothing fits."""
        try:
            answer = msgspec.json.decode(output, type=self.type) if output.strip() else None
        except msgspec.MsgspecError as error:
            answer, trouble = None, f"the answer could not be read ({error})"
        if answer is None:
            self.fail(trouble)
        else:
            self.then(answer)


class CommandProcess(QObject):
    """One process for one question. over(CommandProcess): it has ended, or could not begin.

    Its slots are methods: a lambda that is connected to QProcess.finished, and starts another process, crashes
    PySide 6.9.
    """

    over = Signal(object)

    def __init__(self, command: Sequence[str], question: Question, parent: QObject) -> None:
        super().__init__(parent)
        self.question, self.output, self.trouble = question, b"", ""
        self._process = QProcess(self)
        self._process.finished.connect(self._finish)
        self._process.errorOccurred.connect(self._fail)
        self._watch = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._watch.timeout.connect(self._process.kill)
        self._words = [*command, *question.words, "--json"]

    def begin(self) -> None:
        self._watch.start()
        self._process.start(self._words[0], self._words[1:])
        self._process.closeWriteChannel()

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.waitForFinished(1000)

    def _fail(self, error: QProcess.ProcessError) -> None:
        """Only where there is no process at all; any other ends in `finished`."""
        if error == QProcess.ProcessError.FailedToStart:
            self.trouble = f"the command could not start ({self._process.errorString()})"
            self.over.emit(self)

    def _finish(self, _: int, __: QProcess.ExitStatus) -> None:
        self._watch.stop()
        self.output = bytes(self._process.readAllStandardOutput().data())
        errors = bytes(self._process.readAllStandardError().data()).decode(errors="replace").strip()
        self.trouble = (
            errors.splitlines()[-1].removeprefix("redline: ") if errors else "the command ended without an answer"
        )
        self.over.emit(self)


class CommandQueue(QObject):
    """Runs commands in child processes, AT_ONCE at a time. command: stands before the words of each."""

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or usual_command()
        self._waiting: deque[Question] = deque()
        self._children: list[CommandProcess] = []

    @property
    def busy(self) -> bool:
        return bool(self._children or self._waiting)

    def ask(
        self,
        words: Sequence[str],
        type: type[Document],
        then: Callable[[Document], None],
        fail: Failure = lambda _: None,
        first: bool = False,
    ) -> None:
        """Runs a command, and calls `then` with its document or `fail` with why there is none. The same command that
        still waits runs once, for the last caller. first: before all others that wait."""
        question = Question(tuple(words), type, then, fail)
        self._waiting = deque(other for other in self._waiting if other.words != question.words)
        if first:
            self._waiting.appendleft(question)
        else:
            self._waiting.append(question)
        self._start_next()

    def asks(self, words: Sequence[str]) -> bool:
        """Whether this command waits or runs."""
        return tuple(words) in [
            question.words for question in (*self._waiting, *(child.question for child in self._children))
        ]

    def close(self) -> None:
        """Ends all commands."""
        self._waiting.clear()
        children, self._children = self._children, []
        for child in children:
            child.close()

    def _start_next(self) -> None:
        while self._waiting and len(self._children) < AT_ONCE:
            child = CommandProcess(self.command, self._waiting.popleft(), self)
            self._children.append(child)
            child.over.connect(self._end)
            child.begin()

    def _end(self, child: CommandProcess) -> None:
        if child not in self._children:
            return
        self._children.remove(child)
        child.deleteLater()
        child.question.tell(child.output, child.trouble)
        self._start_next()
