"""From a file on disk to text that goes with a question, or the reason why not. Knows no Qt."""

from __future__ import annotations

import codecs
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from app.records import Attachment
from engine.errors import RedlineError

LARGEST_BYTES = 1_000_000  # of one file: more than any context here holds
LARGEST_SUM = 2_000_000  # characters with one question, well within one line of the protocol
LONG_PASTE, LONG_PASTE_LINES = 4_000, 80  # characters, lines: from here on a paste is easier to read as an attachment

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KINDS = ((b"%PDF", "a PDF"), (b"PK\x03\x04", "a zip archive or an Office document"), (b"\x89PNG", "a picture"))
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


class AttachmentError(RedlineError):
    """A file that cannot go with a question: which, why, and what to do."""


def read_file(path: Path) -> Attachment:
    """The text of a file. Raises AttachmentError for what is no readable text file of at most LARGEST_BYTES."""
    name = path.name or str(path)
    try:
        state = path.stat()
        if stat.S_ISDIR(state.st_mode):
            raise AttachmentError(f"“{name}” is a folder: attach the files that are in it")
        if not stat.S_ISREG(state.st_mode):
            raise AttachmentError(f"“{name}” is a device or a pipe, not a file: save its text to a file first")
        if state.st_size > LARGEST_BYTES:
            raise AttachmentError(
                f"“{name}” has {size_of(state.st_size)}, the most is {size_of(LARGEST_BYTES)}: attach a part of it"
            )
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise AttachmentError(f"“{name}” is not there any more: choose it again") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AttachmentError(f"“{name}” cannot be read ({why}): check its permissions") from error
    return Attachment(name=name, text=_decoded(name, data))


def pasted(text: str, taken: Iterable[str]) -> Attachment:
    """A long paste as an attachment, under a name that is not among `taken`."""
    names, number = set(taken), 1
    while (name := f"Pasted text {number}.txt" if number > 1 else "Pasted text.txt") in names:
        number += 1
    return Attachment(name=name, text=text)


def is_long(text: str) -> bool:
    """Whether a paste is better kept beside the question than in it."""
    return len(text) >= LONG_PASTE or text.count("\n") >= LONG_PASTE_LINES


def check_sum(attachments: Sequence[Attachment]) -> None:
    """Raises AttachmentError where these are too much for one question."""
    if sum(len(a.text) for a in attachments) > LARGEST_SUM:
        most = f"{LARGEST_SUM:,}"
        raise AttachmentError(f"the attachments have more than {most} characters together: remove some of them")


def size_of(count: int) -> str:
    """Bytes or characters, for people."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB".replace(".0 ", " ")


def _decoded(name: str, data: bytes) -> str:
    encoding = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "")
    if not encoding:
        _refuse_binary(name, data)
    try:
        text = data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        raise AttachmentError(f"“{name}” is not text in UTF-8 or UTF-16: save it as UTF-8 and try again") from error
    if not text.strip():
        raise AttachmentError(f"“{name}” is empty: there is nothing to attach")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _refuse_binary(name: str, data: bytes) -> None:
    kind = next((kind for start, kind in _KINDS if data.startswith(start)), "")
    if kind:
        raise AttachmentError(f"“{name}” is {kind}, and only plain text can be attached: copy its text instead")
    if data.translate(None, _CONTROL) != data:
        raise AttachmentError(f"“{name}” is binary, and only plain text can be attached")
