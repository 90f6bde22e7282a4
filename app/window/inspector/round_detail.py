"""The detail of a round: its tokens with the probabilities that the target and the drafter gave them, and why the
selected one is there. The arrow keys go from token to token."""

from math import isnan

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QFrame,
    QHeaderView,
    QPlainTextEdit,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QTableView,
    QWidget,
)

from app.palette import mix
from app.protocol import Machines, RoundDone
from app.token_explanation import TokenExplanation, explain_emitted, explain_refused
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.layouts import STRETCH, column
from app.window.common.paint_helpers import item_rect, item_state
from app.window.common.widgets import wrapped
from app.window.inspector.round_list import (
    LEFT,
    MARGIN,
    RIGHT,
    Index,
    figures,
    set_row_height,
    set_up_table,
    times_text,
    tip,
)
from app.window.inspector.round_rows import RoundRow, RoundToken, emitted_tokens, refused_tokens, shape
from app.window.inspector.token_painter import token_painter

PIECE = Qt.ItemDataRole.UserRole
TOKEN, P, Q = range(3)
HEADINGS = {
    "Token": "The tokens of the round in order, then the refused ones",
    "p": "p: the probability the target gives the token",
    "q": "q: the probability the drafter gave the token",
}
INDENT = 8.0  # px a level of a tree
HINT = "Point at a round or select one to see the probabilities of its tokens."


class TokenDelegate(QStyledItemDelegate):
    """Draws a token with its kind beside it, and a probability as a number over a bar. branched: whether tokens are
    indented by their level in a tree."""

    branched = False

    @property
    def height(self) -> int:
        """The height of a row, px."""
        return round(token_painter().token_height + 4)

    @property
    def number_width(self) -> int:
        """The width of a column of numbers, px."""
        return round(token_painter().small_metrics.horizontalAdvance("0.000") + 2.5 * MARGIN)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(self.number_width, self.height)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        piece: RoundToken = index.data(PIECE)
        box = QRectF(item_rect(option))
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if item_state(option) & QStyle.StateFlag.State_Selected:
            painter.fillRect(box, QColor(theme.current().selection))
        if index.column() == TOKEN:
            self._draw_token(painter, box, piece)
        else:
            _draw_prob(painter, box.adjusted(MARGIN, 0, -MARGIN, 0), piece.p if index.column() == P else piece.q)
        painter.restore()

    def _draw_token(self, painter: QPainter, box: QRectF, piece: RoundToken) -> None:
        ink = token_painter()
        left = box.left() + MARGIN + (INDENT * (piece.depth - 1) if self.branched else 0)
        width = min(ink.width(piece.text), box.right() - left)
        painter.setClipRect(box)
        ink.draw_token(painter, QRectF(left, box.top() + 2, width, ink.token_height), piece)
        painter.setFont(ink.small_font)
        painter.setPen(ink.faint)
        painter.drawText(box.adjusted(left + width + MARGIN - box.left(), 0, 0, 0), LEFT, piece.kind)


def _draw_prob(painter: QPainter, box: QRectF, prob: float | None) -> None:
    ink, look = token_painter(), theme.current()
    painter.setFont(ink.small_font)
    painter.setPen(ink.faint if prob is None else ink.text)
    painter.drawText(box.adjusted(0, 0, 0, -3), RIGHT, _number(prob))
    if prob is not None:
        rail = QRectF(box.left(), box.bottom() - 4, box.width(), 2)
        painter.fillRect(rail, ink.hairline)
        rail.setWidth(rail.width() * min(max(prob, 0.0), 1.0))
        painter.fillRect(rail, QColor(mix(look.accent, look.background, 0.35)))


