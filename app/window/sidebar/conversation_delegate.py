"""Draws the rows of the sidebar and edits titles: headings, conversations, and results with their matches marked."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.palette import mix
from app.store.records import SearchHit
from app.window.common import theme
from app.window.common.appearance import GAP, Appearance
from app.window.common.fonts import font
from app.window.common.paint_helpers import draw_elided, item_rect, item_state
from app.window.sidebar.conversation_models import UNTITLED, Role

Index = QModelIndex | QPersistentModelIndex
MARGIN, INSIDE = GAP, 10  # px beside the background of a row, and within it
SNIPPET_LINES = 2


class ConversationDelegate(QStyledItemDelegate):
    """All rows of one list have the same height, which keeps thousands of them fast."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._view = parent

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        if index.data(Role.HIT) is None:
            return QSize(0, theme.current().px(32))
        text, small = QFontMetrics(font(theme.current())), QFontMetrics(font(theme.current(), 12))
        return QSize(0, text.height() + SNIPPET_LINES * small.lineSpacing() + 2 * GAP)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if index.data(Role.CONVERSATION) is None:
            self._paint_heading(painter, item_rect(option), index.data())
        else:
            colour = self._paint_background(painter, option)
            inside = item_rect(option).adjusted(MARGIN + INSIDE, 0, -MARGIN - INSIDE, 0)
            hit = index.data(Role.HIT)
            if hit is None:
                self._paint_title(painter, inside, index, colour)
            else:
                self._paint_hit(painter, inside, hit, colour)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setFont(font(theme.current()))
        editor.setAccessibleName("Title of the conversation")
        return editor

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            model.setData(index, editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(item_rect(option).adjusted(MARGIN, 2, -MARGIN, -2))

    def _paint_heading(self, painter: QPainter, rect: QRect, text: str) -> None:
        painter.setFont(font(theme.current(), 11, QFont.Weight.DemiBold))
        painter.setPen(QColor(theme.current().faint))
        place = rect.adjusted(MARGIN + INSIDE, 0, -MARGIN, -5)
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, text)

    def _paint_background(self, painter: QPainter, option: QStyleOptionViewItem) -> str:
        """Draws the background of a row; returns the colour of its text."""
        look, state = theme.current(), item_state(option)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        focused = selected and self._view.hasFocus()
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        if selected or hovered:
            quiet = mix(look.sidebar, look.text, 0.11 if selected else 0.05)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(look.accent if focused else quiet))
            painter.drawRoundedRect(QRectF(item_rect(option).adjusted(MARGIN, 1, -MARGIN, -1)), 7, 7)
        return look.on_accent if focused else look.text

    def _paint_title(self, painter: QPainter, rect: QRect, index: Index, colour: str) -> None:
        painter.setFont(font(theme.current()))
        painter.setPen(QColor(colour))
        draw_elided(painter, rect, index.data())

    def _paint_hit(self, painter: QPainter, rect: QRect, hit: SearchHit, colour: str) -> None:
        rect = rect.adjusted(0, GAP, 0, -GAP)
        painter.setFont(font(theme.current(), 13, QFont.Weight.Medium))
        painter.setPen(QColor(colour))
        height = painter.fontMetrics().height()
        draw_elided(painter, QRect(rect.left(), rect.top(), rect.width(), height), hit.title or UNTITLED)
        faint = theme.current().faint if colour == theme.current().text else colour
        painter.setPen(QColor(faint))
        layout = self._snippet(hit, rect.width(), painter)
        layout.draw(painter, QPointF(rect.left(), rect.top() + height))

    def _snippet(self, hit: SearchHit, width: int, painter: QPainter) -> QTextLayout:
        """Returns the text around the match, laid out in at most SNIPPET_LINES."""
        small = font(theme.current(), 12)
        layout = QTextLayout(hit.snippet.replace("\n", " "), small, painter.device())
        layout.setTextOption(QTextOption(Qt.AlignmentFlag.AlignLeft))
        layout.setFormats([_marked(start, length, theme.current()) for start, length in hit.matches])
        layout.beginLayout()
        for row in range(SNIPPET_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(width)
            line.setPosition(QPointF(0, row * QFontMetrics(small).lineSpacing()))
        layout.endLayout()
        return layout


def _marked(start: int, length: int, look: Appearance) -> QTextLayout.FormatRange:
    """Returns the format of a match: bold on a tint."""
    marked = QTextLayout.FormatRange()
    marked.start, marked.length = start, length  # type: ignore[attr-defined]  # the stubs lack them
    form = QTextCharFormat()
    form.setFontWeight(QFont.Weight.DemiBold)
    form.setForeground(QColor(look.text))
    form.setBackground(QColor(mix(look.sidebar, look.accent, 0.25)))
    marked.format = form  # type: ignore[attr-defined]  # likewise
    return marked
