"""Files that the user is asked for, and what is written to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QIODevice, QObject, QSaveFile, QTimer
from PySide6.QtWidgets import QFileDialog, QWidget

from app.records import ConversationRecord
from engine.errors import RedlineError

LONGEST_NAME = 60
KINDS = {"markdown": ("md", "Markdown (*.md)"), "json": ("json", "Redline conversation (*.json)")}


class FileError(RedlineError):
    """A file could not be written: which, why, and what to do."""


def ask_attachments(parent: QWidget) -> list[Path]:
    """Files to go with a question."""
    names, _ = QFileDialog.getOpenFileNames(parent, "Attach text files")
    return [Path(name) for name in names]


def ask_conversation(parent: QWidget) -> Path | None:
    """A conversation that was exported."""
    name, _ = QFileDialog.getOpenFileName(parent, "Import a conversation", "", KINDS["json"][1])
    return Path(name) if name else None


def ask_where(parent: QWidget, title: str, kind: str) -> Path | None:
    """Where to export to. kind: one of KINDS."""
    ending, shown = KINDS[kind]
    name, _ = QFileDialog.getSaveFileName(parent, "Export the conversation", f"{file_name(title)}.{ending}", shown)
    return Path(name) if name else None


def ask_folder(parent: QWidget) -> Path | None:
    """Where to export everything to."""
    name = QFileDialog.getExistingDirectory(parent, "Export all conversations to")
    return Path(name) if name else None


def file_name(title: str) -> str:
    """`title` as a name that every file system takes."""
    plain = " ".join(re.sub(r'[\\/:*?"<>|\x00-\x1f]', " ", title).split()).strip(". ")
    return plain[:LONGEST_NAME].rstrip(". ") or "Chat"


def write_text(path: Path, text: str) -> None:
    """Whole or not at all. Raises FileError."""
    file = QSaveFile(str(path))
    data = text.encode()
    if not file.open(QIODevice.OpenModeFlag.WriteOnly) or file.write(data) != len(data) or not file.commit():
        raise FileError(f"“{path.name}” cannot be written ({file.errorString()}): choose another place")


class ExportAll(QObject):
    """Writes every conversation as JSON into a folder, one each time the window has nothing better to do.

    say(text) is told how it goes; `text_of` gives the JSON of a conversation, "" where it cannot.
    """

    def __init__(
        self,
        folder: Path,
        records: Sequence[ConversationRecord],
        text_of: Callable[[int], str],
        say: Callable[[str], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._folder, self._records, self._text_of, self._say = folder, list(records), text_of, say
        self._written, self._taken = 0, set[str]()
        self._timer = QTimer(self, interval=0)
        self._timer.timeout.connect(self._next)
        self._timer.start()

    def _next(self) -> None:
        if not self._records:
            self._end(f"{self._written:,} conversations are in {self._folder}.")
            return
        record = self._records.pop(0)
        try:
            if text := self._text_of(record.id):
                write_text(self._folder / self._name(record), text)
                self._written += 1
        except FileError as error:
            self._end(str(error))
            return
        self._say(f"{self._written:,} written, {len(self._records):,} to go.")

    def _name(self, record: ConversationRecord) -> str:
        """A name that none of the others has, and no file in the folder."""
        name, number = file_name(record.title), 1
        while (whole := f"{name} {number}.json" if number > 1 else f"{name}.json").casefold() in self._taken or (
            self._folder / whole
        ).exists():
            number += 1
        self._taken.add(whole.casefold())
        return whole

    def _end(self, said: str) -> None:
        self._timer.stop()
        self._say(said)
        self.deleteLater()
