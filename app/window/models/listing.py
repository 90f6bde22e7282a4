"""The list of models: rows under the headings of their sections, and what its keys ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QWidget

from app.window.models.shelf import Row
from app.window.models.wording import BADGES, NOBODY, bits, joined, parameters, size, speedup, status

Index = QModelIndex | QPersistentModelIndex
ROW = Qt.ItemDataRole.UserRole  # Row; None of a heading
_NOWHERE = QModelIndex()


class RowsModel(QAbstractListModel):
    """Headings cannot be chosen, and the arrows pass over them."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._rows: list[str | Row] = []

    def show_rows(self, rows: Sequence[Row]) -> bool:
        """Show these instead; whether others stand in the list now, so that what was chosen must be chosen again."""
        listed: list[str | Row] = []
        for row in rows:
            if not listed or listed[-1].section != row.section:  # type: ignore[union-attr]  # the last is a row
                listed.append(row.section)
            listed.append(row)
        if [_name(row) for row in listed] == [_name(row) for row in self._rows]:
            self._rows = listed
            self.dataChanged.emit(self.index(0), self.index(len(listed) - 1))
            return False
        self.beginResetModel()
        self._rows = listed
        self.endResetModel()
        return True

    def row(self, index: Index) -> Row | None:
        """The model of a row; None of a heading."""
        found = self._rows[index.row()] if index.isValid() else None
        return found if isinstance(found, Row) else None

    def place(self, key: str) -> QModelIndex:
        """Of this model; invalid where it is not listed."""
        found = (at for at, row in enumerate(self._rows) if isinstance(row, Row) and row.key == key)
        return next((self.index(at) for at in found), _NOWHERE)

    @property
    def rows(self) -> list[Row]:
        """Without their headings."""
        return [row for row in self._rows if isinstance(row, Row)]

    def rowCount(self, parent: Index = _NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        row = self._rows[index.row()]
        if role == ROW:
            return row if isinstance(row, Row) else None
        if role == Qt.ItemDataRole.DisplayRole:
            return row if isinstance(row, str) else row.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return row if isinstance(row, str) else spoken(row)
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        if isinstance(self._rows[index.row()], str):
            return Qt.ItemFlag.NoItemFlags
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable


class ModelList(QListView):
    """asked(str): "do" what the chosen model offers first, or "delete" it."""

    asked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setAccessibleName("Models")
        self.doubleClicked.connect(lambda _: self.asked.emit("do"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = {Qt.Key.Key_Return: "do", Qt.Key.Key_Enter: "do", Qt.Key.Key_Delete: "delete"}
        keys[Qt.Key.Key_Backspace] = "delete"
        asked = keys.get(Qt.Key(event.key()))
        if asked is None:
            super().keyPressEvent(event)
        else:
            self.asked.emit(asked)


def facts(row: Row) -> str:
    """What a row says of its model: parameters, size, the best drafter."""
    if row.here is not None and not row.here.complete:
        return joined((size(row.size_bytes), row.here.trouble))
    entry = row.entry
    estimated = row.here is None and entry is not None and entry.size == "estimated"
    numbers = (parameters(entry.parameters_b), bits(entry.bits)) if entry else ()
    return joined((*numbers, size(row.size_bytes, estimated), row.drafter))


def spoken(row: Row) -> str:
    """All that a row shows, for those who have it read out."""
    if row.download is not None:
        return ", ".join((row.title, status(row.download)))
    found = speedup(row.measured)
    fast = "speed-up not measured" if found == NOBODY else f"speed-up {found}"
    told = (row.title, *facts(row).split(" · "), BADGES[row.room], fast if row.room else "")
    return ", ".join(part for part in told if part)


def _name(row: str | Row) -> str:
    return row if isinstance(row, str) else f"{row.section} {row.key}"
