"""How the rows of the list are drawn: a name and a badge, below them what is known, or how far a download is."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import GAP, LIGHT, Look, mix
from app.window.models.download import Download
from app.window.models.listing import ROW, facts
from app.window.models.shelf import DOWNLOADING, Row
from app.window.models.wording import BADGES, ICONS, speedup, status
from app.window.shell.delegates import draw_elided, place_of, state_of

Index = QModelIndex | QPersistentModelIndex
MARGIN, INSIDE, BAR = GAP, 10, 4  # px beside the row's ground, within it, and of a bar
SPEEDUP = "speed-up"
_LEFT, _RIGHT = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight


class ModelDelegate(QStyledItemDelegate):
    """used: the key of the model that the open chat uses."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._view = parent
        self.look: Look = LIGHT
        self.used = ""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        large, small = QFontMetrics(font(self.look)), QFontMetrics(font(self.look, 11.5))
        if index.data(ROW) is None:
            return QSize(0, small.height() + (2 * GAP if index.row() == 0 else 3 * GAP))
        return QSize(0, large.height() + small.height() + 2 * GAP + 4)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        row, rect = index.data(ROW), place_of(option)
        if row is None:
            self._heading(painter, rect, index.data())
        else:
            ink, faint = self._ground(painter, option)
            inside = rect.adjusted(MARGIN + INSIDE, GAP, -MARGIN - INSIDE, -GAP)
            upper = QRect(inside.left(), inside.top(), inside.width(), QFontMetrics(font(self.look)).height())
            lower = QRect(inside.left(), upper.bottom() + 4, inside.width(), inside.bottom() - upper.bottom() - 4)
            self._name(painter, upper, row, ink, faint)
            if row.download is not None:
                self._download(painter, lower, row.download, faint)
            else:
                self._facts(painter, lower, row, faint)
        painter.restore()

    def _heading(self, painter: QPainter, rect: QRect, text: str) -> None:
        painter.setPen(QColor(self.look.faint))
        place = rect.adjusted(MARGIN + INSIDE, 0, -MARGIN - INSIDE, -5)
        painter.setFont(font(self.look, 11, QFont.Weight.DemiBold))
        painter.drawText(place, _LEFT | Qt.AlignmentFlag.AlignBottom, text)
        if text != DOWNLOADING:
            painter.setFont(font(self.look, 11))
            painter.drawText(place, _RIGHT | Qt.AlignmentFlag.AlignBottom, SPEEDUP)

    def _ground(self, painter: QPainter, option: QStyleOptionViewItem) -> tuple[str, str]:
        """What the row stands on; returns the colours of its text and of what is beside the text."""
        look, state = self.look, state_of(option)
        selected, hovered = (bool(state & flag) for flag in (_SELECTED, _HOVERED))
        focused = selected and self._view.hasFocus()
        if selected or hovered:
            quiet = mix(look.sidebar, look.text, 0.11 if selected else 0.05)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(look.accent if focused else quiet))
            painter.drawRoundedRect(QRectF(place_of(option).adjusted(MARGIN, 1, -MARGIN, -1)), 7, 7)
        return (look.on_accent, look.on_accent) if focused else (look.text, look.faint)

    def _name(self, painter: QPainter, rect: QRect, row: Row, ink: str, faint: str) -> None:
        right = self._badge(painter, rect, row.room, ink)
        if row.key == self.used:
            right = self._mark(painter, QRect(rect.left(), rect.top(), right - rect.left(), rect.height()), ink)
        painter.setFont(font(self.look, 13, QFont.Weight.Medium))
        painter.setPen(QColor(ink))
        draw_elided(painter, QRect(rect.left(), rect.top(), right - rect.left() - GAP, rect.height()), row.title)

    def _badge(self, painter: QPainter, rect: QRect, room: str, ink: str) -> int:
        """In words, with an icon and a colour; returns where it begins."""
        if not room:
            return rect.right()
        look = self.look
        own = {"good": look.good, "tight": look.warning, "no": look.error}[room]
        colour = own if ink == look.text else ink
        painter.setFont(font(look, 11.5))
        painter.setPen(QColor(colour))
        wide = painter.fontMetrics().horizontalAdvance(BADGES[room])
        painter.drawText(rect, _RIGHT | Qt.AlignmentFlag.AlignVCenter, BADGES[room])
        size, left = look.px(12), rect.right() - wide - look.px(12) - 4
        ratio = painter.device().devicePixelRatioF()
        painter.drawPixmap(left, rect.center().y() - size // 2, pixmap(ICONS[room], colour, size, ratio))
        return left

    def _mark(self, painter: QPainter, rect: QRect, ink: str) -> int:
        """That the open chat uses it; returns where that begins."""
        painter.setFont(font(self.look, 11, QFont.Weight.DemiBold))
        text = "in use"
        wide = painter.fontMetrics().horizontalAdvance(text) + 12
        pill = QRectF(rect.right() - wide - 6, rect.top() + 1, wide, rect.height() - 2)
        colour = QColor(self.look.accent if ink == self.look.text else ink)
        painter.setPen(colour)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        painter.drawText(pill, Qt.AlignmentFlag.AlignCenter, text)
        return int(pill.left())

    def _facts(self, painter: QPainter, rect: QRect, row: Row, faint: str) -> None:
        painter.setFont(font(self.look, 11.5))
        painter.setPen(QColor(faint))
        fast = speedup(row.measured) if row.room else ""
        wide = painter.fontMetrics().horizontalAdvance(fast)
        painter.drawText(rect, _RIGHT | Qt.AlignmentFlag.AlignVCenter, fast)
        draw_elided(painter, rect.adjusted(0, 0, -wide - GAP, 0), facts(row))

    def _download(self, painter: QPainter, rect: QRect, download: Download, faint: str) -> None:
        look = self.look
        painter.setFont(font(look, 11.5))
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


_SELECTED, _HOVERED = QStyle.StateFlag.State_Selected, QStyle.StateFlag.State_MouseOver
