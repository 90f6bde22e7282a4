"""A browser that loads nothing and opens nothing."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QMimeData, QRectF, QUrl, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QTextDocument, QTextOption
from PySide6.QtWidgets import QTextBrowser, QWidget

from app.window.look import Look
from app.window.reading.copying import plain_text
from app.window.reading.decoration import decorate
from app.window.reading.links import safe_link
from app.window.reading.shapes import LOOK


class Reader(QTextBrowser):
    """Read-only. link_asked: a link was followed, by mouse or keyboard; its address is safe to ask about (`safe_link`),
    and nothing opens by itself."""

    link_asked = Signal(QUrl)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setAccessibleName("Text of the message")
        self.anchorClicked.connect(self._ask)

    def loadResource(self, kind: int, name: QUrl | str) -> Any:
        """Nothing, ever: neither pictures nor style sheets nor pages, wherever they lie."""
        return None

    def doSetSource(
        self, name: QUrl | str, kind: QTextDocument.ResourceType = QTextDocument.ResourceType.UnknownResource
    ) -> None:
        """There is no source to go to."""

    def createMimeDataFromSelection(self) -> QMimeData:
        """Plain text alone."""
        cursor = self.textCursor()
        data = QMimeData()
        data.setText(plain_text(self.document(), cursor.selectionStart(), cursor.selectionEnd()))
        return data

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return False

    def paintEvent(self, event: QPaintEvent) -> None:
        look = self.document().property(LOOK)
        if isinstance(look, Look):
            x, y = self.horizontalScrollBar().value(), self.verticalScrollBar().value()
            painter = QPainter(self.viewport())
            painter.translate(-x, -y)
            decorate(painter, self.document(), look, QRectF(event.rect()).translated(x, y))
            painter.end()
        super().paintEvent(event)

    def _ask(self, url: QUrl) -> None:
        address = safe_link(url.toString(QUrl.ComponentFormattingOption.FullyEncoded))
        if address is not None:
            self.link_asked.emit(address)
