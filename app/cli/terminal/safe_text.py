"""Model output is untrusted: text that a terminal only ever shows, never obeys."""

from __future__ import annotations

NEWLINES = "\u2028\u2029"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
UNKNOWN = "\ufffd"


def _table() -> dict[int, str | None]:
    table: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "\u2421"
    for code in (*range(0x80, 0xA0), *range(0xD800, 0xE000), *map(ord, BIDI)):
        table[code] = UNKNOWN
    table.update((ord(newline), "\n") for newline in NEWLINES)
    table[ord("\r")] = None
    del table[ord("\n")], table[ord("\t")]
    return table


_TABLE = _table()


def safe(text: str) -> str:
    """`text` with everything that could steer a terminal made visible.

    C0 controls and DEL become their pictures (ESC: U+241B), C1 controls, bidirectional embeddings, overrides and
    isolates, and lone surrogates U+FFFD; carriage returns go. Line feeds and tabs stay. Character by character, so a
    sequence that is spread over tokens is caught too.
    """
    return text.translate(_TABLE)
