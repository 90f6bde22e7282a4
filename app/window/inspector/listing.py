"""The list of rounds: thousands of rows of which those in sight are drawn. Follows the newest unless scrolled away."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QPushButton, QTableView, QWidget

from app.window.inspector.fold import Fold
from app.window.inspector.pieces import describe
from app.window.inspector.rows import ROUND, Index, Row, RowDelegate, row_at, times_text
from app.window.look import GAP, Look

NOWHERE = QModelIndex()


class RoundModel(QAbstractTableModel):
    """The rows of a fold, one column. Told of new ones by `grow`."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.fold = Fold()
        self._count = 0

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else self._count

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        if role == ROUND:
            return self.row(index.row())
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.DisplayRole):
            row = self.row(index.row())
            said = [f"round {row.number}, {describe(row.told)}", row.told.round.reason, times_text(row)]
            return "; ".join(part for part in said if part)
        return None

    def row(self, place: int) -> Row:
        told, series = self.fold.rows[place], self.fold.series
        return Row(
            told.round.index + 1,
            told,
            series.draft_ms[place],
            series.verify_ms[place],
            series.whole_ms[place],
        )

    def newest(self) -> Row | None:
        return self.row(self._count - 1) if self._count else None

    def show(self, fold: Fold) -> None:
        """Another reply, or the same with rows moved."""
        self.beginResetModel()
        self.fold = fold
        self._count = len(fold.rows)
        self.endResetModel()

    def grow(self) -> None:
        """Show what the fold has taken since."""
        count = len(self.fold.rows)
        if count > self._count:
            self.beginInsertRows(NOWHERE, self._count, count - 1)
            self._count = count
            self.endInsertRows()


class RoundList(QTableView):
    """following: whether the newest round is kept in sight."""

    looked_at = Signal(object)  # the Row pointed at or selected, whichever came last; None where neither is

    def __init__(self, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.following = True
        self.round_model = RoundModel(self)
        self._delegate = RowDelegate(look, self)
        self._looked: QPersistentModelIndex | None = None
        self.setModel(self.round_model)
        self.setItemDelegate(self._delegate)
        self._set_up()
        self._newest = QPushButton("Newest ↓", self)
        self._newest.setToolTip("Follow the newest round again (End)")
        self._newest.clicked.connect(self.follow)
        self.set_look(look)
        self.verticalScrollBar().valueChanged.connect(self._scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._stretched)
        self.entered.connect(self._look_at)

    def _set_up(self) -> None:
        self.setAccessibleName("Rounds")
        self.setAccessibleDescription("Each round with what was drafted and what was kept, oldest first")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setShowGrid(False)
        self.setMouseTracking(True)
        self.setTabKeyNavigation(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.horizontalHeader().hide()
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self.verticalHeader().hide()
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)

    def set_look(self, look: Look) -> None:
        self._delegate.set_look(look)
        self.verticalHeader().setMinimumSectionSize(self._delegate.height)
        self.verticalHeader().setDefaultSectionSize(self._delegate.height)
        self._newest.setStyleSheet(
            f"QPushButton {{ background: {look.raised}; color: {look.accent}; border: 1px solid {look.hairline};"
            f" border-radius: {GAP}px; padding: 3px {GAP}px; font-size: {look.px(11)}px; }}"
            f"QPushButton:hover, QPushButton:focus {{ background: {look.hover}; border-color: {look.accent}; }}"
        )
        self._newest.adjustSize()
        self._place_button()
        self.viewport().update()

    def show_fold(self, fold: Fold) -> None:
        """Another reply; its newest round is followed."""
        self._looked = None
        self.round_model.show(fold)
        self.follow()
        self.looked_at.emit(None)

    def grow(self) -> None:
        """Show what the fold has taken since."""
        self.round_model.grow()
        if self.following:  # at once, since a layout that comes after the first paint makes a second one
            self.scrollToBottom()

    def renew(self) -> None:
        """The same fold, whose rows have moved: the selection and the way of scrolling stay."""
        place, spot = self.currentIndex().row(), self.verticalScrollBar().value()
        following = self.following
        self.round_model.show(self.round_model.fold)
        if place >= 0:
            self.setCurrentIndex(self.round_model.index(place, 0))
        self.following = following
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum() if following else spot)

    def follow(self) -> None:
        """Show the newest round, and those to come."""
        self.following = True
        self.scrollToBottom()
        self._show_button()

    def chosen(self) -> Row | None:
        """The round that was pointed at or selected last; the selected one once the pointer has left."""
        index = self._looked if self._looked is not None and self._looked.isValid() else self.currentIndex()
        return row_at(self.round_model, index.row()) if index.isValid() else None

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place_button()
        if self.following:
            self.scrollToBottom()

    def moveCursor(self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier) -> QModelIndex:
        """The keyboard starts at the newest round."""
        last = self.round_model.rowCount() - 1
        if last >= 0 and not self.currentIndex().isValid():
            return self.round_model.index(last, 0)
        return super().moveCursor(action, modifiers)

    def keyboardSearch(self, search: str) -> None:
        """Does nothing: letters typed here would be looked for in every row."""

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self._look_at(self.currentIndex())
        return super().viewportEvent(event)

    def currentChanged(self, current: Index, previous: Index) -> None:
        super().currentChanged(current, previous)
        self._look_at(current)

    def _look_at(self, index: Index) -> None:
        self._looked = QPersistentModelIndex(index)
        self.looked_at.emit(self.chosen())

    def _scrolled(self, value: int) -> None:
        self.following = value >= self.verticalScrollBar().maximum()
        self._show_button()

    def _stretched(self, _: int, maximum: int) -> None:
        if self.following:
            self.verticalScrollBar().setValue(maximum)

    def _show_button(self) -> None:
        self._newest.setVisible(not self.following and self.round_model.rowCount() > 0)

    def _place_button(self) -> None:
        where = self.viewport().geometry()
        self._newest.move(where.right() - self._newest.width() - GAP, where.bottom() - self._newest.height() - GAP)
