"""Attachments of a message: text files and long pastes as values, and the chips that show them above the text."""

from __future__ import annotations

import codecs
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QWidget

from app.store.records import Attachment
from app.window.common.flow_layout import FlowLayout
from app.window.common.widgets import Glyph, IconButton, label, style
from engine.errors import RedlineError

LARGEST_BYTES = 1_000_000  # of one file: more than any context here holds
MAX_CHARACTERS = 2_000_000  # with one message, well within one line of the protocol
LONG_PASTE, LONG_PASTE_LINES = 4_000, 80  # characters, lines: a longer paste is easier to read as an attachment
WIDEST_NAME = 220  # px, in a chip

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_KINDS = ((b"%PDF", "a PDF"), (b"PK\x03\x04", "a zip archive or an Office document"), (b"\x89PNG", "an image"))
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


class AttachmentError(RedlineError):
    """A file that cannot be attached: which, why, and what to do."""


def read_file(path: Path) -> Attachment:
    """Returns the text of a file. Raises AttachmentError unless it is a readable text of at most LARGEST_BYTES."""
    name = path.name or str(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise AttachmentError(f"“{name}” is a folder. Attach the files in it instead.")
        if not stat.S_ISREG(status.st_mode):
            raise AttachmentError(f"“{name}” is not a regular file. Save its text to a file first.")
        if status.st_size > LARGEST_BYTES:
            largest = size_text(LARGEST_BYTES)
            raise AttachmentError(
                f"“{name}” is {size_text(status.st_size)}; the limit is {largest}. Attach part of it."
            )
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise AttachmentError(f"“{name}” no longer exists. Choose it again.") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AttachmentError(f"“{name}” could not be read ({why}). Check its permissions.") from error
    return Attachment(name=name, text=_decode(name, data))


def from_paste(text: str, used_names: Iterable[str]) -> Attachment:
    """Returns a long paste as an attachment with a name of its own."""
    names, number = set(used_names), 1
    while (name := f"Pasted text {number}.txt" if number > 1 else "Pasted text.txt") in names:
        number += 1
    return Attachment(name=name, text=text)


def is_long(text: str) -> bool:
    """Returns whether a paste is better attached than inserted."""
    return len(text) >= LONG_PASTE or text.count("\n") >= LONG_PASTE_LINES


def check_total(attachments: Sequence[Attachment]) -> None:
    """Raises AttachmentError where these are too much for one message."""
    if sum(len(a.text) for a in attachments) > MAX_CHARACTERS:
        raise AttachmentError(f"The attachments exceed {MAX_CHARACTERS:,} characters in total. Remove some of them.")


def size_text(count: int) -> str:
    """Returns a number of bytes or characters for people."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.0f} KB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB".replace(".0 ", " ")


def _decode(name: str, data: bytes) -> str:
    encoding = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "")
    if not encoding:
        _refuse_binary(name, data)
    try:
        text = data.decode(encoding or "utf-8")
    except UnicodeDecodeError as error:
        raise AttachmentError(f"“{name}” is not UTF-8 or UTF-16 text. Save it as UTF-8 and try again.") from error
    if not text.strip():
        raise AttachmentError(f"“{name}” is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _refuse_binary(name: str, data: bytes) -> None:
    kind = next((kind for start, kind in _KINDS if data.startswith(start)), "")
    if kind:
        raise AttachmentError(f"“{name}” is {kind}. Only plain text can be attached; copy its text instead.")
    if data.translate(None, _CONTROL) != data:
        raise AttachmentError(f"“{name}” is a binary file. Only plain text can be attached.")


class Chip(QFrame):
    """One attachment: its name, its size, and a button that removes it. removed(): by that button."""

    removed = Signal()

    def __init__(self, attachment: Attachment, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="chip")
        self.setAccessibleName(f"Attachment {attachment.name}")
        self.setToolTip(f"{attachment.name}\n\n{attachment.text[:400]}")
        name = label(role="detail", tone="text")
        name.ensurePolished()
        name.setText(name.fontMetrics().elidedText(attachment.name, Qt.TextElideMode.ElideMiddle, WIDEST_NAME))
        self.remove = IconButton("close", f"Remove {attachment.name}", size=24)
        self.remove.clicked.connect(self.removed)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 3, 2)
        row.setSpacing(6)
        for widget in (Glyph("file", "faint"), name, label(size_text(len(attachment.text)), "detail"), self.remove):
            row.addWidget(widget)


class Chips(QWidget):
    """The attachments, in as many rows as they need. removed(int): the place of the one that was removed."""

    removed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._flow = FlowLayout(self)
        self._flow.setContentsMargins(0, 0, 0, 4)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Attachments")
        self.hide()

    def show_all(self, attachments: Sequence[Attachment]) -> None:
        """Shows these attachments."""
        while (item := self._flow.takeAt(0)) is not None:
            if (old := item.widget()) is not None:
                old.hide()
                old.deleteLater()
        for place, attachment in enumerate(attachments):
            chip = Chip(attachment, self)
            chip.removed.connect(lambda place=place: self.removed.emit(place))
            self._flow.addWidget(chip)
        self.setVisible(bool(attachments))
        self.updateGeometry()

    @property
    def all(self) -> list[Chip]:
        """The chips in order."""
        items = (self._flow.itemAt(i) for i in range(self._flow.count()))
        widgets = (item.widget() for item in items if item is not None)
        return [widget for widget in widgets if isinstance(widget, Chip)]
