"""Attachments of a message: text files and long pastes, and the chips that show them above the text."""

import codecs
import re
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from unicodedata import category

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QSizePolicy, QWidget

from app.store.records import Attachment
from app.window.common.layouts import FlowLayout, clear, row
from app.window.common.widgets import Glyph, IconButton, label, style
from engine.errors import RedlineError
from models.size_text import size_words

NO_IMAGES = "Images cannot be attached: the models read text only. Paste the text instead."
LARGEST_BYTES = 1_000_000  # of one file, which is more than a context holds
MAX_CHARACTERS = 2_000_000  # of all attachments of a message, well within the limit for a line of the protocol
LONG_PASTE, LONG_PASTE_LINES = 4_000, 80  # characters, lines: a paste from here on becomes an attachment
WIDEST_NAME = 220  # px, of the name in a chip

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Encodings of texts that are neither UTF-8 nor marked, in the order in which they are tried.
_LEGACY = ["gb18030", "cp932", "euc_jp", "cp949", "big5", "cp1252", "cp1251", "cp1253", "cp1255", "cp1256", "cp874"]
_NAMES = {
    "utf_16_le": "UTF-16",
    "utf_16_be": "UTF-16",
    "gb18030": "GBK",
    "cp932": "Shift-JIS",
    "euc_jp": "EUC-JP",
    "big5": "Big5",
    "cp949": "EUC-KR",
    "cp874": "TIS-620",
    **{f"cp{number}": f"Windows-{number}" for number in (1251, 1252, 1253, 1255, 1256)},
}
_WESTERN = re.compile(rb"(?:[\0-\x7f]|(?<![\x80-\xff])[\x80\x85\x91-\x97\xa0-\xff](?![\x80-\xff]))*")
_MOST_ACCENTS = 0.3  # of the bytes of a word in a Western language
_KANA = re.compile("[\u3041-\u30ff]")
_FEWEST_KANA = 0.15  # of what is not ASCII in a Japanese text
_MOST_UNASSIGNED = 0.02  # of the characters of a text that is taken to be UTF-16
_IMAGES = (rb"\x89PNG", rb"\xff\xd8\xff", rb"GIF8", rb"II\*\0", rb"MM\0\*", rb"RIFF.{4}WEBP", rb".{4}ftyp(hei|avi|mif)")
_KINDS = (
    (re.compile(rb"PK\x03\x04"), "a zip archive or an Office document"),
    (re.compile(b"|".join(_IMAGES), re.DOTALL), "an image"),
)
_CONTROL = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


class AttachmentError(RedlineError):
    """A file cannot be attached. Says which one, why, and what to do."""


def read_file(path: Path) -> tuple[Attachment, str]:
    """Returns the text of a file, and which encoding it was taken to have where that had to be guessed, as a sentence.
    Raises AttachmentError unless it is a readable text of at most LARGEST_BYTES."""
    name = path.name or str(path)
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode):
            raise AttachmentError(f"“{name}” is a folder. Attach the files in it instead.")
        if not stat.S_ISREG(status.st_mode):
            raise AttachmentError(f"“{name}” is not a regular file. Save its text to a file first.")
        if status.st_size > LARGEST_BYTES:
            raise AttachmentError(
                f"“{name}” is too large: the limit is {size_words(LARGEST_BYTES)}. Attach part of it."
            )
        data = path.read_bytes()
    except FileNotFoundError as error:
        raise AttachmentError(f"“{name}” no longer exists. Choose it again.") from error
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise AttachmentError(f"“{name}” could not be read ({why}). Check its permissions.") from error
    encoding = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "")
    guessed = "" if encoding else _encoding_of(name, data)
    attachment = Attachment(name=name, text=_decode(name, data, encoding or guessed))
    return attachment, "" if guessed in ("", "utf-8") else _note(name, guessed)


def from_paste(text: str, used_names: Iterable[str]) -> Attachment:
    """Returns a long paste as an attachment, under a name that is not used yet."""
    names, number = set(used_names), 1
    while (name := f"Pasted text {number}.txt" if number > 1 else "Pasted text.txt") in names:
        number += 1
    return Attachment(name=name, text=text)


def is_long(text: str) -> bool:
    """Returns whether a paste is long enough to become an attachment."""
    return len(text) >= LONG_PASTE or text.count("\n") >= LONG_PASTE_LINES


def check_total(attachments: Sequence[Attachment]) -> None:
    """Raises AttachmentError if these are too long for one message."""
    if sum(len(a.text) for a in attachments) > MAX_CHARACTERS:
        raise AttachmentError(f"The attachments exceed {MAX_CHARACTERS:,} characters in total. Remove some of them.")


def _note(name: str, encoding: str) -> str:
    known = _NAMES.get(encoding, encoding)
    return f"“{name}” was read as {known}. If its characters look wrong, save it as UTF-8 and attach it again."


