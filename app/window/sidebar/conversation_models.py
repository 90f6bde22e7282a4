"""The models of the sidebar's list: conversations in groups, or search results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal

from app.store.records import ConversationRecord, SearchHit

UNTITLED = "New Chat"  # shown for a conversation without a title
GROUPS = ("Pinned", "Today", "Yesterday", "Previous 7 days", "Older")

Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()


class Role(IntEnum):
    """Data of a row beyond its text."""

    CONVERSATION = Qt.ItemDataRole.UserRole  # int, its id; None for a heading
    PINNED = Qt.ItemDataRole.UserRole + 1
    HIT = Qt.ItemDataRole.UserRole + 2


def group_of(record: ConversationRecord, today: date) -> str:
    """Returns the group of a conversation, one of GROUPS."""
    if record.pinned:
        return GROUPS[0]
    age = (today - date.fromtimestamp(record.updated_s)).days
    return GROUPS[1] if age <= 0 else GROUPS[2] if age == 1 else GROUPS[3] if age <= 7 else GROUPS[4]


class ConversationsModel(QAbstractListModel):
    """Headings and conversations, newest first. renamed(int, str): the user has edited a title."""

    renamed = Signal(int, str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[str | ConversationRecord] = []
        self._places: dict[int, int] = {}

    def show_all(self, records: Iterable[ConversationRecord], today: date | None = None) -> None:
        """Shows these conversations."""
        day = today or date.today()
        groups: dict[str, list[ConversationRecord]] = {name: [] for name in GROUPS}
        for record in sorted(records, key=lambda r: (-r.updated_s, -r.id)):
            groups[group_of(record, day)].append(record)
        self.beginResetModel()
        self._rows = []
        for name, of in groups.items():
            self._rows += [name, *of] if of else []
        self._places = {row.id: i for i, row in enumerate(self._rows) if isinstance(row, ConversationRecord)}
        self.endResetModel()

    def record(self, index: Index) -> ConversationRecord | None:
        """Returns the conversation of a row; None for a heading."""
        row = self._rows[index.row()] if index.isValid() else None
        return row if isinstance(row, ConversationRecord) else None

    def index_of(self, conversation: int) -> QModelIndex:
        """Returns the row of a conversation; an invalid index where it has none."""
        at = self._places.get(conversation)
        return _NOWHERE if at is None else self.index(at)

    def neighbour(self, conversation: int | None, step: int) -> int | None:
        """Returns the conversation `step` places from this one; the first where this one is not listed."""
        ids = list(self._places)
        if not ids:
            return None
        if conversation not in self._places:
            return ids[0]
        return ids[max(0, min(len(ids) - 1, ids.index(conversation) + step))]

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        if isinstance(row, str):
            return row if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole) else None
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{row.title or UNTITLED}, pinned" if row.pinned else row.title or UNTITLED
        values: dict[int, object] = {
            Qt.ItemDataRole.DisplayRole: row.title or UNTITLED,
            Qt.ItemDataRole.EditRole: row.title,
            Qt.ItemDataRole.ToolTipRole: row.title or UNTITLED,
            Role.CONVERSATION: row.id,
            Role.PINNED: row.pinned,
        }
        return values.get(role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if self.record(index) is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemIsEditable

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        record, title = self.record(index), " ".join(str(value).split())
        if record is None or role != Qt.ItemDataRole.EditRole or not title or title == record.title:
            return False
        self.renamed.emit(record.id, title)
        return True


class HitsModel(QAbstractListModel):
    """Search results, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._hits: Sequence[SearchHit] = ()

    def show_all(self, hits: Sequence[SearchHit]) -> None:
        """Shows these results."""
        self.beginResetModel()
        self._hits = hits
        self.endResetModel()

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._hits)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        hit = self._hits[index.row()]
        values: dict[int, object] = {
            Qt.ItemDataRole.DisplayRole: hit.title or UNTITLED,
            Qt.ItemDataRole.AccessibleTextRole: f"{hit.title or UNTITLED}: {hit.snippet}",
            Role.CONVERSATION: hit.conversation,
            Role.HIT: hit,
        }
        return values.get(role)
