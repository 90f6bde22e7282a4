"""A reply without the marks of Markdown."""

from __future__ import annotations

from PySide6.QtGui import QTextCursor, QTextDocument

from app.window.look import LIGHT
from app.window.reading import plain_text, sections, write


def plain(source: str) -> str:
    """As it reads; what the model thought before it replied is left out, unless there is nothing else."""
    parts = sections(source)
    said = [part for part in parts if part.kind == "text"] or parts
    document = QTextDocument()
    cursor = QTextCursor(document)
    for part in said:
        cursor.movePosition(QTextCursor.MoveOperation.End)
        write(cursor, source[part.start : part.end], [], LIGHT, False)
    return plain_text(document, 0, document.characterCount() - 1).strip()
