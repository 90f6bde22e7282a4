"""What is printed in a terminal: text that cannot steer it, and tables that all look alike."""

import sys
from collections.abc import Iterator, Sequence
from typing import TextIO

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table

from app.safe_text import safe, trusted

_WIDE_COLUMNS = 100


class SafeConsole(Console):
    """A console that prints untrusted text as it is: by `safe`, and without reading markup or emoji into it."""

    def __init__(self, file: TextIO, width: int | None = None) -> None:
        super().__init__(file=trusted(file), width=width, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """Yields the segments of `renderable`; those that hold text are safe."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(safe(segment.text), segment.style)


def output_console(wide: bool = False) -> Console:
    """Returns the console of standard output. wide: in a pipe, use as many columns as the largest tables need."""
    return SafeConsole(sys.stdout, _WIDE_COLUMNS if wide and not sys.stdout.isatty() else None)


def error_console() -> Console:
    """Returns the console of standard error, for progress."""
    return SafeConsole(sys.stderr)


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
