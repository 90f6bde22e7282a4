"""The list of the rounds of a reply: its model, its view and how a row is drawn."""

from math import isnan
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QPushButton,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QToolTip,
    QWidget,
)

from app.protocol import RoundDone
from app.reply import Reply
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.paint_helpers import item_rect, item_state
from app.window.common.widgets import style
from app.window.inspector.round_rows import RoundRow, RoundRows, RoundToken, describe, emitted_tokens, refused_tokens
from app.window.inspector.token_painter import APART, PADDING, token_painter, tree_width

Index = QModelIndex | QPersistentModelIndex

MARGIN = 8.0
LINE_GAP = 2.0
ROUND = Qt.ItemDataRole.UserRole  # a `RoundRow`
NOWHERE = QModelIndex()
LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class Placed(NamedTuple):
    """The places of the parts of a row. left: of what stands beside the number. more: tokens there was no room for."""

    left: float
    pieces: list[tuple[QRectF, RoundToken]]
    more: int


class RoundDelegate(QStyledItemDelegate):
    """Draws rows whose ROUND data is a `RoundRow`, all of one height.

        128  [the][ sky][looks][~grey~][~so~]               2/5
             expects 1.62x plain speed     draft 6.0 · verify 31 ms

    A tree is drawn small before its tokens, of which only those of the accepted path and those offered where it ended
    are shown.
    """

    @property
    def height(self) -> int:
        """The height of a row, px."""
        ink = token_painter()
        return round(MARGIN + ink.token_height + LINE_GAP + ink.small_metrics.height())

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(240, self.height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row: RoundRow = index.data(ROUND)
        box = QRectF(item_rect(option))
        placed = self.place(row.done, box)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._draw_background(painter, box, item_state(option))
        self._draw_first_line(painter, box, row, placed)
        self._draw_second_line(painter, box, row, placed.left)
        painter.restore()

    def place(self, done: RoundDone, box: QRectF) -> Placed:
        """Returns the places of the tokens of a round in `box`."""
        ink, is_tree, lost = token_painter(), done.round.parents is not None, refused_tokens(done)
        left = box.left() + _number_width() + MARGIN + (tree_width(done.round) + MARGIN if is_tree else 0)
        pieces = emitted_tokens(done) + [piece for piece in lost if piece.offered or not is_tree]
        hidden = sum(not piece.offered for piece in lost) if is_tree else 0
        right = box.right() - ink.token_metrics.horizontalAdvance("16/16") - 2 * MARGIN
        more_width = ink.small_metrics.horizontalAdvance("+16") + APART
        x, found = left, list[tuple[QRectF, RoundToken]]()
        for i, piece in enumerate(pieces):
            width = ink.width(piece.text)
            last = i == len(pieces) - 1 and not hidden
            if x + width > right - (0 if last else more_width):
                break
            found.append((QRectF(x, box.top() + MARGIN / 2, width, ink.token_height), piece))
            x += width + APART
        return Placed(left, found, len(pieces) - len(found) + hidden)

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        """Shows the tooltip of the token under the pointer, or of its row."""
        if event.type() != QEvent.Type.ToolTip or not index.isValid():
            return False
        row: RoundRow = index.data(ROUND)
        placed = self.place(row.done, QRectF(item_rect(option)))
        under = [piece for box, piece in placed.pieces if box.contains(QPointF(event.pos()))]
        about = [text for text in (row.done.round.reason, times_text(row)) if text]
        QToolTip.showText(event.globalPos(), tip(under[0]) if under else " · ".join(about), view)
        return True

    def _draw_background(self, painter: QPainter, box: QRectF, state: QStyle.StateFlag) -> None:
        look = theme.current()
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, QColor(look.selection))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(box, QColor(look.hover))
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(look.accent), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(1, 1, -1, -2))
        painter.setPen(QPen(token_painter().hairline, 1))
        bottom = box.bottom() - 0.5
        painter.drawLine(QPointF(box.left() + MARGIN, bottom), QPointF(box.right() - MARGIN, bottom))

    def _draw_first_line(self, painter: QPainter, box: QRectF, row: RoundRow, placed: Placed) -> None:
        ink, round_ = token_painter(), row.done.round
        line = QRectF(box.left(), box.top() + MARGIN / 2, box.width() - MARGIN, ink.token_height)
        if round_.parents is not None:
            inset = box.adjusted(_number_width() + MARGIN, MARGIN * 0.75, 0, -MARGIN * 0.75)
            ink.draw_tree(painter, inset, round_)
        for spot, piece in placed.pieces:
            ink.draw_token(painter, spot, piece)
        if round_.drafted:
            painter.setFont(ink.token_font)
            painter.setPen(ink.text)
            painter.drawText(line, RIGHT, f"{round_.accepted}/{len(round_.drafted)}")
        painter.setPen(ink.faint)
        painter.setFont(ink.small_font)
        if placed.more:
            left = placed.pieces[-1][0].right() + 2 * APART if placed.pieces else placed.left
            painter.drawText(line.adjusted(left - line.left(), 0, MARGIN, 0), LEFT, f"+{placed.more}")
        line.setWidth(_number_width())
        painter.drawText(line, RIGHT, f"{row.number:,}")

    def _draw_second_line(self, painter: QPainter, box: QRectF, row: RoundRow, left: float) -> None:
        metrics = token_painter().small_metrics
        baseline = box.bottom() - MARGIN / 2 - metrics.descent()
        left, right, reason = left + PADDING, box.right() - MARGIN, row.done.round.reason
        times = times_text(row)
        if metrics.horizontalAdvance(reason) + MARGIN + metrics.horizontalAdvance(times) > right - left:
            times = times_text(row, short=True)
        width = metrics.horizontalAdvance(times)
        painter.drawText(QPointF(right - width, baseline), times)
        reason = metrics.elidedText(reason, Qt.TextElideMode.ElideRight, right - width - MARGIN - left)
        painter.drawText(QPointF(left, baseline), reason)


