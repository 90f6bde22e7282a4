"""The engine's host as the window sees it: a process to ask, answers once a frame, started again when it dies.

down -> starting -> ready -> down -> ...      until `quit`, or until too many quick deaths in a row ("left")
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, QProcess, Qt, QTimer, Signal

from app.protocol import VERSION, Answers, Counted, Ended, Loaded, Quit, Ready, Requests, to_line
from app.window.lines import Decoder
from app.window.patience import PATIENCE, Patience, milliseconds

FRAME_S = 0.016
BUDGET_S = 0.006  # of a frame, for reading answers
AT_ONCE_BYTES = 1 << 20
MOST_UNREAD_BYTES = 64 << 20  # half a million tokens: beyond, the host babbles, and would fill the memory
TAIL_BYTES = 16 << 10
RESTARTED = "was restarted"

Phase = Literal["down", "starting", "ready", "left", "ended"]


@dataclass(frozen=True)
class Death:
    """How the host ended. said: "was killed (SIGSEGV)". left: whether it is not started again by itself; refused: as
    another would be no better."""

    said: str
    left: bool
    refused: bool = False


class HostClient(QObject):
    """Runs the host and speaks with it.

    answered(list[Answers]): what it said since the last frame, never empty. died(Death): after its last answers.
    troubled(str): it said what cannot be; told once a process. overdue(): it has not said Ready in time.
    """

    answered = Signal(object)
    died = Signal(object)
    troubled = Signal(str)
    overdue = Signal()

    def __init__(self, command: Sequence[str] = (), patience: Patience = PATIENCE, parent: QObject | None = None):
        """command: the host's; the real one's if empty."""
        super().__init__(parent)
        self.command = list(command) or [sys.executable, "-m", "app.host"]
        self.patience = patience
        self.phase: Phase = "down"
        self._decoder = Decoder()
        self._tail = b""
        self._blame = ""  # what the host is ended for
        self._refused = False
        self._proved = False  # it has done something that was asked
        self._quick_deaths = 0
        self._began_s = self._frame_s = 0.0
        self._process = QProcess(self)
        self._frame = self._timer(self._deliver)
        self._again = self._timer(self.start)
        self._ready_by = self._timer(self.overdue.emit)

    @property
    def pid(self) -> int:
        """Of the host, 0 while there is none."""
        return int(self._process.processId())

    @property
    def running(self) -> bool:
        """Whether there is someone to ask, ready or about to be."""
        return self.phase in ("starting", "ready")

    @property
    def stderr(self) -> str:
        """The end of what the last host wrote to standard error."""
        return self._tail.decode(errors="replace")

    def start(self) -> None:
        """Start the host unless it runs."""
        if self.phase not in ("down", "left"):
            return
        self.phase = "starting"
        self._again.stop()
        self._tail, self._blame, self._refused, self._proved = b"", "", False, False
        self._decoder = Decoder()
        self._began_s = time.monotonic()
        self._ready_by.start(milliseconds(self.patience.ready_s))
        self._process.deleteLater()
        self._process = self._new_process()
        self._process.start(self.command[0], self.command[1:])

    def restart(self) -> None:
        """By the user's wish: end the host that runs, if any, and start another at once."""
        self._quick_deaths = 0
        if self.running:
            self._end_for(RESTARTED)
        else:
            self.start()

    def send(self, request: Requests) -> None:
        """Ask. Nobody hears what is asked while no host runs; `died` has said so."""
        if self.running:
            self._process.write(to_line(request))

    def quit(self) -> bool:
        """End the host for good, within two seconds; whether it went by itself."""
        process, running = self._process, self.running
        if running:
            self.send(Quit(id=0))
        self.phase = "ended"
        for timer in (self._frame, self._again, self._ready_by):
            timer.stop()
        if not running or process.state() == QProcess.ProcessState.NotRunning:
            return True
        process.closeWriteChannel()
        if process.waitForFinished(milliseconds(self.patience.quit_s)):
            return True
        process.terminate()
        if not process.waitForFinished(milliseconds(self.patience.terminate_s)):
            process.kill()
            process.waitForFinished(milliseconds(self.patience.terminate_s))
        return False

    # --- hearing -------------------------------------------------------------------------------

    def _heard(self) -> None:
        """Something has come: it waits for the frame, unless the host babbles."""
        if not self.running:
            return
        if self._process.bytesAvailable() > MOST_UNREAD_BYTES:
            self._end_for("said more than the window can take in")
        elif not self._frame.isActive():
            since_s = time.monotonic() - self._frame_s
            self._frame.start(milliseconds(max(0.0, FRAME_S - since_s)))

    def _deliver(self, budget_s: float = BUDGET_S) -> None:
        """One frame: read, decode, tell. What does not fit waits for the next."""
        self._frame_s = time.monotonic()
        complained = self._decoder.unreadable > 0
        if not len(self._decoder):
            self._decoder.push(bytes(self._process.read(AT_ONCE_BYTES).data()))
        answers = self._decoder.take(self._frame_s + budget_s)
        if self._decoder.unreadable and not complained:
            self.troubled.emit(f"a line of the engine's could not be read and was left out ({self._decoder.complaint})")
        answers = self._checked(answers)
        if len(self._decoder) or self._process.bytesAvailable():
            self._frame.start(milliseconds(FRAME_S))
        if answers:
            self.answered.emit(answers)

    def _checked(self, answers: list[Answers]) -> list[Answers]:
        """Without what was said before a proper Ready."""
        if self.phase == "starting" and answers:
            first = answers[0]
            if not isinstance(first, Ready) or first.version != VERSION:
                self._refuse(first)
                return []
            self.phase = "ready"
            self._ready_by.stop()
        if any(isinstance(answer, Loaded | Ended | Counted) for answer in answers):
            self._proved = True
        return [] if self._refused else answers

    def _refuse(self, first: Answers) -> None:
        """Another host would be no better: the user must do something."""
        self._refused = True
        if isinstance(first, Ready):
            other = f"speaks version {first.version} of the protocol and this window version {VERSION}"
        else:
            other = f"began with {type(first).__name__}, which no host of this version does"
        self._end_for(f"{other}: install Redline again, so that both are of one version")

    def _complained(self) -> None:
        self._tail = (self._tail + self._process.readAllStandardError().data())[-TAIL_BYTES:]

    # --- the process ---------------------------------------------------------------------------

    def _new_process(self) -> QProcess:
        process = QProcess(self)
        process.readyReadStandardOutput.connect(self._heard)
        process.readyReadStandardError.connect(self._complained)
        process.errorOccurred.connect(self._failed)
        process.finished.connect(self._finished)
        return process

    def _timer(self, then: Callable[[], None]) -> QTimer:
        timer = QTimer(self)
        timer.setSingleShot(True)
        timer.setTimerType(Qt.TimerType.PreciseTimer)
        timer.timeout.connect(then)
        return timer

    def _end_for(self, blame: str) -> None:
        self._blame = self._blame or blame
        self._process.kill()

    def _failed(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self.running:
            self._over(f"could not be started ({self._process.errorString()})")

    def _finished(self, code: int, status: QProcess.ExitStatus) -> None:
        """All that it said is told first, save where that is what it was ended for."""
        if not self.running:
            return
        self._complained()
        while not self._blame and (self._process.bytesAvailable() or len(self._decoder)):
            self._deliver(float("inf"))
        if self.running:  # else somebody heard enough and has quit
            self._over(self._blame or _manner(code, status))

    def _over(self, said: str) -> None:
        """The host is gone: start another, later the more often that has happened, or leave it."""
        for timer in (self._frame, self._ready_by):
            timer.stop()
        pauses = self.patience.again_s
        quick = not self._proved or time.monotonic() - self._began_s < self.patience.quick_s
        self._quick_deaths = self._quick_deaths + 1 if quick else 1
        left = self._refused or self._quick_deaths > len(pauses)
        self.phase = "left" if left else "down"
        if not left:
            self._again.start(milliseconds(pauses[self._quick_deaths - 1]))
        self.died.emit(Death(said, left, self._refused))


def _manner(code: int, status: QProcess.ExitStatus) -> str:
    """How a process ended, for people. A crash has the number of its signal for a code."""
    if status == QProcess.ExitStatus.NormalExit:
        return f"ended by itself (exit code {code})"
    known = {number.value: number.name for number in signal.Signals}
    hint = ", as systems do when memory runs out" if code == signal.SIGKILL else ""
    return f"was killed ({known.get(code, f'signal {code}')}{hint})"
