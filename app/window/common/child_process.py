"""A program that runs beside the window, once: what it says, line by line, and how it ended."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject, QProcess, Qt, Signal

STOP_MS = 1000  # until a killed process is gone


@dataclass(frozen=True)
class Ending:
    """How a program ended. not_started: why it could not start, else "". stopped: whether by `ChildProcess.stop`.
    failed: whether it did not exit with status 0. errors: what it wrote to its standard error. output: what it wrote to
    its standard output."""

    not_started: str = ""
    stopped: bool = False
    failed: bool = True
    errors: str = ""
    output: bytes = b""

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON object in its last line; {} if it ended without one."""
        last = self.output.rstrip(b"\n").rpartition(b"\n")[2]
        try:
            found = json.loads(last)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


class ChildProcess(QProcess):
    """One run of a program; it deletes itself at its end. output: the whole lines that it has written so far; empty
    unless keeps_output, as a program that runs for hours may write many.

    line(bytes): each of them. ended(Ending): emitted once, when another program may be started.

    Its slots are methods, because a lambda that is connected to `QProcess.finished` and starts another process crashes
    PySide 6.9. Within the signal that a process could not start, no other one would start, so that signal is queued.
    """

    line = Signal(bytes)
    ended = Signal(object)

    def __init__(self, parent: QObject, keeps_output: bool = True) -> None:
        super().__init__(parent)
        self.output, self._keeps_output = bytearray(), keeps_output
        self._has_ended = self._stopped = False
        self.readyReadStandardOutput.connect(self._read)
        self.finished.connect(self._finish)
        self.errorOccurred.connect(self._handle_error, Qt.ConnectionType.QueuedConnection)

    def begin(self, command: Sequence[str], given: bytes = b"") -> None:
        """Starts the program, with `given` as all of its standard input."""
        self.start(command[0], [*command[1:]])
        if given:
            self.write(given)
        self.closeWriteChannel()

    def stop(self) -> None:
        """Kills the program; it has ended on return, and no more of its lines come."""
        self._stopped = True
        self.kill()
        self.waitForFinished(STOP_MS)
        self._end(Ending(stopped=True))

    def _read(self) -> None:
        while self.canReadLine() and not self._stopped:
            line = bytes(self.readLine().data())
            if self._keeps_output:
                self.output += line
            self.line.emit(line)

    def _handle_error(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart:  # every other error ends in `finished`
            self._end(Ending(not_started=self.errorString()))

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._stopped:
            return
        self._read()
        failed = bool(code) or status != QProcess.ExitStatus.NormalExit
        errors = bytes(self.readAllStandardError().data()).decode(errors="replace")
        output = bytes(self.output + self.readAllStandardOutput().data())
        self._end(Ending(failed=failed, errors=errors, output=output))

    def _end(self, ending: Ending) -> None:
        if not self._has_ended:
            self._has_ended = True
            self.deleteLater()
            self.ended.emit(ending)
