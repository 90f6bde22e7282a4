"""The list in the sidebar: conversations under the names of their groups, or search results, and how they are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from PySide6.QtCore import QAbstractItemModel, QObject, QPointF, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QTextCharFormat, QTextLayout, QTextOption
from PySide6.QtWidgets import QLineEdit, QStyleOptionViewItem, QWidget

from app.palette import mix
from app.store.records import UNTITLED, ConversationRecord, SearchHit
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.paint_helpers import item_rect
from app.window.common.section_list import ITEM, MARGIN, Index, SectionDelegate, SectionModel, draw_elided

GROUPS = ("Pinned", "Today", "Yesterday", "Previous 7 days", "Older")
SNIPPET_LINES = 2


def group_of(record: ConversationRecord, today: date) -> str:
    """Returns the group of a conversation, one of GROUPS."""
    if record.pinned:
        return GROUPS[0]
    age = (today - date.fromtimestamp(record.updated_s)).days
    return GROUPS[1] if age <= 0 else GROUPS[2] if age == 1 else GROUPS[3] if age <= 7 else GROUPS[4]


class ConversationModel(SectionModel[ConversationRecord]):
    """Conversations in their groups, newest first. writing: those in which a reply is being written. renamed(int, str):
    the user has edited a title."""

    renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.writing: set[int] = set()

    def show_writing(self, conversations: set[int]) -> None:
        """Shows in which conversations a reply is being written."""
        changed, self.writing = self.writing ^ conversations, conversations
        for conversation in changed:
            if (index := self.index_of(conversation)).isValid():
                self.dataChanged.emit(index, index)

    def show_all(self, records: Iterable[ConversationRecord]) -> None:
        """Shows these conversations."""
        groups: dict[str, list[ConversationRecord]] = {name: [] for name in GROUPS}
        for record in sorted(records, key=lambda r: (-r.updated_s, -r.id)):
            groups[group_of(record, date.today())].append(record)
        self.show_sections(groups.items())

    def show_update(self, record: ConversationRecord) -> None:
        """Shows a conversation that is new or has changed. Where it already is the first of its
        group, as after every message but its first, no other row changes."""
        index = self.index_of(record.id)
        if index.isValid() and self.heading_above(index) == group_of(record, date.today()):
            self.replace(index.row(), record)
        else:
            self.show_all([*(item for item in self.items if item.id != record.id), record])

    def key(self, item: ConversationRecord) -> int:
        return item.id

    def values(self, item: ConversationRecord) -> Mapping[int, object]:
        title = item.title or UNTITLED
        writing = ", writing a reply" if item.id in self.writing else ""
        return {
            Qt.ItemDataRole.DisplayRole: title,
            Qt.ItemDataRole.EditRole: item.title,
            Qt.ItemDataRole.ToolTipRole: title,
            Qt.ItemDataRole.AccessibleTextRole: f"{title}{', pinned' if item.pinned else ''}{writing}",
        }

    def neighbour(self, conversation: int | None, step: int) -> int | None:
        """Returns the conversation `step` places from this one; the first if this one is not in the list."""
        ids = [record.id for record in self.items]
        if conversation not in ids:
            return ids[0] if ids else None
        return ids[max(0, min(len(ids) - 1, ids.index(conversation) + step))]

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if flags else flags

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        record, title = self.item(index), " ".join(str(value).split())
        if record is None or role != Qt.ItemDataRole.EditRole or not title or title == record.title:
            return False
        self.renamed.emit(record.id, title)
        return True


class HitModel(SectionModel[SearchHit]):
    """Search results, best first, without headings."""

    def key(self, item: SearchHit) -> object:
        return item

    def values(self, item: SearchHit) -> Mapping[int, object]:
        title = item.title or UNTITLED
        return {Qt.ItemDataRole.DisplayRole: title, Qt.ItemDataRole.AccessibleTextRole: f"{title}: {item.snippet}"}


class ConversationDelegate(SectionDelegate):
    """Draws conversations and search results. All rows of one list have the same height: thousands of them are fast.
    conversations: the model of the former."""

    def __init__(self, view: QWidget, conversations: ConversationModel) -> None:
        super().__init__(view)
        self._conversations = conversations

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        look = theme.current()
        if not isinstance(index.data(ITEM), SearchHit):
            return QSize(0, look.px(32))
        text, small = QFontMetrics(look.font()), QFontMetrics(look.font(12))
        return QSize(0, text.height() + SNIPPET_LINES * small.lineSpacing() + 2 * GAP)

    def paint_item(self, painter: QPainter, rect: QRect, item: ConversationRecord | SearchHit, selected: bool) -> None:
        look = theme.current()
        painter.setPen(QColor(look.on_accent if selected else look.text))
        if isinstance(item, ConversationRecord):
            if item.id in self._conversations.writing:
                rect = self._paint_writing(painter, rect, selected)
            painter.setFont(look.font())
            draw_elided(painter, rect, item.title or UNTITLED)
            return
        painter.setFont(look.font(13, QFont.Weight.Medium))
        title = QRect(rect.left(), rect.top() + GAP, rect.width(), painter.fontMetrics().height())
        draw_elided(painter, title, item.title or UNTITLED)
        painter.setPen(QColor(look.on_accent if selected else look.faint))
        self._snippet(item, rect.width(), painter).draw(painter, QPointF(title.left(), title.bottom() + 1))

    def _paint_writing(self, painter: QPainter, rect: QRect, selected: bool) -> QRect:
        """Draws the mark of a conversation in which a reply is being written; returns what is left of `rect`."""
        look, pen = theme.current(), painter.pen()
        size = look.px(7)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(look.on_accent if selected else look.accent))
        painter.drawEllipse(QRect(rect.right() - size, rect.center().y() - size // 2, size, size))
        painter.setPen(pen)
        return rect.adjusted(0, 0, -size - GAP, 0)

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setFont(theme.current().font())
        editor.setAccessibleName("Title of the conversation")
        return editor

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            model.setData(index, editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        editor.setGeometry(item_rect(option).adjusted(MARGIN, 2, -MARGIN, -2))

    def _snippet(self, hit: SearchHit, width: int, painter: QPainter) -> QTextLayout:
        """Returns the text around the match, laid out in at most SNIPPET_LINES."""
        small = theme.current().font(12)
        layout = QTextLayout(hit.snippet.replace("\n", " "), small, painter.device())
        layout.setTextOption(QTextOption(Qt.AlignmentFlag.AlignLeft))
        layout.setFormats([_match_format(start, length) for start, length in hit.matches])
        layout.beginLayout()
        for row in range(SNIPPET_LINES):
            line = layout.createLine()
            if not line.isValid():
                break
            line.setLineWidth(width)
            line.setPosition(QPointF(0, row * QFontMetrics(small).lineSpacing()))
        layout.endLayout()
        return layout


def _match_format(start: int, length: int) -> QTextLayout.FormatRange:
    """Returns the format of a match: bold on a tint."""
    look, found, form = theme.current(), QTextLayout.FormatRange(), QTextCharFormat()
    form.setFontWeight(QFont.Weight.DemiBold)
    form.setForeground(QColor(look.text))
    form.setBackground(QColor(mix(look.sidebar, look.accent, 0.25)))
    found.start, found.length, found.format = start, length, form  # type: ignore[attr-defined]  # not in the stubs
    return found
