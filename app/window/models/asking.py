"""Children that are asked something about models and answer with one JSON document, two at a time."""

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
    """The terminal's own `redline models`, in a process beside this one."""
    return [sys.executable, "-m", "app", "models"]


@dataclass
class Asked:
    """A question, what its answer is, and whom to tell."""

    words: tuple[str, ...]
    type: Any
    then: Callable[[Any], None]
    fail: Failure

    def tell(self, output: bytes, trouble: str) -> None:
        """An answer is an answer whatever the exit code: 1 says that nothing was found, or nothing fits."""
        try:
            answer = msgspec.json.decode(output, type=self.type) if output.strip() else None
        except msgspec.MsgspecError as error:
            answer, trouble = None, f"its answer could not be read ({error})"
        if answer is None:
            self.fail(trouble)
        else:
            self.then(answer)


class Child(QObject):
    """One process for one question. over(Child): it has ended, or could not begin.

    Its slots are methods: a lambda that is connected to QProcess.finished, and starts another process, crashes
    PySide 6.9.
    """

    over = Signal(object)

    def __init__(self, command: Sequence[str], asked: Asked, parent: QObject) -> None:
        super().__init__(parent)
        self.asked, self.output, self.trouble = asked, b"", ""
        self._process = QProcess(self)
        self._process.finished.connect(self._finish)
        self._process.errorOccurred.connect(self._fail)
        self._watch = QTimer(self, singleShot=True, interval=PATIENCE_MS)
        self._watch.timeout.connect(self._process.kill)
        self._words = [*command, *asked.words, "--json"]

    def begin(self) -> None:
        self._watch.start()
        self._process.start(self._words[0], self._words[1:])
        self._process.closeWriteChannel()

    def close(self) -> None:
        """Nobody wants the answer any more."""
        self._process.kill()
        self._process.waitForFinished(1000)

    def _fail(self, error: QProcess.ProcessError) -> None:
        """Only where there is no process at all; any other ends in `finished`."""
        if error == QProcess.ProcessError.FailedToStart:
            self.trouble = f"it could not be started ({self._process.errorString()})"
            self.over.emit(self)

    def _finish(self, _: int, __: QProcess.ExitStatus) -> None:
        self._watch.stop()
        self.output = bytes(self._process.readAllStandardOutput().data())
        said = bytes(self._process.readAllStandardError().data()).decode(errors="replace").strip()
        self.trouble = said.splitlines()[-1].removeprefix("redline: ") if said else "it ended without an answer"
        self.over.emit(self)


class Asker(QObject):
    """command: that stands before the words of every question."""

    def __init__(self, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.command = list(command) or usual_command()
        self._waiting: deque[Asked] = deque()
        self._children: list[Child] = []

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
        """Ask, and call `then` with the answer, or `fail` with why there is none. The same question that still waits
        is asked once, for whoever asked last. first: before all others that wait."""
        asked = Asked(tuple(words), type, then, fail)
        self._waiting = deque(other for other in self._waiting if other.words != asked.words)
        if first:
            self._waiting.appendleft(asked)
        else:
            self._waiting.append(asked)
        self._go_on()

    def asks(self, words: Sequence[str]) -> bool:
        """Whether this question waits, or is being answered."""
        return tuple(words) in [asked.words for asked in (*self._waiting, *(child.asked for child in self._children))]

    def close(self) -> None:
        """Nobody wants the answers any more."""
        self._waiting.clear()
        children, self._children = self._children, []
        for child in children:
            child.close()

    def _go_on(self) -> None:
        while self._waiting and len(self._children) < AT_ONCE:
            child = Child(self.command, self._waiting.popleft(), self)
            self._children.append(child)
            child.over.connect(self._end)
            child.begin()

    def _end(self, child: Child) -> None:
        if child not in self._children:
            return
        self._children.remove(child)
        child.deleteLater()
        child.asked.tell(child.output, child.trouble)
        self._go_on()
