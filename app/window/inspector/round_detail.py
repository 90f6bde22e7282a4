"""The detail of a round: its tokens with the probabilities that the target and the drafter gave them."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import QAbstractTableModel, QEvent, QModelIndex, QObject, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHeaderView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.widgets import wrapped
from app.window.inspector.round_list import MARGIN, Index, RoundRow, times_text, tip
from app.window.inspector.round_tokens import Piece, emitted_pieces, refused, shape
from app.window.inspector.token_painter import token_painter

NOWHERE = QModelIndex()
PIECE = Qt.ItemDataRole.UserRole
TOKEN, P, Q = range(3)
HEADINGS = ("Token", "p", "q")
MEANINGS = (
    "The tokens of the round in order, then the refused ones",
    "p: the probability the target gives the token",
    "q: the probability the drafter gave the token",
)
INDENT = 8.0  # px a level of a tree
HINT = "Point at a round or select one to see the probabilities of its tokens."


class PieceModel(QAbstractTableModel):
    """The tokens of one round with p and q."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pieces: list[Piece] = []

    def show(self, pieces: list[Piece]) -> None:
        self.beginResetModel()
        self._pieces = pieces
        self.endResetModel()

    def rowCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(self._pieces)

    def columnCount(self, parent: Index = NOWHERE) -> int:
        return 0 if parent.isValid() else len(HEADINGS)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        piece = self._pieces[index.row()]
        if role == PIECE:
            return piece
        if role == Qt.ItemDataRole.DisplayRole:
            return (f"{piece.text}, {piece.kind}", _number(piece.p), _number(piece.q))[index.column()]
        return tip(piece) if role == Qt.ItemDataRole.ToolTipRole else None

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return Qt.AlignmentFlag.AlignLeft if section == TOKEN else Qt.AlignmentFlag.AlignRight
        return {Qt.ItemDataRole.DisplayRole: HEADINGS, Qt.ItemDataRole.ToolTipRole: MEANINGS}.get(
            Qt.ItemDataRole(role), (None,) * 3
        )[section]


class PieceDelegate(QStyledItemDelegate):
    """Draws a token with its kind beside it, and a probability as a number over a bar."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.branched = False

    @property
    def height(self) -> int:
        return round(token_painter().piece_height + 4)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(round(token_painter().small_metrics.horizontalAdvance("0.000") + 2.5 * MARGIN), self.height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        piece: Piece = index.data(PIECE)
        box = QRectF(option.rect)  # type: ignore[attr-defined]
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if option.state & QStyle.StateFlag.State_Selected:  # type: ignore[attr-defined]
            painter.fillRect(box, QColor(theme.current().selection))
        if index.column() == TOKEN:
            self._draw_token(painter, box, piece)
        else:
            self._draw_prob(painter, box, piece.p if index.column() == P else piece.q)
        painter.restore()

    def _draw_token(self, painter: QPainter, box: QRectF, piece: Piece) -> None:
        ink = token_painter()
        left = box.left() + MARGIN + (INDENT * (piece.depth - 1) if self.branched else 0)
        width = min(ink.width(piece.text), box.right() - left)
        painter.setClipRect(box)
        painter.setFont(ink.token_font)
        ink.draw_piece(painter, QRectF(left, box.top() + 2, width, ink.piece_height), piece)
        painter.setFont(ink.small_font)
        painter.setPen(ink.faint)
        beside = box.adjusted(left + width + MARGIN - box.left(), 0, 0, 0)
        painter.drawText(beside, Qt.AlignmentFlag.AlignVCenter, piece.kind)

    def _draw_prob(self, painter: QPainter, box: QRectF, prob: float | None) -> None:
        ink = token_painter()
        inner = box.adjusted(MARGIN, 0, -MARGIN, 0)
        painter.setFont(ink.small_font)
        painter.setPen(ink.faint if prob is None else ink.text)
        text = inner.adjusted(0, 0, 0, -3)
        painter.drawText(text, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, _number(prob))
        if prob is None:
            return
        look = theme.current()
        bar = QColor(mix(look.accent, look.background, 0.35))
        rail = QRectF(inner.left(), inner.bottom() - 4, inner.width(), 2)
        painter.fillRect(rail, QColor(look.hairline))
        share = min(max(prob, 0.0), 1.0)
        painter.fillRect(QRectF(rail.topLeft(), rail.topLeft() + QPointF(rail.width() * share, 2)), bar)


class RoundDetail(QWidget):
    """Shows a `RoundRow`, or how to choose one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: RoundRow | None = None
        self._title, self._why = wrapped(role="heading"), wrapped(role="caption")
        self._model, self._table = PieceModel(self), QTableView(self)
        self._delegate = PieceDelegate(self)
        self._set_up_table()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, GAP // 2, 0, 0)
        column.setSpacing(2)
        for label in (self._title, self._why):
            label.setContentsMargins(GAP, 0, GAP, 0)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
            column.addWidget(label)
        column.addWidget(self._table, 1)
        column.addStretch(0)
        self._set_row_height()
        self.show_row(None)

    def _set_up_table(self) -> None:
        table = self._table
        table.setModel(self._model)
        table.setItemDelegate(self._delegate)
        table.setAccessibleName("Tokens of the round")
        table.setFrameShape(QFrame.Shape.NoFrame)
        table.setShowGrid(False)
        table.setTabKeyNavigation(False)
        table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        table.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        table.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        table.verticalHeader().hide()
        table.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header = table.horizontalHeader()
        header.setHighlightSections(False)
        header.setSectionResizeMode(TOKEN, QHeaderView.ResizeMode.Stretch)
        for section in (P, Q):
            header.setSectionResizeMode(section, QHeaderView.ResizeMode.ResizeToContents)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._set_row_height()

    def _set_row_height(self) -> None:
        self._table.verticalHeader().setMinimumSectionSize(self._delegate.height)
        self._table.verticalHeader().setDefaultSectionSize(self._delegate.height)

    def show_row(self, row: RoundRow | None) -> None:
        """Shows a round in full; None: how to choose one."""
        if row is not None and self._shown is not None and row.round_done is self._shown.round_done:
            return
        self._shown = row
        self._table.setVisible(row is not None)
        self._why.setVisible(row is None or bool(_why(row)))
        if row is None:
            self._title.setText("Tokens of a Round")
            self._why.setText(HINT)
            self._model.show([])
            return
        round_ = row.round_done.round
        kept = f", {round_.accepted} accepted" if round_.drafted else ""
        self._title.setText(f"Round {row.number:,}: {shape(round_)}{kept}")
        self._why.setText(_why(row))
        self._delegate.branched = round_.parents is not None
        self._model.show([*emitted_pieces(row.round_done), *refused(row.round_done)])


def _why(row: RoundRow) -> str:
    rows = f"{row.round_done.round.width} rows verified" if row.round_done.round.width > 1 else ""
    return " · ".join(part for part in (row.round_done.round.reason, times_text(row), rows) if part)


def _number(prob: float | None) -> str:
    return "-" if prob is None else f"{prob:.3f}"
