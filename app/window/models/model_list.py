"""The list of models: rows under the headings of their sections, how they are drawn, and its keys."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.icons import pixmap
from app.window.common.paint_helpers import draw_elided, item_rect, item_state
from app.window.models.catalogue_view import DOWNLOADING, Row
from app.window.models.downloads import Download
from app.window.models.model_text import (
    BADGES,
    ICONS,
    UNKNOWN,
    bits,
    joined,
    parameters,
    size,
    speedup,
    status,
)

MARGIN, INSIDE, BAR = GAP, 10, 4  # px beside the row's ground, within it, and of a bar
SPEEDUP = "speed-up"
_LEFT, _RIGHT = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
_SELECTED, _HOVERED = QStyle.StateFlag.State_Selected, QStyle.StateFlag.State_MouseOver
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
    """requested(str): "do" what the chosen model offers first, or "delete" it."""

    requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setMouseTracking(True)
        self.setAccessibleName("Models")
        self.doubleClicked.connect(lambda _: self.requested.emit("do"))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        keys = {Qt.Key.Key_Return: "do", Qt.Key.Key_Enter: "do", Qt.Key.Key_Delete: "delete"}
        keys[Qt.Key.Key_Backspace] = "delete"
        requested = keys.get(Qt.Key(event.key()))
        if requested is None:
            super().keyPressEvent(event)
        else:
            self.requested.emit(requested)


class ModelDelegate(QStyledItemDelegate):
    """used: the key of the model that the open chat uses."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._view = parent
        self.used = ""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        large, small = QFontMetrics(theme.current().font()), QFontMetrics(theme.current().font(11.5))
        if index.data(ROW) is None:
            return QSize(0, small.height() + (2 * GAP if index.row() == 0 else 3 * GAP))
        return QSize(0, large.height() + small.height() + 2 * GAP + 4)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        row, rect = index.data(ROW), item_rect(option)
        if row is None:
            self._heading(painter, rect, index.data())
        else:
            ink, faint = self._ground(painter, option)
            inside = rect.adjusted(MARGIN + INSIDE, GAP, -MARGIN - INSIDE, -GAP)
            upper = QRect(inside.left(), inside.top(), inside.width(), QFontMetrics(theme.current().font()).height())
            lower = QRect(inside.left(), upper.bottom() + 4, inside.width(), inside.bottom() - upper.bottom() - 4)
            self._name(painter, upper, row, ink, faint)
            if row.download is not None:
                self._download(painter, lower, row.download, faint)
            else:
                self._facts(painter, lower, row, faint)
        painter.restore()

    def _heading(self, painter: QPainter, rect: QRect, text: str) -> None:
        painter.setPen(QColor(theme.current().faint))
        place = rect.adjusted(MARGIN + INSIDE, 0, -MARGIN - INSIDE, -5)
        painter.setFont(theme.current().font(11, QFont.Weight.DemiBold))
        painter.drawText(place, _LEFT | Qt.AlignmentFlag.AlignBottom, text)
        if text != DOWNLOADING:
            painter.setFont(theme.current().font(11))
            painter.drawText(place, _RIGHT | Qt.AlignmentFlag.AlignBottom, SPEEDUP)

    def _ground(self, painter: QPainter, option: QStyleOptionViewItem) -> tuple[str, str]:
        """What the row stands on; returns the colours of its text and of what is beside the text."""
        look, state = theme.current(), item_state(option)
        selected, hovered = (bool(state & flag) for flag in (_SELECTED, _HOVERED))
        focused = selected and self._view.hasFocus()
        if selected or hovered:
            quiet = mix(look.sidebar, look.text, 0.11 if selected else 0.05)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(look.accent if focused else quiet))
            painter.drawRoundedRect(QRectF(item_rect(option).adjusted(MARGIN, 1, -MARGIN, -1)), 7, 7)
        return (look.on_accent, look.on_accent) if focused else (look.text, look.faint)

    def _name(self, painter: QPainter, rect: QRect, row: Row, ink: str, faint: str) -> None:
        right = self._badge(painter, rect, row.room, ink)
        if row.key == self.used:
            right = self._mark(painter, QRect(rect.left(), rect.top(), right - rect.left(), rect.height()), ink)
        painter.setFont(theme.current().font(13, QFont.Weight.Medium))
        painter.setPen(QColor(ink))
        draw_elided(painter, QRect(rect.left(), rect.top(), right - rect.left() - GAP, rect.height()), row.title)

    def _badge(self, painter: QPainter, rect: QRect, room: str, ink: str) -> int:
        """In words, with an icon and a colour; returns where it begins."""
        if not room:
            return rect.right()
        look = theme.current()
        own = {"good": look.good, "tight": look.warning, "no": look.error}[room]
        colour = own if ink == look.text else ink
        painter.setFont(look.font(11.5))
        painter.setPen(QColor(colour))
        wide = painter.fontMetrics().horizontalAdvance(BADGES[room])
        painter.drawText(rect, _RIGHT | Qt.AlignmentFlag.AlignVCenter, BADGES[room])
        size, left = look.px(12), rect.right() - wide - look.px(12) - 4
        ratio = painter.device().devicePixelRatioF()
        painter.drawPixmap(left, rect.center().y() - size // 2, pixmap(ICONS[room], colour, size, ratio))
        return left

    def _mark(self, painter: QPainter, rect: QRect, ink: str) -> int:
        """That the open chat uses it; returns where that begins."""
        painter.setFont(theme.current().font(11, QFont.Weight.DemiBold))
        text = "In use"
        wide = painter.fontMetrics().horizontalAdvance(text) + 12
        pill = QRectF(rect.right() - wide - 6, rect.top() + 1, wide, rect.height() - 2)
        colour = QColor(theme.current().accent if ink == theme.current().text else ink)
        painter.setPen(colour)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        painter.drawText(pill, Qt.AlignmentFlag.AlignCenter, text)
        return int(pill.left())

    def _facts(self, painter: QPainter, rect: QRect, row: Row, faint: str) -> None:
        painter.setFont(theme.current().font(11.5))
        painter.setPen(QColor(faint))
        fast = speedup(row.measured) if row.room else ""
        wide = painter.fontMetrics().horizontalAdvance(fast)
        painter.drawText(rect, _RIGHT | Qt.AlignmentFlag.AlignVCenter, fast)
        draw_elided(painter, rect.adjusted(0, 0, -wide - GAP, 0), facts(row))

    def _download(self, painter: QPainter, rect: QRect, download: Download, faint: str) -> None:
        look = theme.current()
        painter.setFont(look.font(11.5))
        painter.setPen(QColor(look.error if download.state == "failed" and faint == look.faint else faint))
        if not download.total_bytes:
            draw_elided(painter, rect, status(download))
            return
        text = f"{download.share:.0%}" if download.state == "running" else status(download)
        wide = painter.fontMetrics().horizontalAdvance(text)
        painter.drawText(rect, _RIGHT | Qt.AlignmentFlag.AlignVCenter, text)
        whole = QRectF(rect.left(), rect.center().y() - BAR / 2 + 1, rect.width() - wide - 2 * GAP, BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        selected = faint != look.faint
        trough = mix(look.accent, look.on_accent, 0.3) if selected else mix(look.sidebar, look.text, 0.15)
        painter.setBrush(QColor(trough))
        painter.drawRoundedRect(whole, BAR / 2, BAR / 2)
        whole.setWidth(max(BAR, whole.width() * download.share))
        live = look.accent if download.state == "running" else look.faint
        painter.setBrush(QColor(faint if selected else live))
        painter.drawRoundedRect(whole, BAR / 2, BAR / 2)


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
    fast = "speed-up not measured" if found == UNKNOWN else f"speed-up {found}"
    parts = (row.title, *facts(row).split(" · "), BADGES[row.room], fast if row.room else "")
    return ", ".join(part for part in parts if part)


def _name(row: str | Row) -> str:
    return row if isinstance(row, str) else f"{row.section} {row.key}"
