"""Text that cannot pretend to be other text: what would be invisible, reorder its neighbours or break the document
is shown as a sign. Character for character, so places in the text stay what they were."""

from __future__ import annotations

import re

UNKNOWN = "\ufffd"

_BIDI = (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))
_UNSEEN = (
    *(0x00AD, 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180E, 0x200B, 0x3164, 0xFEFF, 0xFFA0),
    *range(0x2060, 0x2066),
    *range(0x206A, 0x2070),
    *range(0x1D173, 0x1D17B),
    *range(0xE0000, 0xE1000),  # tags and the variation selectors that smuggle bytes
)
# Qt's own marks for frames and objects are among them.
_NO_TEXT = (
    *range(0xFDD0, 0xFDF0),
    *range(0xFFF0, 0xFFFD),
    *(p + e for p in range(0, 0x110000, 0x10000) for e in (0xFFFE, 0xFFFF)),
)


def _table() -> dict[int, str]:
    table = {code: chr(0x2400 + code) for code in range(0x20) if code not in (0x09, 0x0A)}
    table.update({0x7F: "\u2421", 0x2028: "\u2424", 0x2029: "\u2424"})
    for code in (*range(0x80, 0xA0), *range(0xD800, 0xE000), *_BIDI, *_UNSEEN, *_NO_TEXT):
        table[code] = UNKNOWN
    return table


_TABLE = _table()
_ODD = re.compile(
    "[^\t\n -~\u00a0-\u00ac\u00ae-\u02ff\u0370-\u0482\u2010-\u2027\u2030-\u205e\u2190-\u2bff\u3001-\u3163\u4e00-\u9fff]"
)

# Joiners where nothing is joined; more than one selector on a character; a ninth mark on a letter.
_JOINERS = re.compile("(?:(?<=[\\s!-~\u200c\u200d])|\\A)[\u200c\u200d]|[\u200c\u200d](?=[\\s!-~]|\\Z)")
_SELECTORS = re.compile("(?:(?<=[\\sA-Za-z\ufe00-\ufe0f])|\\A)[\ufe00-\ufe0f]")
_MARK = (
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u064b-\u065f\u0e31\u0e34-\u0e3a\u0e47-\u0e4e"
    "\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_FLOOD = re.compile(f"({_MARK}{{8}})({_MARK}+)")


def visible(text: str) -> str:
    """Returns `text`, as long as it was. Controls become their pictures; bidirectional controls, invisible characters,
    lone surrogates and what is no character U+FFFD. Tabs and line feeds stay, and so do single joiners between letters
    or emoji, one variation selector and eight combining marks on a character."""
    if not _ODD.search(text):
        return text
    text = text.translate(_TABLE)
    text = _SELECTORS.sub(UNKNOWN, _JOINERS.sub(UNKNOWN, text))
    return _FLOOD.sub(lambda flood: flood[1] + UNKNOWN * len(flood[2]), text)
