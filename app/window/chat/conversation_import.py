"""Imports conversations in a process of its own, which writes them to the store while the window goes on."""

import json
import sys
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app.store import Store
from app.window.chat.notices import Notice
from app.window.common.child_process import ChildProcess, Ending
from app.window.common.sentence import sentence

BUSY = "Redline imports one file at a time. Wait for the one that is being imported, or cancel it."
DIED = "The import ended early, and nothing was changed. Free up memory, then import the file again."
NOT_STARTED = "The import did not start. Restart Redline, then import the file again."


class ConversationImport(QObject):
    """Imports one file at a time. progressed(text, share): what is being done, and how much of it is, 0 to 1; "" once
    it has ended. imported(list[int]): the new conversations, the one that was changed last first. notice(Notice): why a
    file was not imported; nothing of it is then."""

    progressed = Signal(str, float)
    imported = Signal(list)
    notice = Signal(object)

    def __init__(self, store: Store, parent: QObject) -> None:
        super().__init__(parent)
        self._store = store
        self._child: ChildProcess | None = None

    @property
    def running(self) -> bool:
        """Whether a file is being imported."""
        return self._child is not None

    def begin(self, file: Path) -> None:
        """Imports this file."""
        if self.running:
            self.notice.emit(Notice("info", BUSY))
            return
        self.progressed.emit(f"Reading “{file.name}”…", 0.0)
        self._child = ChildProcess(self)
        self._child.line.connect(self._receive)
        self._child.ended.connect(self._finish)
        self._child.begin([sys.executable, "-P", "-m", "app.store.import_files", str(self._store.file), str(file)])

    def cancel(self) -> None:
        """Ends the import. What it has written is deleted at the next start, and is not shown until then."""
        if self._child is not None:
            self._child.stop()

    def _receive(self, line: bytes) -> None:
        said = json.loads(line)
        if "done" in said:
            done, of = said["done"], said["of"]
            self.progressed.emit(f"Importing {done:,} of {of:,} conversations…", done / of)

    def _finish(self, ending: Ending) -> None:
        self._child = None
        self.progressed.emit("", 1.0)
        answer = ending.answer
        if "imported" in answer:
            self.imported.emit(answer["imported"])
        elif not ending.stopped:
            died = NOT_STARTED if ending.not_started else DIED
            self.notice.emit(Notice("error", sentence(answer["error"]) if "error" in answer else died))
