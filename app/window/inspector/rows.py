"""One row of the list of rounds: where its parts go, how it is drawn, what its tip says.

    128  [the][ sky][looks][~grey~][~so~]               2/5
         expects 1.62x plain speed     draft 6.0 · verify 31 ms

A tree is drawn small before its pieces, of which those on the way taken and those offered where it ended are shown.
"""

from __future__ import annotations

from math import isnan
from typing import NamedTuple

from PySide6.QtCore import (
    QAbstractItemModel,
    QEvent,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
)
from PySide6.QtGui import QColor, QHelpEvent, QPainter, QPen
from PySide6.QtWidgets import QAbstractItemView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QToolTip

from app.protocol import Told
from app.window.inspector.ink import APART, PADDING, Ink, tree_width
from app.window.inspector.pieces import Piece, refused, said
from app.window.look import Look, mix

Index = QModelIndex | QPersistentModelIndex

MARGIN = 8.0
LINE_GAP = 2.0
ROUND = Qt.ItemDataRole.UserRole  # a `Row`


class Row(NamedTuple):
    """number: from 1. Times in ms, nan where unknown; whole_ms from the round before to this one."""

    number: int
    told: Told
    draft_ms: float
    verify_ms: float
    whole_ms: float


class Placed(NamedTuple):
    """Where the parts of a row are. left: of what is beside the number. more: pieces there was no room for."""

    left: float
    pieces: list[tuple[QRectF, Piece]]
    more: int


