"""Styled text that arrives in pieces, broken into lines between words.

Invariants
----------
1. No style is open when a line ends, and the last column stays empty: a terminal paints the rest of a line, or a
   line that it scrolls in, with the background that is set when it gets there.
2. Only what is surely one cell wide is ever moved: the unfinished word at the end of the line, when it outgrows it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from app.cli.terminal.token_style import RESET

# Letters: of scripts written with spaces, one cell each in any terminal, and the punctuation between them.
_PIECES = re.compile(
    r"(?P<newline>\n)|(?P<tab>\t)|(?P<spaces> +)"
    r"|(?P<letters>[\x21-\x7e\xa1-\xac\xae-\u02ff\u0370-\u0482\u048a-\u052f\u2010-\u2027]+)|(?P<lone>.)",
    re.DOTALL,
)
_TAB = 4
_LEAST = 16


class Wrapper:
    """Turns pieces of (text, style) into what to write. width: columns of the terminal, asked for each piece.

    A style is an escape sequence, or "" for none.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._limit = _LEAST
        self._out: list[str] = []
        self._style = ""
        self._word: list[tuple[str, str]] = []
        self._word_cells = 0
        self._broken = False  # whether the line began with a break of ours: then spaces don't begin it
        self.column = 0

    def write(self, text: str, style: str = "") -> str:
        """`text` ready to be written; all that it opens is closed."""
        self._limit = max(self._width() - 1, _LEAST)
        for found in _PIECES.finditer(text):
            piece = found.group()
            match found.lastgroup:
                case "newline":
                    self._new_line(broken=False)
                case "tab":
                    self._spaces(_TAB - self.column % _TAB, style)
                case "spaces":
                    self._spaces(len(piece), style)
                case "letters":
                    self._letters(piece, style)
                case _:
                    self._lone(piece, style)
        self._set("")
        out, self._out = "".join(self._out), []
        return out

    def _spaces(self, count: int, style: str) -> None:
        self._end_word()
        for _ in range(count):
            if self.column >= self._limit:
                self._new_line(broken=True)
            if self.column == 0 and self._broken:
                return
            self._put(" ", style, 1)

    def _letters(self, text: str, style: str) -> None:
        """Part of a word, one cell a letter."""
        if self.column + len(text) > self._limit and self.column > self._word_cells:
            self._move_word(len(text))
        while text:
            if self.column >= self._limit:
                self._new_line(broken=True)
            part, text = text[: self._limit - self.column], text[self._limit - self.column :]
            self._put(part, style, len(part))
            self._word.append((part, style))
            self._word_cells += len(part)

    def _lone(self, character: str, style: str) -> None:
        """A character of another width, or of a script that breaks anywhere; marks join what is before them."""
        cells = _cells(character)
        if self.column + cells > self._limit:
            self._new_line(broken=True)
        self._put(character, style, cells)
        self._end_word()

    def _move_word(self, more: int) -> None:
        """Take the unfinished word to the next line, if it will fit there with `more` letters."""
        word, cells = self._word, self._word_cells
        if cells + more > self._limit:
            return
        if cells:
            self._set("")
            self._out.append(f"\x1b[{cells}D\x1b[K")
        self._new_line(broken=True)
        for text, style in word:
            self._put(text, style, len(text))
        self._word, self._word_cells = word, cells

    def _new_line(self, broken: bool) -> None:
        self._set("")
        self._out.append("\n")
        self.column, self._broken = 0, broken
        self._end_word()

    def _end_word(self) -> None:
        self._word, self._word_cells = [], 0

    def _put(self, text: str, style: str, cells: int) -> None:
        self._set(style)
        self._out.append(text)
        self.column += cells

    def _set(self, style: str) -> None:
        if style == self._style:
            return
        if self._style:
            self._out.append(RESET)
        self._out.append(style)
        self._style = style


def _cells(character: str) -> int:
    """Columns a character takes, or rather more: an emoji of several characters is counted as all of them."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