class RoundDetail(QWidget):
    """Shows a `RoundRow`, or how to choose one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._shown: RoundRow | None = None
        self._machines: Machines | None = None
        self._title, self._about = wrapped(role="heading"), wrapped(role="caption")
        self._model, self._table = QStandardItemModel(0, len(HEADINGS), self), QTableView(self)
        self._why = _explanation_view()
        self._delegate = TokenDelegate(self)
        self._table.setModel(self._model)
        self._table.setItemDelegate(self._delegate)
        set_up_table(self._table, "Tokens of the round", self._delegate.height)
        for section, (name, meaning) in enumerate(HEADINGS.items()):
            heading = QStandardItem(name)
            heading.setToolTip(meaning)
            heading.setTextAlignment(LEFT if section == TOKEN else RIGHT)
            self._model.setHorizontalHeaderItem(section, heading)
        header = self._table.horizontalHeader()
        header.setHighlightSections(False)
        for section in (TOKEN, P, Q):
            mode = QHeaderView.ResizeMode.Stretch if section == TOKEN else QHeaderView.ResizeMode.Fixed
            header.setSectionResizeMode(section, mode)
        self._fit_cells()
        for label in (self._title, self._about):
            label.setContentsMargins(GAP, 0, GAP, 0)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        parts = (self._title, self._about, (self._table, 1), (self._why, 1), (STRETCH, 0))
        column(*parts, on=self, margins=(0, GAP // 2, 0, 0), gap=2)
        self._table.selectionModel().currentRowChanged.connect(self._explain)
        self.show_row(None)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._fit_cells()

    def _fit_cells(self) -> None:
        """Makes rows as high, and the columns of numbers as wide, as the font needs."""
        set_row_height(self._table, self._delegate.height)
        for section in (P, Q):
            self._table.horizontalHeader().resizeSection(section, self._delegate.number_width)

    def set_machines(self, machines: Machines | None) -> None:
        """Sets the machines that shared the target of the rounds, None for one alone."""
        if machines != self._machines:
            row, self._shown, self._machines = self._shown, None, machines
            self.show_row(row)

    def show_row(self, row: RoundRow | None) -> None:
        """Shows a round in full; None: how to choose one."""
        if row is not None and self._shown is not None and row.done is self._shown.done:
            return
        self._shown = row
        self._table.setVisible(row is not None)
        self._why.setVisible(row is not None)
        self._model.setRowCount(0)
        if row is None:
            self._title.setText("Tokens of a Round")
            self._about.setText(HINT)
            return
        round_ = row.done.round
        kept = f", {round_.accepted} accepted" if round_.drafted else ""
        self._title.setText(f"Round {row.number:,}: {shape(round_)}{kept}")
        self._about.setText(about(row, self._machines))
        self._delegate.branched = round_.parents is not None
        emitted = emitted_tokens(row.done)
        for piece in (*emitted, *refused_tokens(row.done)):
            self._model.appendRow(_items(piece, _explanation(row.done, piece)))
        if emitted:  # the target's own token: what a reader asks about first
            self._table.setCurrentIndex(self._model.index(len(emitted) - 1, TOKEN))

    def _explain(self, current: Index) -> None:
        text = current.data(Qt.ItemDataRole.AccessibleDescriptionRole)
        self._why.setPlainText(text or "")


def _explanation_view() -> QPlainTextEdit:
    """Returns what explains the selected token: read-only text that can be selected, scrolled and left by Tab."""
    view = QPlainTextEdit()
    view.setReadOnly(True)
    view.setTabChangesFocus(True)
    view.setFrameShape(QFrame.Shape.NoFrame)
    view.setAccessibleName("Why this token")
    view.document().setDocumentMargin(GAP)
    view.setMinimumHeight(5 * view.fontMetrics().lineSpacing())
    return view


def _explanation(done: RoundDone, piece: RoundToken) -> TokenExplanation:
    explain = explain_refused if piece.kind == "refused" else explain_emitted
    return explain(done, piece.place)


def _items(piece: RoundToken, why: TokenExplanation) -> list[QStandardItem]:
    """Returns the cells of a token."""
    items = [QStandardItem(text) for text in (f"{piece.text}, {piece.kind}", _number(piece.p), _number(piece.q))]
    for item in items:
        item.setData(piece, PIECE)
        item.setToolTip(tip(piece))
        item.setData(why.text, Qt.ItemDataRole.AccessibleDescriptionRole)
        item.setEditable(False)
    return items


def about(row: RoundRow, machines: Machines | None = None) -> str:
    """Returns why the round drafted as much as it did, its times, how often it waited for the device, and the rows of
    its verify pass. machines: that shared the target: then also an estimate of what the network took."""
    round_ = row.done.round
    waits = "1 device wait" if round_.waits == 1 else f"{round_.waits} device waits"
    rows = f"{round_.width} rows verified" if round_.width > 1 else ""
    network = network_text(row, machines) if machines is not None else ""
    return " · ".join(part for part in (round_.reason, times_text(row), network, waits, rows) if part)


def network_text(row: RoundRow, machines: Machines) -> str:
    """Returns "about 2.1 of 14 ms on the network", by what a sum took when the model was loaded; "" if unknown. The
    whole is the verify pass where it was measured, else the round."""
    whole_ms = row.whole_ms if isnan(row.verify_ms) else row.verify_ms
    network_ms = 1000 * machines.network_s(row.done.round.width)
    if isnan(whole_ms) or not network_ms:
        return ""
    return f"about {figures(min(network_ms, whole_ms))} of {figures(whole_ms)} ms on the network"


def _number(prob: float | None) -> str:
    return "-" if prob is None else f"{prob:.3f}"
