"""Files of races: the dialogs that ask for them, and pictures that another process draws while the window goes on."""

from __future__ import annotations

from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, QProcess, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.palette import Scheme
from app.race.picture_export import ExportProgress, command
from app.race.race_document import RaceDocument, race_json
from app.window.common.file_output import file_name

ENDINGS = {"png": ".png", "gif": ".gif", "webp": ".webp", "apng": ".png", "json": ".json"}
FILTERS = {
    "png": "Picture (*.png)",
    "gif": "Animation (*.gif)",
    "webp": "Animation (*.webp)",
    "apng": "Animated PNG (*.png)",
    "json": "Redline race (*.json)",
}
CANCELLED = "cancelled"


def ask_where(parent: QWidget, kind: str, document: RaceDocument) -> Path | None:
    """Asks where to save a race. kind: of ENDINGS. None where the user cancels."""
    name = f"Race {file_name(document.prompt)}"[:64].strip()
    chosen, _ = QFileDialog.getSaveFileName(parent, "Save Race", f"{name}{ENDINGS[kind]}", FILTERS[kind])
    return with_ending(Path(chosen), kind) if chosen else None


def ask_race(parent: QWidget) -> Path | None:
    """Asks for a saved race. None where the user cancels."""
    chosen, _ = QFileDialog.getOpenFileName(parent, "Open Race", "", FILTERS["json"])
    return Path(chosen) if chosen else None


def with_ending(path: Path, kind: str) -> Path:
    """Adds the ending to a name that was typed without it: it decides the format."""
    return path if path.suffix.lower() == ENDINGS[kind] else path.with_name(path.name + ENDINGS[kind])


class PictureExport(QObject):
    """One export at a time. progressed(ExportProgress). ended(str): "" once the file is there, else why it is not."""

    progressed = Signal(object)
    ended = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._process: QProcess | None = None
        self._cancelled = False

    @property
    def busy(self) -> bool:
        """Whether a picture is being drawn."""
        return self._process is not None

    def begin(self, document: RaceDocument, path: Path, animated: bool, scheme: Scheme) -> None:
        """Draws `document` into `path`: all of it, or its end."""
        assert self._process is None
        program, *words = command(path, animated, scheme)
        process = self._process = QProcess(self)
        self._cancelled = False
        process.readyReadStandardOutput.connect(self._read)
        process.errorOccurred.connect(self._fail)
        process.finished.connect(self._finish)
        process.start(program, words)
        process.write(race_json(document))
        process.closeWriteChannel()

    def cancel(self) -> None:
        """Ends the export; nothing is left of it."""
        if self._process is not None:
            self._cancelled = True
            self._process.kill()

    def close(self) -> None:
        """Ends the export with the window."""
        if self._process is not None:
            self._process.kill()
            self._process.waitForFinished(1000)

    def _read(self) -> None:
        process = self._process
        while process is not None and process.canReadLine():
            self.progressed.emit(msgspec.json.decode(bytes(process.readLine().data()), type=ExportProgress))

    def _fail(self, error: QProcess.ProcessError) -> None:
        if error == QProcess.ProcessError.FailedToStart and self._process is not None:
            self._end(f"the picture could not be drawn ({self._process.errorString()})")

    def _finish(self, code: int, status: QProcess.ExitStatus) -> None:
        if self._process is None:
            return
        errors = bytes(self._process.readAllStandardError().data()).decode(errors="replace").strip()
        if self._cancelled:
            self._end(CANCELLED)
        elif code or status != QProcess.ExitStatus.NormalExit:
            last = errors.splitlines()[-1] if errors else "the process that draws ended unexpectedly"
            self._end(last.removeprefix("redline: "))
        else:
            self._end("")

    def _end(self, why: str) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.deleteLater()
            self.ended.emit(why)