def _number_width() -> float:
    return token_painter().small_metrics.horizontalAdvance("20,000") + MARGIN


def times_text(row: RoundRow, short: bool = False) -> str:
    """Returns "draft 6.0 · verify 31 ms" (short: "6.0 + 31 ms") if measured, else "round 37 ms", or "" if unknown."""
    if not isnan(row.verify_ms) and not isnan(row.draft_ms):
        form = "{} + {} ms" if short else "draft {} · verify {} ms"
        return form.format(figures(row.draft_ms), figures(row.verify_ms))
    return "" if isnan(row.whole_ms) else f"round {figures(row.whole_ms)} ms"


def figures(value: float) -> str:
    """Returns a number with two figures or more."""
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def tip(piece: RoundToken) -> str:
    """Returns what a token is, its id and its probabilities."""
    kind = "plain, nothing was drafted" if piece.kind == "plain" else piece.kind
    probs = [f"{name} {prob:.3f}" for name, prob in (("p", piece.p), ("q", piece.q)) if prob is not None]
    return " · ".join([f"{piece.text} (token {piece.token})", kind, *probs])


class RoundModel(QAbstractTableModel):
    """The rounds of a reply in one column; `grow` shows new ones."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rounds = RoundRows(Reply())
        self._count = 0

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else self._count

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else 1

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rounds.rows[index.row()]
        if role in (Qt.ItemDataRole.AccessibleTextRole, Qt.ItemDataRole.DisplayRole):
            parts = (f"round {row.number}, {describe(row.done)}", row.done.round.reason, times_text(row))
            return "; ".join(part for part in parts if part)
        return row if role == ROUND else None

    def show(self, rounds: RoundRows) -> None:
        """Shows another reply."""
        self.beginResetModel()
        self.rounds, self._count = rounds, len(rounds.rows)
        self.endResetModel()

    def grow(self) -> None:
        """Shows the rounds that have come since."""
        count = len(self.rounds.rows)
        if count < self._count:  # they were damaged
            self.show(self.rounds)
        elif count > self._count:
            self.beginInsertRows(NOWHERE, self._count, count - 1)
            self._count = count
            self.endInsertRows()


class RoundList(QTableView):
    """A list of thousands of rows; only the visible ones are drawn. following: whether it scrolls to new rounds."""

    looked_at = Signal(object)  # the RoundRow pointed at or selected, whichever came last; None if there is none

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.following = True
        self.round_model = RoundModel(self)
        self._delegate = RoundDelegate(self)
        self._looked: QPersistentModelIndex | None = None
        self.setModel(self.round_model)
        self.setItemDelegate(self._delegate)
        set_up_table(self, "Rounds", self._delegate.height)
        self.setAccessibleDescription("Each round with its drafted and accepted tokens, oldest first")
        self.setMouseTracking(True)
        self.setWordWrap(False)
        self.horizontalHeader().hide()
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Stretch)
        self._newest = QPushButton("Newest ↓", self)
        self._newest.setToolTip("Follow the newest round again (End)")
        self._newest.clicked.connect(self.follow)
        style(self._newest, role="pill")
        self.verticalScrollBar().valueChanged.connect(self._on_scroll)
        self.verticalScrollBar().rangeChanged.connect(lambda *_: self._keep_following())
        self.entered.connect(self._look_at)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            set_row_height(self, self._delegate.height)

    def show_rounds(self, rounds: RoundRows) -> None:
        """Shows another reply, and follows its newest round."""
        self._looked = None
        self.round_model.show(rounds)
        self.follow()
        self.looked_at.emit(None)

    def grow(self) -> None:
        """Shows the rounds that have come since."""
        self.round_model.grow()
        self._keep_following()  # at once, since a layout that comes after the first paint makes a second one

    def follow(self) -> None:
        """Shows the newest round, and those to come."""
        self.following = True
        self.scrollToBottom()
        self._show_button()

    def chosen(self) -> RoundRow | None:
        """Returns the round that was pointed at or selected last; the selected one once the pointer has left."""
        index = self._looked if self._looked is not None and self._looked.isValid() else self.currentIndex()
        row: RoundRow | None = index.data(ROUND)
        return row

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        corner, button = self.viewport().geometry().bottomRight(), self._newest
        button.move(corner.x() - button.width() - GAP, corner.y() - button.height() - GAP)
        self._keep_following()

    def moveCursor(self, action: QAbstractItemView.CursorAction, modifiers: Qt.KeyboardModifier) -> QModelIndex:
        """Starts at the newest round."""
        last = self.round_model.rowCount() - 1
        if last >= 0 and not self.currentIndex().isValid():
            return self.round_model.index(last, 0)
        return super().moveCursor(action, modifiers)

    def keyboardSearch(self, search: str) -> None:
        """Does nothing: typed letters would be searched for in every row."""

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

    def _on_scroll(self, value: int) -> None:
        self.following = value >= self.verticalScrollBar().maximum()
        self._show_button()

    def _keep_following(self) -> None:
        if self.following:
            self.scrollToBottom()

    def _show_button(self) -> None:
        self._newest.setVisible(not self.following and self.round_model.rowCount() > 0)


def set_up_table(table: QTableView, name: str, row_height: int) -> None:
    """Sets a table up for rows of one height that are drawn by a delegate and selected whole, one at a time."""
    table.setAccessibleName(name)
    table.setFrameShape(QFrame.Shape.NoFrame)
    table.setShowGrid(False)
    table.setTabKeyNavigation(False)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
    table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    table.verticalHeader().hide()
    table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
    set_row_height(table, row_height)


def set_row_height(table: QTableView, height: int) -> None:
    """Sets the height of all rows, px."""
    table.verticalHeader().setMinimumSectionSize(height)
    table.verticalHeader().setDefaultSectionSize(height)