class RowDelegate(QStyledItemDelegate):
    """Draws rows whose ROUND data is a `Row`, all of one height."""

    def __init__(self, look: Look, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.set_look(look)

    def set_look(self, look: Look) -> None:
        self._ink = Ink(look)
        self._number_width = self._ink.small_metrics.horizontalAdvance("20,000") + MARGIN
        self._count_width = self._ink.token_metrics.horizontalAdvance("16/16") + MARGIN
        self._selected = QColor(mix(look.accent, look.background, 0.84))
        self._hovered = QColor(look.hover)

    @property
    def height(self) -> int:
        ink = self._ink
        return round(MARGIN + ink.piece_height + LINE_GAP + ink.small_metrics.height())

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(240, self.height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row: Row = index.data(ROUND)
        box = QRectF(option.rect)  # type: ignore[attr-defined]
        state = option.state  # type: ignore[attr-defined]
        painter.save()
        self._draw_background(painter, box, state)
        placed = self.place(row.told, box)
        self._draw_first_line(painter, box, row, placed)
        self._draw_second_line(painter, box, row, placed.left)
        painter.restore()

    def place(self, told: Told, box: QRectF) -> Placed:
        """Lay a round out in `box`."""
        round_ = told.round
        left = box.left() + self._number_width + MARGIN
        pieces, lost = said(told), refused(told)
        hidden = 0
        if round_.parents is not None:
            left += tree_width(round_) + MARGIN
            hidden = sum(not piece.offered for piece in lost)
            lost = [piece for piece in lost if piece.offered]
        x, right = left, box.right() - self._count_width - MARGIN
        top, height = box.top() + MARGIN / 2, self._ink.piece_height
        found: list[tuple[QRectF, Piece]] = []
        pieces += lost
        room_for_more = self._ink.small_metrics.horizontalAdvance("+16") + APART
        for i, piece in enumerate(pieces):
            width = self._ink.width(piece.text)
            last = i == len(pieces) - 1 and not hidden
            if x + width > right - (0 if last else room_for_more):
                break
            found.append((QRectF(x, top, width, height), piece))
            x += width + APART
        return Placed(left, found, len(pieces) - len(found) + hidden)

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        """The tip of the piece under the pointer, or of its row."""
        if event.type() != QEvent.Type.ToolTip or not index.isValid():
            return False
        row: Row = index.data(ROUND)
        placed = self.place(row.told, QRectF(option.rect))  # type: ignore[attr-defined]
        under = [piece for box, piece in placed.pieces if box.contains(QPointF(event.pos()))]
        about = [text for text in (row.told.round.reason, times_text(row)) if text]
        QToolTip.showText(event.globalPos(), tip(under[0]) if under else " · ".join(about), view)
        return True

    def _draw_background(self, painter: QPainter, box: QRectF, state: QStyle.StateFlag) -> None:
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, self._selected)
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(box, self._hovered)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(self._ink.accent, 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(1, 1, -1, -2))
        painter.setPen(QPen(self._ink.hairline, 1))
        bottom = box.bottom() - 0.5
        painter.drawLine(QPointF(box.left() + MARGIN, bottom), QPointF(box.right() - MARGIN, bottom))

    def _draw_first_line(self, painter: QPainter, box: QRectF, row: Row, placed: Placed) -> None:
        ink, round_ = self._ink, row.told.round
        line = QRectF(box.left(), box.top() + MARGIN / 2, box.width(), ink.piece_height)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if round_.parents is not None:
            inset = box.adjusted(self._number_width + MARGIN, MARGIN * 0.75, 0, -MARGIN * 0.75)
            ink.draw_tree(painter, inset, round_)
        painter.setFont(ink.token_font)
        for spot, piece in placed.pieces:
            ink.draw_piece(painter, spot, piece)
        painter.setPen(ink.text)
        right = line.adjusted(0, 0, -MARGIN, 0)
        if round_.drafted:
            count = f"{round_.accepted}/{len(round_.drafted)}"
            painter.drawText(right, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, count)
        painter.setPen(ink.faint)
        painter.setFont(ink.small_font)
        if placed.more:
            left = placed.pieces[-1][0].right() + 2 * APART if placed.pieces else placed.left
            where = QRectF(left, line.top(), line.right() - left, line.height())
            painter.drawText(where, Qt.AlignmentFlag.AlignVCenter, f"+{placed.more}")
        number = QRectF(box.left(), line.top(), self._number_width, line.height())
        painter.drawText(number, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, f"{row.number:,}")

    def _draw_second_line(self, painter: QPainter, box: QRectF, row: Row, left: float) -> None:
        metrics = self._ink.small_metrics
        baseline = box.bottom() - MARGIN / 2 - metrics.descent()
        left, right, reason = left + PADDING, box.right() - MARGIN, row.told.round.reason
        times = times_text(row)
        if metrics.horizontalAdvance(reason) + MARGIN + metrics.horizontalAdvance(times) > right - left:
            times = times_text(row, short=True)
        width = metrics.horizontalAdvance(times)
        painter.drawText(QPointF(right - width, baseline), times)
        reason = metrics.elidedText(reason, Qt.TextElideMode.ElideRight, right - width - MARGIN - left)
        painter.drawText(QPointF(left, baseline), reason)


def row_at(model: QAbstractItemModel, place: int) -> Row | None:
    """What row `place` shows."""
    row = model.index(place, 0).data(ROUND)
    return row if isinstance(row, Row) else None


def times_text(row: Row, short: bool = False) -> str:
    """ "draft 6.0 · verify 31 ms" (short: "6.0 + 31 ms") where that was measured, else "round 37 ms", "" if not even
    that is known."""
    if not isnan(row.verify_ms) and not isnan(row.draft_ms):
        form = "{} + {} ms" if short else "draft {} · verify {} ms"
        return form.format(_figures(row.draft_ms), _figures(row.verify_ms))
    return "" if isnan(row.whole_ms) else f"round {_figures(row.whole_ms)} ms"


def _figures(value: float) -> str:
    """Two figures or more."""
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def tip(piece: Piece) -> str:
    """What a piece is, its id and its chances."""
    kind = "plain, nothing was drafted" if piece.kind == "plain" else piece.kind
    chances = [f"{name} {chance:.3f}" for name, chance in (("p", piece.p), ("q", piece.q)) if chance is not None]
    return " · ".join([f"{piece.text} (token {piece.token})", kind, *chances])
