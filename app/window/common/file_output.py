"""Files that the window writes: a file name from a title, and text files that are complete or not there at all."""

import os
import re
from pathlib import Path

from engine.errors import RedlineError
from models.durable_files import disk_errors, replace_file

LONGEST_NAME = 60


class FileError(RedlineError):
    """A file could not be written. Says which one, why, and what to do."""


def file_name(title: str) -> str:
    """Returns `title` as a file name, without suffix, that every file system accepts."""
    plain = " ".join(re.sub(r'[\\/:*?"<>|\x00-\x1f]', " ", title).split()).strip(". ")
    return plain[:LONGEST_NAME].rstrip(". ") or "Chat"


def write_text(path: Path, text: str) -> None:
    """Writes the complete file, where `path` is a link the one it leads to, or raises FileError and leaves what was
    there."""
    with disk_errors(lambda why: FileError(f"“{path.name}” could not be saved ({why}). Choose another place.")):
        replace_file(Path(os.path.realpath(path)), text.encode())
