"""The API's process as the window sees it: requests of programs in, answers out, started again when it dies.

off -> starting -> on -> off -> ...      "failed" where it ended by itself and is not started again
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, QProcess, Signal

from app.command_line import USAGE
from app.protocol import AnyAnswer, MalformedError, decode_line, encode_line
from app.protocol.api_messages import Listening, api_lines
from app.window.common.sentence import sentence
from app.window.common.timer import Timer, clock_s

FRAME_MS = 16
READ_BUDGET_S = 0.004  # of a frame, for reading requests
END_MS = 3000  # for ending by itself before it is killed
QUIT_MS = 300  # the same when the window closes
QUICK_S = 10.0  # a process that lived less than this is not started again
MAX_UNSENT_BYTES = 64 << 20
STDERR_TAIL_BYTES = 4 << 10

ApiPhase = Literal["off", "starting", "on", "failed"]


class ApiProcess(QObject):
    """Runs the API. key_file: of the key that programs give. command: the real API's if empty.

    phase: "on" once it listens, on `port`. error: why it failed.
    """

    received = Signal(object, int)  # PassedReply | PassedCount | Stop, and the bytes of its line
    began = Signal()  # it can be written to
    ended = Signal()  # whoever asked through it is gone
    changed = Signal()  # the phase

    def __init__(self, key_file: Path, command: Sequence[str] = (), parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._command = list(command) or [sys.executable, "-m", "app.api"]
        self._key_file = key_file
        self.phase: ApiPhase = "off"
        self.port = 0
        self.error = ""
        self._wanted: int | None = None  # the port to serve on
        self._ending = False  # it was told to end
        self._began_s = 0.0
        self._stderr = b""
        self._process = QProcess(self)
        self._frame = Timer(self, singleShot=True, interval=FRAME_MS)
        self._frame.timeout.connect(self._read)
        self._deadline = Timer(self, singleShot=True, interval=END_MS)
        self._deadline.timeout.connect(self._kill)

    @property
    def pid(self) -> int:
        """The id of the process, 0 while there is none."""
        return int(self._process.processId())

    def serve(self, port: int | None) -> None:
        """Serves on this port of loopback, 0 for any that is free; None ends it."""
        if port == self._wanted and self.phase != "failed":
            return
        self._wanted = port
        if self._process.state() != QProcess.ProcessState.NotRunning:
            self._end()
        elif port is not None:
            self._start()
        self._show("off" if port is None else "starting")

    def write(self, answer: AnyAnswer) -> None:
        """Sends an answer; dropped where no process runs. One that does not read is killed."""
        if self._process.state() == QProcess.ProcessState.Running and not self._ending:
            self._process.write(encode_line(answer))
            if self._process.bytesToWrite() > MAX_UNSENT_BYTES:
                self._process.kill()

    def quit(self) -> None:
        """Ends it for good, soon."""
        self.serve(None)
        if not self._process.waitForFinished(QUIT_MS):
            self._kill()
            self._process.waitForFinished(QUIT_MS)

    # --- reading -------------------------------------------------------------------------------

    def _read(self) -> None:
        """Reads requests for a part of a frame; the rest waits for the next."""
        until_s = clock_s() + READ_BUDGET_S
        while not self._ending and self._process.canReadLine():
            if clock_s() > until_s:
                self._frame.start()
                return
            self._take(bytes(self._process.readLine().data())[:-1])

    def _take(self, line: bytes) -> None:
        try:
            told = decode_line(line, api_lines)
        except MalformedError:  # it is not the API of this version, or it has been taken over
            self._process.kill()
            return
        if isinstance(told, Listening):
            self.port = told.port
            self._show("on")
        else:
            self.received.emit(told, len(line))

    def _read_stderr(self) -> None:
        self._stderr = (self._stderr + self._process.readAllStandardError().data())[-STDERR_TAIL_BYTES:]

    # --- the process ---------------------------------------------------------------------------

    def _start(self) -> None:
        self._ending, self._stderr, self._began_s = False, b"", clock_s()
        self._process.deleteLater()
        self._process = process = QProcess(self)
        process.started.connect(self.began)
        process.readyReadStandardOutput.connect(self._schedule_frame)
        process.readyReadStandardError.connect(self._read_stderr)
        process.errorOccurred.connect(self._fail_to_start)
        process.finished.connect(self._finish)
        arguments = ["--port", str(self._wanted), "--key-file", str(self._key_file)]
        process.start(self._command[0], [*self._command[1:], *arguments])

    def _schedule_frame(self) -> None:
        if not self._frame.isActive():
            self._frame.start()

    def _end(self) -> None:
        """Has it refuse what is asked and end, which takes two seconds at most."""
        self._ending = True
        self._process.closeWriteChannel()
        self._deadline.start()

    def _kill(self) -> None:
        self._process.kill()

    def _fail_to_start(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:
            self._fail(f"The server could not start ({self._process.errorString()}).")

    def _finish(self, code: int, _: QProcess.ExitStatus) -> None:
        """Starts it again if it is wanted, and was well for a while or was told to end."""
        self._deadline.stop()
        self._read_stderr()
        self.ended.emit()
        if self._wanted is None:
            return
        if self._ending or (code != USAGE and clock_s() - self._began_s > QUICK_S):
            self._show("starting")
            self._start()
        else:
            said = self._stderr.decode(errors="replace").strip().rpartition("\n")[2].removeprefix("redline: ")
            self._fail(sentence(said) if said else f"The server ended unexpectedly ({code}).")

    def _fail(self, error: str) -> None:
        self._wanted = None
        self._show("failed", error)

    def _show(self, phase: ApiPhase, error: str = "") -> None:
        if (phase, error) != (self.phase, self.error):
            self.phase, self.error = phase, error
            self.changed.emit()
