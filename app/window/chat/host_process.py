"""The host process of the engine as the window sees it: requests in, answers out once a frame, restarted when it dies.

What its death means is decided by others: for the status by `host_connection`, for the reply by `reply_controller`, for
what the user is offered by `controller`.

down -> starting -> ready -> down -> ...      until `quit`, or until too many quick deaths in a row ("failed")
"""

import re
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, QProcess, Qt, Signal

from app.command_line import AGAIN, FAILURE, NOTICE
from app.protocol import (
    VERSION,
    AnyAnswer,
    Counted,
    Loaded,
    MalformedError,
    Quit,
    Ready,
    ReplyDone,
    Request,
    decode_answer,
    encode_request,
)
from app.protocol.watchdog import WatchdogLimits
from app.window.chat.engine_log import EngineLog
from app.window.common.timer import Timer, clock_s

FRAME_S = 0.016
READ_BUDGET_S = 0.006  # of a frame, for reading answers
MAX_UNREAD_BYTES = 64 << 20  # half a million tokens; a host that sends more would fill the memory
STDERR_TAIL_BYTES = 16 << 10
RESTARTED = "was restarted"

Phase = Literal["down", "starting", "ready", "failed", "ended"]


@dataclass(frozen=True)
class Timeouts(WatchdogLimits):
    """How long the window waits for the host before it reports or does something, in seconds.

    ready_s: from start to Ready. quick_s: a host that lived less than this died quickly. restart_s: pauses before a
    restart after one, two ... quick deaths in a row; after one more it is given up. quit_s, terminate_s: from Quit to
    SIGTERM, and from there to SIGKILL. stop_s: from Stop to the end of the reply.
    """

    ready_s: float = 20.0
    quick_s: float = 10.0
    restart_s: tuple[float, ...] = (0.2, 1.0, 3.0)
    quit_s: float = 1.0
    terminate_s: float = 0.3
    stop_s: float = 8.0


def milliseconds(seconds: float) -> int:
    """Returns `seconds` as Qt's timers take them."""
    return round(seconds * 1000)