def _decode(name: str, data: bytes, encoding: str) -> str:
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise AttachmentError(f"“{name}” is damaged text. Save it as UTF-8 and try again.") from error
    if not text.strip():
        raise AttachmentError(f"“{name}” is empty.")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _encoding_of(name: str, data: bytes) -> str:
    """Returns the encoding of a text without a byte order mark: UTF-8, or else the most likely one. Raises
    AttachmentError."""
    _refuse_kinds(name, data)
    with suppress(UnicodeDecodeError):
        data.decode()
        if not _has_controls(data):
            return "utf-8"
    binary = f"“{name}” is a binary file. Only text and PDF files can be attached."
    if b"\0" in data:
        return _wide_encoding(data, binary)
    if _has_controls(data):
        raise AttachmentError(binary)
    if _is_damaged_utf8(data):
        return "utf-8"
    if _is_japanese(data):
        return "euc_jp"
    if _is_western(data):
        return "cp1252"
    from charset_normalizer import from_bytes  # which loads all of Python's codecs

    best = from_bytes(data, cp_isolation=_LEGACY).best()
    if best is None or _has_controls(str(best).encode(errors="replace")):
        raise AttachmentError(binary)
    return best.encoding


def _is_japanese(data: bytes) -> bool:
    """Whether a text is EUC-JP. Its kana are kana in encodings of Chinese and Korean, too, but such texts have none."""
    try:
        text = data.decode("euc_jp")
    except UnicodeDecodeError:
        return False
    return len(_KANA.findall(text)) > _FEWEST_KANA * sum(character > "\x7f" for character in text)


def _is_western(data: bytes) -> bool:
    """Whether single letters with accents stand among those of ASCII: too few for a detector to recognise."""
    accents = len(data.translate(None, bytes(range(128))))
    return accents <= _MOST_ACCENTS * len(data) and _WESTERN.fullmatch(data) is not None


def _wide_encoding(data: bytes, binary: str) -> str:
    """Returns the byte order of UTF-16: of each pair, the byte that names the block of a character varies less. Raises
    AttachmentError(binary) for what is no text."""
    encoding = "utf_16_le" if len(set(data[1::2])) <= len(set(data[::2])) else "utf_16_be"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise AttachmentError(binary) from error
    unassigned = sum(category(character) in ("Cn", "Co") for character in text)
    if _has_controls(text.encode()) or unassigned > _MOST_UNASSIGNED * len(text):
        raise AttachmentError(binary)
    return encoding


def _is_damaged_utf8(data: bytes) -> bool:
    """Whether most characters beyond ASCII are valid UTF-8, which those of other encodings are only by chance."""
    text = data.decode(errors="replace")
    return sum(character > "\x7f" for character in text) > 2 * text.count("\ufffd")


def _has_controls(data: bytes) -> bool:
    return data.translate(None, _CONTROL) != data


def _refuse_kinds(name: str, data: bytes) -> None:
    """Raises AttachmentError for a file that begins as one of a kind that is not text."""
    kind = next((kind for start, kind in _KINDS if start.match(data)), "")
    if kind:
        raise AttachmentError(f"“{name}” is {kind}. Only text and PDF files can be attached; copy its text instead.")


class Chip(QFrame):
    """One attachment: its name, its size, and a button that removes it."""

    def __init__(self, attachment: Attachment, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        style(self, kind="chip")
        self.setAccessibleName(f"Attachment {attachment.name}")
        self.setToolTip(f"{attachment.name}\n\n{attachment.text[:400]}")
        name = label(role="detail", tone="text")
        name.ensurePolished()
        name.setText(name.fontMetrics().elidedText(attachment.name, Qt.TextElideMode.ElideMiddle, WIDEST_NAME))
        self.remove = IconButton("close", f"Remove {attachment.name}", size=24)
        size = label(size_words(len(attachment.text)), "detail")
        row(Glyph("file", "faint"), name, size, self.remove, on=self, margins=(8, 2, 3, 2), gap=6)


class Chips(QWidget):
    """The attachments of a message, in as many rows as they need. removed(int): the user removes the one at this
    place. all: the chips in order."""

    removed = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.all: list[Chip] = []
        self._flow = FlowLayout(self)
        self._flow.setContentsMargins(0, 0, 0, 4)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setAccessibleName("Attachments")
        self.hide()

    def show_all(self, attachments: Sequence[Attachment]) -> None:
        """Shows these attachments."""
        clear(self._flow)
        self.all = [Chip(attachment, self) for attachment in attachments]
        for place, chip in enumerate(self.all):
            chip.remove.clicked.connect(lambda _=False, place=place: self.removed.emit(place))
            self._flow.addWidget(chip)
        self.setVisible(bool(attachments))
        self.updateGeometry()
