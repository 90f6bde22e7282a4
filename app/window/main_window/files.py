"""Files that come into the window and leave it: dialogs, files dropped on the window, and the export of everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QFileDialog, QLabel, QWidget

from app.reply_statistics import count
from app.window.common.appearance import GAP
from app.window.common.file_output import FileError, file_name, write_text
from app.window.common.timer import Timer
from app.window.common.widgets import style
from app.window.composer.attachments import NO_IMAGES
from app.window.composer.prompt_editor import paths_of

if TYPE_CHECKING:
    from app.window.chat.conversation_library import ConversationLibrary

DROP_FILES = "Drop text or PDF files to attach them"
# Formats of an export: the ending of the file, and the filter of the dialog.
FORMATS = {
    "markdown": ("md", "Markdown (*.md)"),
    "json": ("json", "Redline conversation (*.json)"),
    "page": ("html", "Web page (*.html)"),
}


def ask_attachments(parent: QWidget) -> list[Path]:
    """Asks for files to attach to a message."""
    names, _ = QFileDialog.getOpenFileNames(parent, "Attach Files")
    return [Path(name) for name in names]


def ask_conversation(parent: QWidget) -> Path | None:
    """Asks for conversations that were exported, from Redline or another program."""
    name, _ = QFileDialog.getOpenFileName(parent, "Import Conversations", "", "Exported conversations (*.json *.zip)")
    return Path(name) if name else None


def ask_export_path(parent: QWidget, title: str, kind: str) -> Path | None:
    """Asks where to save a conversation. kind: one of FORMATS."""
    ending, shown = FORMATS[kind]
    name, _ = QFileDialog.getSaveFileName(parent, "Export Conversation", f"{file_name(title)}.{ending}", shown)
    return Path(name) if name else None


def ask_folder(parent: QWidget) -> Path | None:
    """Asks for the folder in which to save all conversations."""
    name = QFileDialog.getExistingDirectory(parent, "Export All Conversations")
    return Path(name) if name else None


class ConversationExport(QObject):
    """Writes every conversation as JSON into a folder, one at a time while the window is idle.

    report: is given the progress as text.
    """

    def __init__(
        self, folder: Path, library: ConversationLibrary, report: Callable[[str], None], parent: QObject
    ) -> None:
        super().__init__(parent)
        self._folder, self._library, self._report = folder, library, report
        self._records = library.conversations()
        self._written = 0
        self._taken = set[str]()  # names of files in lower case, as some file systems ignore case
        with suppress(OSError):  # writing will say what is wrong
            self._taken = {path.name.casefold() for path in folder.iterdir()}
        self._timer = Timer(self, interval=0)
        self._timer.timeout.connect(self._write_next)
        self._timer.start()

    def _write_next(self) -> None:
        if not self._records:
            self._end(f"Exported {count(self._written, 'conversation')} to {self._folder}.")
            return
        record = self._records.pop(0)
        try:
            if text := self._library.export_json(record.id):
                write_text(self._unused_path(record.title), text)
                self._written += 1
        except FileError as error:
            self._end(str(error))
            return
        self._report(f"Exported {self._written:,}, {len(self._records):,} remaining.")

    def _unused_path(self, title: str) -> Path:
        """Returns a path that no other conversation and no file in the folder has."""
        names = (f"{file_name(title)}{f' {number}' if number > 1 else ''}.json" for number in itertools.count(1))
        name = next(name for name in names if name.casefold() not in self._taken)
        self._taken.add(name.casefold())
        return self._folder / name

    def _end(self, text: str) -> None:
        self._timer.stop()
        self._report(text)
        self.deleteLater()


class DropTarget(QObject):
    """Accepts files dropped anywhere on the window, and says so while they hover over it. dropped(list[Path]).
    image_dropped(): a picture that is no file, as from a web page, which cannot be attached."""

    dropped = Signal(list)
    image_dropped = Signal()

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self.overlay = QLabel(window)
        style(self.overlay, kind="drop")
        self.overlay.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.overlay.hide()
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDragEnterEvent) and (paths_of(event.mimeData()) or event.mimeData().hasImage()):
            event.acceptProposedAction()
            self.overlay.setText(DROP_FILES if paths_of(event.mimeData()) else NO_IMAGES)
            self.overlay.setGeometry(self._window.rect().adjusted(GAP, GAP, -GAP, -GAP))
            self.overlay.raise_()
            self.overlay.show()
            return True
        if event.type() == QEvent.Type.DragLeave:
            self.overlay.hide()
        elif event.type() == QEvent.Type.Drop and isinstance(event, QDropEvent):
            self.overlay.hide()
            event.acceptProposedAction()
            if paths := paths_of(event.mimeData()):
                self.dropped.emit(paths)
            elif event.mimeData().hasImage():
                self.image_dropped.emit()
            return True
        return False
