"""What is marked in the pages of one reply: the token that the keyboard points at, and those that a check found."""

from __future__ import annotations

from typing import Any

from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit

from app.window.look import Look, mix
from app.window.transcript import ghosts
from app.window.transcript.page import NONE, Page
from engine.receipt import Difference

_SHARE = 0.4  # of its colour in the ground of a difference


class TokenCursor:
    """token: its number, NONE while there is none. differences: by the number of the token that plain decoding does not
    say there; they have a wavy line and a ground of its colour."""

    def __init__(self, pages: dict[int, Page]) -> None:
        self._pages = pages
        self.token = NONE
        self.differences: dict[int, Difference] = {}

    def step(self, by: int, look: Look) -> int | None:
        """To the next token that can be seen (by 1) or the one before (-1). None where there are none."""
        tokens = sorted({token for page in self._pages.values() for token in page.tokens()})
        if not tokens:
            return None
        ahead = [token for token in tokens if (token > self.token if by > 0 else token < self.token)]
        if self.token == NONE:
            ahead = tokens if by > 0 else tokens[-1:]
        if ahead:
            self.token = ahead[0] if by > 0 else ahead[-1]
        self._draw_all(look)
        return self.token

    def clear(self, look: Look) -> bool:
        """Point at nothing; whether it pointed at something."""
        had, self.token = self.token != NONE, NONE
        self._draw_all(look)
        return had

    def draw(self, page: Page, look: Look) -> None:
        """On a page that shows something new."""
        if self.token == NONE and not self.differences:
            page.setExtraSelections([])
            return
        marks = []
        for token, start, end in ghosts.runs(page.document()):
            if token == self.token or token in self.differences:
                mark: Any = QTextEdit.ExtraSelection()  # whose fields PySide's stubs do not know
                mark.cursor = QTextCursor(page.document())
                mark.cursor.setPosition(start)
                mark.cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                mark.format = self._shape(token, look)
                marks.append(mark)
        page.setExtraSelections(marks)

    def _draw_all(self, look: Look) -> None:
        for page in self._pages.values():
            self.draw(page, look)

    def _shape(self, token: int, look: Look) -> QTextCharFormat:
        shape = QTextCharFormat()
        if (difference := self.differences.get(token)) is not None:
            hue = look.warning if difference.near_tie else look.error
            shape.setUnderlineStyle(QTextCharFormat.UnderlineStyle.WaveUnderline)
            shape.setUnderlineColor(QColor(hue))
            shape.setBackground(QColor(mix(look.background, hue, _SHARE)))
        if token == self.token:
            shape.setBackground(QColor(look.accent))
            shape.setForeground(QColor(look.on_accent))
        return shape
