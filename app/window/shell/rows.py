"""How the rows of the sidebar are drawn and renamed: headings, conversations, and hits with their matches marked."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, QModelIndex, QPersistentModelIndex, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.records import Hit
from app.window.fonts import font
from app.window.look import GAP, LIGHT, Look, mix
from app.window.shell.conversations import Role
from app.window.shell.delegates import draw_elided, place_of, state_of

Index = QModelIndex | QPersistentModelIndex
MARGIN, INSIDE = GAP, 10  # px beside the row's ground, and within it
SNIPPET_LINES = 2


class RowDelegate(QStyledItemDelegate):
    """All rows of one list have one height, which keeps thousands of them quick."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._view = parent
        self.look = LIGHT

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        if index.data(Role.HIT) is None:
            return QSize(0, self.look.px(32))
        text, small = QFontMetrics(font(self.look)), QFontMetrics(font(self.look, 12))
        return QSize(0, text.height() + SNIPPET_LINES * small.lineSpacing() + 2 * GAP)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if index.data(Role.CONVERSATION) is None:
            self._paint_heading(painter, place_of(option), index.data())
        else:
            ink = self._paint_ground(painter, option)
            inside = place_of(option).adjusted(MARGIN + INSIDE, 0, -MARGIN - INSIDE, 0)
            hit = index.data(Role.HIT)
            if hit is None:
                self._paint_title(painter, inside, index, ink)
            else:
                self._paint_hit(painter, inside, hit, ink)
        painter.restore()

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setFont(font(self.look))
        editor.setAccessibleName("Title of the conversation")
        return editor

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            model.setData(index, editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(place_of(option).adjusted(MARGIN, 2, -MARGIN, -2))

    def _paint_heading(self, painter: QPainter, rect: QRect, text: str) -> None:
        painter.setFont(font(self.look, 11, QFont.Weight.DemiBold))
        painter.setPen(QColor(self.look.faint))
        place = rect.adjusted(MARGIN + INSIDE, 0, -MARGIN, -5)
        painter.drawText(place, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, text)

    def _paint_ground(self, painter: QPainter, option: QStyleOptionViewItem) -> str:
        """What the row stands on; returns the colour of its text."""
        look, state = self.look, state_of(option)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        focused = selected and self._view.hasFocus()
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        if selected or hovered:
            quiet = mix(look.sidebar, look.text, 0.11 if selected else 0.05)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(look.accent if focused else quiet))
            painter.drawRoundedRect(QRectF(place_of(option).adjusted(MARGIN, 1, -MARGIN, -1)), 7, 7)
        return look.on_accent if focused else look.text

    def _paint_title(self, painter: QPainter, rect: QRect, index: Index, ink: str) -> None:
        painter.setFont(font(self.look))
        painter.setPen(QColor(ink))
        draw_elided(painter, rect, index.data())

    def _paint_hit(self, painter: QPainter, rect: QRect, hit: Hit, ink: str) -> None:
        rect = rect.adjusted(0, GAP, 0, -GAP)
        painter.setFont(font(self.look, 13, QFont.Weight.Medium))
        painter.setPen(QColor(ink))
        height = painter.fontMetrics().height()
        draw_elided(painter, QRect(rect.left(), rect.top(), rect.width(), height), hit.title or "New chat")
        faint = self.look.faint if ink == self.look.text else ink
        painter.setPen(QColor(faint))
        layout = self._snippet(hit, rect.width(), painter)
        layout.draw(painter, QPointF(rect.left(), rect.top() + height))

    def _snippet(self, hit: Hit, width: int, painter: QPainter) -> QTextLayout:
        """The text around the match, in as many lines as there is room for."""
        small = font(self.look, 12)
        layout = QTextLayout(hit.snippet.replace("\n", " "), small, painter.device())
        layout.setTextOption(QTextOption(Qt.AlignmentFlag.AlignLeft))
        layout.setFormats([_marked(start, length, self.look) for start, length in hit.matches])
        layout.beginLayout()
        for row in range(SNIPPET_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(width)
            line.setPosition(QPointF(0, row * QFontMetrics(small).lineSpacing()))
        layout.endLayout()
        return layout


def _marked(start: int, length: int, look: Look) -> QTextLayout.FormatRange:
    """A match within a snippet: bold on a tint, in the text's own colour."""
    marked = QTextLayout.FormatRange()
    marked.start, marked.length = start, length  # type: ignore[attr-defined]  # the stubs lack them
    form = QTextCharFormat()
    form.setFontWeight(QFont.Weight.DemiBold)
    form.setForeground(QColor(look.text))
    form.setBackground(QColor(mix(look.sidebar, look.accent, 0.25)))
    marked.format = form  # type: ignore[attr-defined]  # likewise
    return marked
