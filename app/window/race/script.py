"""The text of a run as a pane shows it: how much of it has come, and the token that is marked."""

from __future__ import annotations

from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor, QTextDocument

from app.protocol.racing import Run
from app.window.look import Look, mix
from app.window.reading import Growing, Span
from app.window.transcript.ghosts import runs
from app.window.transcript.manner import document_font
from app.window.transcript.telling import Telling

MARKED = 0.45  # of the mark's colour in its ground


class Script:
    """One run in `document`. show: any number of its tokens, forward at the price of what is new."""

    def __init__(self, run: Run, document: QTextDocument, look: Look) -> None:
        telling = Telling(run.told)
        self._text, self._spans = telling.text, telling.spans
        self._tail = run.finished.text
        self._document, self._look = document, look
        self._growing: Growing | None = None
        self._shown = -1

    @property
    def text(self) -> str:
        """All of it."""
        return self._text + self._tail

    def show(self, tokens: int) -> bool:
        """The first `tokens`, with what was held back at the end once all have come; whether that is news."""
        tokens = min(tokens, len(self._spans))
        if tokens == self._shown:
            return False
        if self._growing is None or tokens < self._shown:
            self._document.clear()
            self._document.setDefaultFont(document_font(self._look))
            self._growing = Growing(self._document, self._look, tinted=True)
        self._growing.grow(*self._until(tokens))
        self._shown = tokens
        return True

    def set_look(self, look: Look) -> None:
        """Write it again in this look."""
        shown, self._look, self._growing = self._shown, look, None
        self._shown = -1
        if shown >= 0:
            self.show(shown)

    def _until(self, tokens: int) -> tuple[str, list[Span]]:
        spans = self._spans[:tokens]
        if tokens == len(self._spans):
            return self.text, spans
        return self._text[: spans[-1].end if spans else 0], spans

    def mark(self, token: int | None, colour: str) -> list[tuple[QTextCursor, QTextCharFormat]]:
        """Where a token stands, and how it is marked: for a reader's selections; nothing where it has no text."""
        found = []
        for number, start, end in runs(self._document) if token is not None else ():
            if number == token:
                cursor, shape = QTextCursor(self._document), QTextCharFormat()
                cursor.setPosition(start)
                cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
                shape.setBackground(QColor(mix(self._look.background, colour, MARKED)))
                shape.setForeground(QColor(self._look.text))
                found.append((cursor, shape))
        return found
