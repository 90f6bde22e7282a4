"""Files that the window writes: a file name from a title, and text files that are complete or not there at all."""

from __future__ import annotations

import re
from pathlib import Path

from PySide6.QtCore import QIODevice, QSaveFile

from engine.errors import RedlineError

LONGEST_NAME = 60


class FileError(RedlineError):
    """A file could not be written. Says which one, why, and what to do."""


def file_name(title: str) -> str:
    """Returns `title` as a file name, without suffix, that every file system accepts."""
    plain = " ".join(re.sub(r'[\\/:*?"<>|\x00-\x1f]', " ", title).split()).strip(". ")
    return plain[:LONGEST_NAME].rstrip(". ") or "Chat"


def write_text(path: Path, text: str) -> None:
    """Writes the complete file, or raises FileError and leaves what was there."""
    file = QSaveFile(str(path))
    data = text.encode()
    if not file.open(QIODevice.OpenModeFlag.WriteOnly) or file.write(data) != len(data) or not file.commit():
        raise FileError(f"“{path.name}” could not be saved ({file.errorString()}). Choose another place.")
