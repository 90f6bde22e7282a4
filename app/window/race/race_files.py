"""Files of races: the dialogs that ask for them, and pictures that a process draws while the window goes on."""

from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, QProcessEnvironment, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from app.palette import Scheme
from app.race.race_document import RaceDocument, race_json
from app.race.race_export import NO_SCREEN, drawing_command, progress_in, reason_in
from app.window.common.child_process import ChildProcess, Ending
from app.window.common.file_output import file_name

CANCELLED = "cancelled"


class FileKind(NamedTuple):
    """A way to export a race. label: of the menu item. filter: of the file dialog."""

    label: str
    ending: str
    filter: str


KINDS = {
    "png": FileKind("Picture (PNG)…", ".png", "Picture (*.png)"),
    "gif": FileKind("Animation (GIF)…", ".gif", "Animation (*.gif)"),
    "webp": FileKind("Animation (WebP)…", ".webp", "Animation (*.webp)"),
    "apng": FileKind("Animation (animated PNG)…", ".png", "Animated PNG (*.png)"),
    "html": FileKind("Web Page…", ".html", "Web page (*.html)"),
    "json": FileKind("Race to Replay (JSON)…", ".json", "Redline race (*.json)"),
}


def ask_where(parent: QWidget, kind: str, document: RaceDocument) -> Path | None:
    """Asks where to export a race to. kind: of KINDS. Returns None if the user cancels."""
    name, ending = f"Race {file_name(document.prompt)}"[:64].strip(), KINDS[kind].ending
    chosen, _ = QFileDialog.getSaveFileName(parent, "Export Race", f"{name}{ending}", KINDS[kind].filter)
    return with_ending(Path(chosen), ending) if chosen else None


def ask_race(parent: QWidget) -> Path | None:
    """Asks for a saved race. Returns None if the user cancels."""
    chosen, _ = QFileDialog.getOpenFileName(parent, "Open Race", "", KINDS["json"].filter)
    return Path(chosen) if chosen else None


def with_ending(path: Path, ending: str) -> Path:
    """Adds the ending to a name that was typed without it: it decides the format."""
    return path if path.suffix.lower() == ending else path.with_name(path.name + ending)


class PictureExport(QObject):
    """Draws one picture at a time, with the process of `app.race.race_export`. progressed(float): the share that is
    done. ended(str): "" once the file is written, CANCELLED, or why it is not."""

    progressed = Signal(float)
    ended = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._child: ChildProcess | None = None

    @property
    def busy(self) -> bool:
        """Whether a picture is being drawn."""
        return self._child is not None

    def begin(self, document: RaceDocument, path: Path, animated: bool, scheme: Scheme) -> None:
        """Draws `document` to `path`: all of it, or its end."""
        assert self._child is None
        child = self._child = ChildProcess(self)
        child.line.connect(self._read)
        child.ended.connect(self._end)
        environment = QProcessEnvironment.systemEnvironment()
        for name, value in NO_SCREEN.items():
            environment.insert(name, value)
        child.setProcessEnvironment(environment)
        picture, animation = (None, path) if animated else (path, None)
        child.begin(drawing_command(picture, animation, scheme), race_json(document))

    def cancel(self) -> None:
        """Ends the export; nothing is left of it."""
        if self._child is not None:
            self._child.stop()

    def _read(self, line: bytes) -> None:
        done, total = progress_in(line)
        self.progressed.emit(done / max(1, total))

    def _end(self, ending: Ending) -> None:
        self._child = None
        if ending.stopped:
            self.ended.emit(CANCELLED)
        elif ending.not_started:
            self.ended.emit(f"the picture could not be drawn ({ending.not_started})")
        else:
            self.ended.emit(reason_in(ending.errors) if ending.failed else "")
