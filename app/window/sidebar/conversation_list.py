"""The list in the sidebar: conversations under the names of their groups, or search results, and how they are drawn."""

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
from app.window.common.icons import pixmap
from app.window.common.paint_helpers import item_rect
from app.window.common.section_list import ITEM, MARGIN, Index, SectionDelegate, SectionModel, draw_elided
from app.window.markdown.text_blocks import utf16_length

PINNED, *DAYS = "Pinned", "Today", "Yesterday", "Previous 7 days", "Older"
IN_FOLDER = " / "  # between the folder and the name of a conversation, both of which are in its title
SNIPPET_LINES = 2


def folder_and_name(title: str) -> tuple[str, str]:
    """Returns the folder of a conversation, "" if it is in none, and its name there."""
    folder, _, name = title.partition(IN_FOLDER)
    return (folder.strip(), name.strip()) if folder.strip() and name.strip() else ("", title)


def group_of(record: ConversationRecord, today: date) -> str:
    """Returns the group of a conversation: PINNED, its folder, or one of DAYS."""
    folder, _ = folder_and_name(record.title)
    if record.pinned or folder:
        return PINNED if record.pinned else folder
    age = (today - date.fromtimestamp(record.updated_s)).days
    return DAYS[0] if age <= 0 else DAYS[1] if age == 1 else DAYS[2] if age <= 7 else DAYS[3]


class ConversationModel(SectionModel[ConversationRecord]):
    """Conversations in their groups, newest first: the pinned ones, folders by name, the others by day. writing: those
    in which a reply is being written. renamed(int, str): the user has edited a title."""

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
        groups: dict[str, list[ConversationRecord]] = {}
        for record in sorted(records, key=lambda r: (-r.updated_s, -r.id)):
            groups.setdefault(group_of(record, date.today()), []).append(record)
        folders = sorted(groups.keys() - {PINNED, *DAYS}, key=str.casefold)
        self.show_sections((name, groups.get(name, [])) for name in (PINNED, *folders, *DAYS))

    @property
    def folders(self) -> list[str]:
        """The folders of all conversations, by name."""
        found = {folder_and_name(record.title)[0] for record in self.items} - {""}
        return sorted(found, key=str.casefold)

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
            Qt.ItemDataRole.DisplayRole: title if item.pinned else folder_and_name(title)[1],
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

    def is_folder(self, heading: object) -> bool:
        """Returns whether a heading names a folder, which can be collapsed."""
        return isinstance(heading, str) and heading not in (PINNED, *DAYS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        found = super().data(index, role)
        if role == Qt.ItemDataRole.AccessibleTextRole and self.item(index) is None and self.is_folder(found):
            return f"Folder {found}, {'collapsed' if found in self.collapsed else 'expanded'}"
        return found

    def flags(self, index: Index) -> Qt.ItemFlag:
        chosen = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
        if self.item(index) is None:
            return chosen if self.is_folder(index.data()) else Qt.ItemFlag.NoItemFlags
        return chosen | Qt.ItemFlag.ItemIsEditable

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

    def paint_heading(self, painter: QPainter, rect: QRect, text: str, selected: bool) -> None:
        super().paint_heading(painter, rect, text, selected)
        if self._conversations.is_folder(text):
            look, ratio = theme.current(), self._view.devicePixelRatioF()
            size, shape = look.px(12), "right" if text in self._conversations.collapsed else "down"
            drawn = pixmap(shape, look.on_accent if selected else look.faint, size, ratio)
            painter.drawPixmap(rect.right() - size, rect.bottom() - size, drawn)

    def paint_item(self, painter: QPainter, rect: QRect, item: ConversationRecord | SearchHit, selected: bool) -> None:
        look = theme.current()
        painter.setPen(QColor(look.on_accent if selected else look.text))
        if isinstance(item, ConversationRecord):
            title = item.title or UNTITLED
            if item.id in self._conversations.writing:
                rect = self._paint_writing(painter, rect, selected)
            painter.setFont(look.font())
            draw_elided(painter, rect, title if item.pinned else folder_and_name(title)[1])
            return
        font, small = look.font(13, QFont.Weight.Medium), look.font(12)
        metrics = QFontMetrics(font)
        shown = metrics.elidedText(item.title or UNTITLED, Qt.TextElideMode.ElideRight, rect.width())
        in_title, in_snippet = (item.matches, ()) if item.message is None else ((), item.matches)
        top = QPointF(rect.left(), rect.top() + GAP)
        _lines(painter, shown, in_title, font, 1, rect.width()).draw(painter, top)
        painter.setPen(QColor(look.on_accent if selected else look.faint))
        snippet = _lines(painter, item.snippet, in_snippet, small, SNIPPET_LINES, rect.width())
        snippet.draw(painter, top + QPointF(0, metrics.height()))

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


def _lines(
    painter: QPainter, text: str, matches: Iterable[tuple[int, int]], font: QFont, most: int, width: int
) -> QTextLayout:
    """Returns the layout of a text in at most so many lines, with its matches marked."""
    layout = QTextLayout(text.replace("\n", " "), font, painter.device())
    layout.setTextOption(QTextOption(Qt.AlignmentFlag.AlignLeft))
    places = [(utf16_length(text[:start]), utf16_length(text[start : start + length])) for start, length in matches]
    layout.setFormats([_match_format(start, length) for start, length in places])
    layout.beginLayout()
    for row in range(most):
        line = layout.createLine()
        if not line.isValid():
            break
        line.setLineWidth(width)
        line.setPosition(QPointF(0, row * QFontMetrics(font).lineSpacing()))
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