class HostProcess(QObject):
    """Runs the host and exchanges lines of the protocol with it.

    frame_due: a signal: answers can be read now, with `frame`. This is the one timer of all that streams.
    phase: "failed" where it died and is not restarted automatically. refused: because another host would be no better.
    """

    died = Signal(str)  # a predicate of "the engine", such as "was killed (SIGSEGV)"; after its last answers
    unreadable = Signal(str)  # it sent a line that is not of the protocol
    overdue = Signal()  # it starts late

    def __init__(self, command: Sequence[str] = (), timeouts: Timeouts | None = None, parent: QObject | None = None):
        """command: that starts the host; the real one if empty."""
        super().__init__(parent)
        self.command = list(command) or [sys.executable, "-m", "app.host"]
        self.timeouts = timeouts or Timeouts()
        self.phase: Phase = "down"
        self._stderr = b""
        self._kill_cause = ""  # what this window killed the host for
        self._exit: tuple[int, QProcess.ExitStatus] | None = None  # of a host that has ended, and left answers to read
        self.refused = False
        self._did_work = False  # it has carried out a request
        self._quick_deaths = 0
        self._began_s = self._next_frame_s = 0.0
        self._process = QProcess(self)
        self._log = EngineLog()
        self._frame = self._timer()
        self.frame_due = self._frame.timeout
        self._restart_timer, self._ready_timer = self._timer(), self._timer()
        self._restart_timer.timeout.connect(self.start)
        self._ready_timer.timeout.connect(self.overdue)

    @property
    def pid(self) -> int:
        """The id of the process, 0 while there is none."""
        return int(self._process.processId())

    @property
    def running(self) -> bool:
        """Whether there is a host that answers, or soon will."""
        return self.phase in ("starting", "ready")

    @property
    def stderr(self) -> str:
        """The end of what the last host wrote to standard error."""
        return self._stderr.decode(errors="replace")

    def start(self) -> None:
        """Starts the host unless it runs."""
        if self.phase not in ("down", "failed"):
            return
        self.phase = "starting"
        self._restart_timer.stop()
        self._reset()
        self._ready_timer.start(milliseconds(self.timeouts.ready_s))
        self._process.deleteLater()
        self._process = self._new_process()
        self._process.start(self.command[0], self.command[1:])

    def restart(self) -> None:
        """Ends the host, if one runs, and starts another at once, as the user asked for it."""
        self._quick_deaths = 0
        if self._exit is not None:
            self._report_exit(RESTARTED)
            self.start()
        elif self.running:
            self._kill(RESTARTED)
        else:
            self.start()

    def send(self, request: Request) -> bool:
        """Writes a request; returns whether its line is no longer than the protocol allows, and the host can read it.
        Without a running host it is dropped; `died` has been emitted by then."""
        line = encode_request(request)
        if self.running and self._exit is None and line is not None:
            self._process.write(line)
        return line is not None

    def quit(self) -> bool:
        """Ends the host for good, within two seconds; returns whether it went on its own."""
        process, running = self._process, self.running
        if running:
            self.send(Quit(id=0))
        self.phase = "ended"
        for timer in (self._frame, self._restart_timer, self._ready_timer):
            timer.stop()
        if not running or process.state() == QProcess.ProcessState.NotRunning:
            return True
        process.closeWriteChannel()
        if process.waitForFinished(milliseconds(self.timeouts.quit_s)):
            return True
        process.terminate()
        if not process.waitForFinished(milliseconds(self.timeouts.terminate_s)):
            process.kill()
            process.waitForFinished(milliseconds(self.timeouts.terminate_s))
        return False

    # --- reading -------------------------------------------------------------------------------

    def _schedule_frame(self) -> None:
        """Data has arrived: it waits for the next frame, unless the host sends more than the window can process."""
        if not self.running:
            return
        if self._process.bytesAvailable() > MAX_UNREAD_BYTES:
            self._kill("sent more data than the window can process")
        elif not self._frame.isActive():
            self._start_frame()

    def _start_frame(self) -> None:
        """Starts the next frame when it is due."""
        self._frame.start(milliseconds(max(0.0, self._next_frame_s - clock_s())))

    @contextmanager
    def frame(self) -> Iterator[list[AnyAnswer]]:
        """Yields the answers of one frame, to be saved and shown within it. What does not fit waits for the next, which
        comes later where this one took long: a third of the time is left for all else."""
        began_s = clock_s()
        try:
            yield self._read_answers(began_s + READ_BUDGET_S)
        finally:
            ended_s = clock_s()
            self._next_frame_s = max(began_s + FRAME_S, ended_s + (ended_s - began_s) / 2)
            if self.running and self._process.canReadLine():
                self._start_frame()
            elif self.running and self._exit is not None:
                self._report_exit()

    def _read_answers(self, until_s: float) -> list[AnyAnswer]:
        answers: list[AnyAnswer] = []
        while self._process.canReadLine() and clock_s() < until_s:
            line = bytes(self._process.readLine().data())[:-1]
            try:
                answers.append(decode_answer(line))
            except MalformedError as error:
                start = line[:80].decode(errors="replace")
                self.unreadable.emit(f"A line from the engine could not be read and was ignored ({error}: {start}).")
        if not answers or not self._accepts(answers[0]):
            return []
        self._did_work = self._did_work or any(isinstance(one, Loaded | ReplyDone | Counted) for one in answers)
        for answer in answers:
            self._log.note(answer, self.pid)
        return answers

    def _accepts(self, first: AnyAnswer) -> bool:
        """Returns whether the host speaks this version of the protocol, as its first answer says."""
        if self.phase == "starting" and not self.refused:
            self.refused = not isinstance(first, Ready) or first.version != VERSION
            if self.refused:
                other = f"began with {type(first).__name__}, which no host of this version does"
                if isinstance(first, Ready):
                    other = f"uses version {first.version} of the protocol and this window uses version {VERSION}"
                self._kill(f"{other}; reinstall Redline")
            else:
                self.phase = "ready"
                self._ready_timer.stop()
        return not self.refused

    def _read_stderr(self) -> None:
        data = bytes(self._process.readAllStandardError().data())
        self._stderr = (self._stderr + data)[-STDERR_TAIL_BYTES:]
        self._log.write(data)

    # --- the process ---------------------------------------------------------------------------

    def _reset(self) -> None:
        """Forgets the last process."""
        self._stderr = b""
        self._kill_cause = ""
        self._exit = None
        self.refused = self._did_work = False
        self._began_s = clock_s()

    def _new_process(self) -> QProcess:
        process = QProcess(self)
        process.readyReadStandardOutput.connect(self._schedule_frame)
        process.readyReadStandardError.connect(self._read_stderr)
        process.errorOccurred.connect(self._fail_to_start)
        process.finished.connect(self._finish)
        return process

    def _timer(self) -> Timer:
        return Timer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)

    def _kill(self, cause: str) -> None:
        self._kill_cause = self._kill_cause or cause
        self._process.kill()

    def _fail_to_start(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self.running:
            self._report_death(f"could not start ({self._process.errorString()})")

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        """Has all remaining answers emitted, frame by frame, before the death, except where the host was killed for
        what it sent."""
        if not self.running:
            return
        self._read_stderr()
        self._exit = code, status
        if not self._kill_cause and self._process.canReadLine():
            self._start_frame()
        else:
            self._report_exit()

    def _report_exit(self, cause: str = "") -> None:
        assert self._exit is not None
        code, status = self._exit
        self._exit = None
        self._report_death(cause or self._kill_cause or _cause_of_death(code, status, self.stderr))

    def _report_death(self, cause: str) -> None:
        """Schedules a restart, later after each quick death, or gives up."""
        for timer in (self._frame, self._ready_timer):
            timer.stop()
        pauses = self.timeouts.restart_s
        quick = not self._did_work or clock_s() - self._began_s < self.timeouts.quick_s
        self._quick_deaths = self._quick_deaths + 1 if quick else 1
        gave_up = self.refused or self._quick_deaths > len(pauses)
        self.phase = "failed" if gave_up else "down"
        if not gave_up:
            self._restart_timer.start(milliseconds(pauses[self._quick_deaths - 1]))
        self._log.end(cause)
        self.died.emit(cause)


def _cause_of_death(code: int, status: QProcess.ExitStatus, stderr: str) -> str:
    """Returns how a process ended, as a predicate. For a crash, `code` is the number of the signal. After the loss
    of a machine, the reason may stand between pieces of what MLX writes about its sockets."""
    if status == QProcess.ExitStatus.NormalExit:
        reasons = re.findall(f"{NOTICE}(.*?){AGAIN}", stderr)
        if code == FAILURE and reasons:
            return f"stopped ({reasons[-1]})"
        return f"quit unexpectedly (exit code {code})"
    names = {number.value: number.name for number in signal.Signals}
    hint = "; the system may have run out of memory" if code == signal.SIGKILL else ""
    return f"was killed ({names.get(code, f'signal {code}')}{hint})"
