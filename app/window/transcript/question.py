"""A question: a calm bubble at the right, its attachments above it, and an editor in its place when asked for."""

from __future__ import annotations

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import (
    QColor,
    QFontMetrics,
    QGuiApplication,
    QPainter,
    QPaintEvent,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
)
from PySide6.QtWidgets import QPushButton, QWidget

from app.window.fonts import font
from app.window.look import GAP
from app.window.transcript.attachments import Chips
from app.window.transcript.body import Place
from app.window.transcript.buttons import SIZE, style
from app.window.transcript.editor import Editor
from app.window.transcript.entry import Entry
from app.window.transcript.footer import COPY, EDIT, RACE, Footer
from app.window.transcript.manner import BODY, SIDE, SMALL, Manner
from app.window.transcript.page import Page, Text
from app.window.transcript.selection import Selection
from app.window.transcript.tile import Tile

_INSET_X, _INSET_Y, _RADIUS = 14, 10, 14  # px around the text of the bubble
_WIDEST = 0.82  # of the column
_LINES, _CHARACTERS = 16, 1400  # of a question; what is longer is folded


class PlainPage(Page):
    """A text as it was typed."""

    def _write(self, document: QTextDocument) -> None:
        shape = QTextCharFormat()
        shape.setForeground(QColor(self._manner.look.text))
        QTextCursor(document).insertText(self.text.source, shape)


class QuestionTile(Tile):
    """Of a user's message."""

    def __init__(self, entry: Entry, manner: Manner, parent: QWidget) -> None:
        footer = Footer(entry.record, (COPY, RACE, EDIT), manner.look, right=True)
        super().__init__(entry, manner, footer, parent)
        self.footer.asked.connect(self._do)
        self.page = PlainPage(manner, self)
        self.page.setAccessibleName("Question")
        self.page.dragged.connect(lambda place: self.dragged.emit(place.y()))
        self.page.copy_asked.connect(self.copy)
        self.page.menu_asked.connect(self.open_menu)
        self._pages: dict[int, Page] = {0: self.page}
        self._selection = Selection(self._pages)
        self.more = QPushButton(self)
        self.more.clicked.connect(self._unfold)
        self.chips = Chips(entry.record.attachments, manner.look, self)
        self.editor: Editor | None = None
        self._bubble = QRect()
        self.set_manner(manner)

    def arrange(self, width: int, top: int, bottom: int) -> int:
        y = GAP
        if self.chips.buttons:
            y += self.chips.lay_out(SIDE, y, width) + GAP // 2
        if self.editor is not None:
            height = self.editor.lay_out(width)
            self.editor.setGeometry(SIDE, y, width, height)
            return y + height + GAP
        if self.entry.record.text:
            y = self._arrange_bubble(y, width)
        self.footer.setGeometry(SIDE, y + 2, width, SIZE)
        return y + SIZE + GAP

    def place_at(self, y: int) -> Place | None:
        y -= self.page.y()
        if self.editor is not None or not 0 <= y < self.page.height():
            return None
        character = self.page.character_at(y)
        return Place(0, character, y - self.page.top_of(character))

    def y_of(self, place: Place) -> int:
        return round(self.page.y() + self.page.top_of(place.character or 0) + place.offset)

    def stops(self) -> list[QWidget]:
        if self.editor is not None:
            return [*self.chips.buttons, *self.editor.stops()]
        shown = [part for part in (self.page, self.more) if part.isVisibleTo(self)]
        return [*self.chips.buttons, *shown, *self.footer.stops()]

    def set_manner(self, manner: Manner) -> None:
        super().set_manner(manner)
        self.chips.set_look(manner.look)
        self.more.setStyleSheet(style(manner.look, "QPushButton"))
        self.more.setFont(font(manner.look, SMALL))
        if self.editor is not None:
            self.editor.set_look(manner.look)
        self.page.show_text(Text(self._shown()), manner, self.page.width())

    @property
    def selection(self) -> Selection:
        return self._selection

    @property
    def kept(self) -> bool:
        return super().kept or self.editor is not None

    def _arrange_bubble(self, y: int, width: int) -> int:
        widest = round(width * _WIDEST) - 2 * _INSET_X
        metrics = QFontMetrics(font(self.manner.look, BODY))
        lines = self.page.text.source.splitlines()
        longest = max((metrics.horizontalAdvance(line[:200]) for line in lines), default=0) + 4
        inner = max(min(widest, longest), self.more.sizeHint().width() if self._folds() else 0)
        height = self.page.lay_out(inner)
        left = SIDE + width - inner - _INSET_X
        self.page.move(left, y + _INSET_Y)
        bottom = y + _INSET_Y + height
        self.more.setVisible(self._folds())
        if self._folds():
            self.more.setGeometry(left - 4, bottom + 4, self.more.sizeHint().width(), SIZE)
            bottom += SIZE + 4
        self._bubble = QRect(left - _INSET_X, y, inner + 2 * _INSET_X, bottom + _INSET_Y - y)
        self.update()
        return bottom + _INSET_Y

    def _folds(self) -> bool:
        text = self.entry.record.text
        return len(text) > _CHARACTERS or text.count("\n") >= _LINES

    def _shown(self) -> str:
        text = self.entry.record.text
        if self._folds():
            self.more.setText("Show less" if self.entry.expanded else f"Show all {len(text):,} characters")
        if not self._folds() or self.entry.expanded:
            return text
        return "\n".join(text[:_CHARACTERS].splitlines()[:_LINES]) + "…"

    def _unfold(self) -> None:
        self.entry.expanded = not self.entry.expanded
        self.page.show_text(Text(self._shown()), self.manner, self.page.width())
        self.resized.emit()

    # --- actions ------------------------------------------------------------------------------

    def _do(self, name: str) -> None:
        if name == EDIT[1]:
            self.begin_edit()
        elif name == RACE[1]:
            self.race.emit(self.entry.record.id)
        else:
            QGuiApplication.clipboard().setText(self.entry.record.text)
            self.footer.buttons[name].show_done()

    def begin_edit(self) -> None:
        """Put an editor in the place of the bubble."""
        self.editor = Editor(self.entry.record.text, self.manner.look, self)
        self.editor.saved.connect(self._save)
        self.editor.left.connect(self._end_edit)
        self.editor.resized.connect(self.resized)
        self._show_parts()
        self.editor.field.setFocus(Qt.FocusReason.OtherFocusReason)

    def _save(self, text: str) -> None:
        self._end_edit()
        self.edit.emit(self.entry.record.id, text)

    def _end_edit(self) -> None:
        if self.editor is not None:
            self.editor.hide()
            self.editor.deleteLater()
            self.editor = None
            self._show_parts()
            self.footer.buttons[EDIT[1]].setFocus(Qt.FocusReason.OtherFocusReason)

    def _show_parts(self) -> None:
        for part in (self.page, self.footer):
            part.setVisible(self.editor is None)
        self.more.setVisible(self.editor is None and self._folds())
        if self.editor is not None:
            self.editor.show()
        self.resized.emit()
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.editor is None and self.entry.record.text:
            painter = QPainter(self)
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.manner.look.hover))
            painter.drawRoundedRect(self._bubble, _RADIUS, _RADIUS)
            painter.end()
