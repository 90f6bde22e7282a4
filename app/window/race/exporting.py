"""Pictures of a race, drawn by a process of its own while the window goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, QProcess, Signal
from PySide6.QtWidgets import QApplication

from app.race.document import RaceDocument, race_json
from app.race.drawing import Drawn, command
from app.window.look import Scheme

STOPPED = "stopped"


class Exporter(QObject):
    """One at a time. progressed(Drawn). ended(str): "" once the file is there, else why it is not."""

    progressed = Signal(object)
    ended = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process: QProcess | None = None
        self._stopped = False

    @property
    def busy(self) -> bool:
        return self._process is not None

    def begin(self, document: RaceDocument, path: Path, still: bool, scheme: Scheme) -> None:
        """Draw `document` into `path`: its end, or all of it."""
        assert self._process is None
        png, animation = (path, None) if still else (None, path)
        program, *words = command(png, animation, scheme, QApplication.font().family())
        process = self._process = QProcess(self)
        self._stopped = False
        process.readyReadStandardOutput.connect(self._hear)
        process.errorOccurred.connect(self._fail)
        process.finished.connect(self._finish)
        process.start(program, words)
        process.write(race_json(document))
        process.closeWriteChannel()

    def stop(self) -> None:
        """Nothing is left of it."""
        if self._process is not None:
            self._stopped = True
            self._process.kill()

    def close(self) -> None:
        """With the window."""
        if self._process is not None:
            self._process.kill()
            self._process.waitForFinished(1000)

    def _hear(self) -> None:
        process = self._process
        while process is not None and process.canReadLine():
            self.progressed.emit(msgspec.json.decode(bytes(process.readLine().data()), type=Drawn))

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            self._end(f"the picture could not be drawn ({self._process.errorString()})")

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._process is None:
            return
        said = bytes(self._process.readAllStandardError().data()).decode(errors="replace").strip()
        if self._stopped:
            self._end(STOPPED)
        elif code or status != QProcess.ExitStatus.NormalExit:
            last = said.splitlines()[-1] if said else "its process was ended"
            self._end(last.removeprefix("redline: "))
        else:
            self._end("")

    def _end(self, why: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
            self.ended.emit(why)
