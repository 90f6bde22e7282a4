"""A list whose items stand under headings: its model, its view, and what is drawn alike in every such list."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, QRect, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QKeyEvent, QPainter
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.paint_helpers import item_rect, item_state
from app.window.common.widgets import style

MARGIN, INSIDE = GAP, 10  # px beside the background of a row, and within it
ITEM = Qt.ItemDataRole.UserRole  # the data role of the item itself; None for a heading
Item = TypeVar("Item")
Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()


class SectionModel(QAbstractListModel, Generic[Item]):
    """Items under headings. Subclasses say what the key and the values of an item are, and which headings can be chosen
    to hide their items. collapsed: the headings whose items are hidden."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.collapsed: set[str] = set()
        self._all: list[str | Item] = []
        self._rows: list[str | Item] = []  # those of them that are shown

    def show_sections(self, sections: Iterable[tuple[str, Sequence[Item]]]) -> None:
        """Shows these items; a section without items is left out, and so is a heading without text.

        The view keeps its current row if the same keys stand in the same rows as before.
        """
        self._all = []
        for heading, items in sections:
            self._all += [heading, *items] if heading and items else items
        self._show_rows()

    def toggle(self, heading: str) -> None:
        """Hides the items under a heading, or shows them again."""
        self.collapsed ^= {heading}
        self._show_rows()

    def _show_rows(self) -> None:
        rows: list[str | Item] = []
        hidden = False
        for row in self._all:
            if isinstance(row, str):
                hidden = row in self.collapsed
                rows.append(row)
            elif not hidden:
                rows.append(row)
        if rows and self._keys(rows) == self._keys(self._rows):
            self._rows = rows
            self.dataChanged.emit(self.index(0), self.index(len(rows) - 1))
        else:
            self.beginResetModel()
            self._rows = rows
            self.endResetModel()

    def replace(self, row: int, item: Item) -> None:
        """Replaces the item in a row by one with the same key."""
        self._all[self._all.index(self._rows[row])] = self._rows[row] = item
        self.dataChanged.emit(self.index(row), self.index(row))

    def key(self, item: Item) -> object:
        """Returns what identifies an item in this list."""
        raise NotImplementedError

    def values(self, item: Item) -> Mapping[int, object]:
        """Returns the data of an item by role."""
        raise NotImplementedError

    @property
    def items(self) -> list[Item]:
        """All items, without their headings."""
        return [row for row in self._all if not isinstance(row, str)]

    def item(self, index: Index) -> Item | None:
        """Returns the item of a row; None for a heading."""
        row = self._rows[index.row()] if index.isValid() else None
        return None if isinstance(row, str) else row

    def index_of(self, key: object) -> QModelIndex:
        """Returns the row of an item; an invalid index if it is not in the list."""
        keys = self._keys(self._rows)
        return self.index(keys.index(key)) if key in keys else _NOWHERE

    def heading_above(self, index: Index) -> str:
        """Returns the heading directly above a row, "" where another item stands there."""
        above = self._rows[index.row() - 1] if index.row() else ""
        return above if isinstance(above, str) else ""

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        if isinstance(row, str):
            return row if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole) else None
        return row if role == ITEM else self.values(row).get(role)

    def flags(self, index: Index) -> Qt.ItemFlag:
        if self.item(index) is None:
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable

    def _keys(self, rows: Sequence[str | Item]) -> list[object]:
        return [row if isinstance(row, str) else self.key(row) for row in rows]


class SectionList(QListView):
    """The view of a SectionModel. requested(str): what the user asks for by a key, one of the values of `keys`."""

    requested = Signal(str)

    def __init__(self, name: str, keys: Mapping[Qt.Key, str], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._requests = keys
        style(self, ground="clear")
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setAccessibleName(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        request = self._requests.get(Qt.Key(event.key()))
        if request is None or self.state() == QAbstractItemView.State.EditingState:
            super().keyPressEvent(event)
        else:
            self.requested.emit(request)


class SectionDelegate(QStyledItemDelegate):
    """Draws headings, and the background of items; a subclass draws what is in front of it with `paint_item`."""

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        rect = item_rect(option)
        item = index.data(ITEM)
        if item is None:
            chosen = bool(index.flags() & Qt.ItemFlag.ItemIsSelectable) and self._paint_background(painter, option)
            self.paint_heading(painter, rect.adjusted(MARGIN + INSIDE, 0, -MARGIN - INSIDE, -5), index.data(), chosen)
        else:
            selected = self._paint_background(painter, option)
            self.paint_item(painter, rect.adjusted(MARGIN + INSIDE, 0, -MARGIN - INSIDE, 0), item, selected)
        painter.restore()

    def paint_heading(self, painter: QPainter, rect: QRect, text: str, selected: bool) -> None:
        """Draws the heading of a section at the bottom of `rect`. selected: it stands on the accent."""
        look = theme.current()
        painter.setFont(look.font(11, QFont.Weight.DemiBold))
        painter.setPen(QColor(look.on_accent if selected else look.faint))
        painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, text)

    def paint_item(self, painter: QPainter, rect: QRect, item: Any, selected: bool) -> None:
        """Draws an item within `rect`. selected: it stands on the accent instead of the background of the list."""
        raise NotImplementedError

    def _paint_background(self, painter: QPainter, option: QStyleOptionViewItem) -> bool:
        """Draws the background of a row that is selected or hovered; returns whether it is the accent."""
        look, state = theme.current(), item_state(option)
        selected = bool(state & QStyle.StateFlag.State_Selected)
        focused = selected and self._view.hasFocus()
        if selected or state & QStyle.StateFlag.State_MouseOver:
            quiet = mix(look.sidebar, look.text, 0.11 if selected else 0.05)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(look.accent if focused else quiet))
            rect = item_rect(option)
            painter.drawRoundedRect(QRectF(rect.adjusted(MARGIN, 1, -MARGIN, -1)), 7, 7)
        return focused


def draw_elided(painter: QPainter, rect: QRect, text: str) -> None:
    """Draws one line of text at the left of `rect`, with an ellipsis where it is too long."""
    shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, shown)
