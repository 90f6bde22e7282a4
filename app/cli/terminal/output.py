"""What is printed in a terminal: text that cannot steer it, and tables that all look alike."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

_NEWLINES = "\u2028\u2029"
_BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_UNKNOWN = "\ufffd"
_WIDE_COLUMNS = 100


def _pictures() -> dict[int, str | None]:
    table: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "\u2421"
    for code in (*range(0x80, 0xA0), *range(0xD800, 0xE000), *map(ord, _BIDI)):
        table[code] = _UNKNOWN
    table.update((ord(newline), "\n") for newline in _NEWLINES)
    table[ord("\r")] = None
    del table[ord("\n")], table[ord("\t")]
    return table


_PICTURES = _pictures()


def safe(text: str) -> str:
    """Returns untrusted text, such as a model's, with everything that could steer a terminal made visible.

    C0 controls and DEL become their pictures (ESC: U+241B), C1 controls, bidirectional embeddings, overrides and
    isolates, and lone surrogates U+FFFD; carriage returns go. Line feeds and tabs stay. Character by character, so a
    sequence that is spread over tokens is caught too.
    """
    return text.translate(_PICTURES)


def output_console(wide: bool = False) -> Console:
    """Returns the console of standard output. wide: in a pipe, use as many columns as the largest tables need."""
    return Console(width=_WIDE_COLUMNS if wide and not sys.stdout.isatty() else None, highlight=False)


def plain_table(texts: Sequence[str], numbers: Sequence[str] = ()) -> Table:
    """Returns a table without lines. texts: titles of the columns that wrap; numbers: of those aligned to the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    return _with_columns(table, texts, numbers)


def ruled_table(texts: Sequence[str], numbers: Sequence[str]) -> Table:
    """Returns a table with a line below its titles and between its sections; columns as in `plain_table`."""
    return _with_columns(Table(box=box.SIMPLE_HEAD, pad_edge=False), texts, numbers)


def _with_columns(table: Table, texts: Sequence[str], numbers: Sequence[str]) -> Table:
    for title in texts:
        table.add_column(title, overflow="fold")
    for title in numbers:
        table.add_column(title, justify="right", no_wrap=True)
    return table
