"""The list of models: its data, and how a model is drawn."""

from collections.abc import Mapping

from PySide6.QtCore import QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter
from PySide6.QtWidgets import QStyleOptionViewItem, QWidget

from app.model_words import bits, joined, parameters, size, speedup
from app.palette import mix
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.icons import pixmap
from app.window.common.section_list import ITEM, Index, SectionDelegate, SectionModel, draw_elided
from app.window.common.widgets import draw_bar
from app.window.models.downloads import Download, status
from app.window.models.known_models import BADGES, ICONS, TONES, ModelRow

KEYS = {
    Qt.Key.Key_Return: "do",
    Qt.Key.Key_Enter: "do",
    Qt.Key.Key_Delete: "delete",
    Qt.Key.Key_Backspace: "delete",
}
BAR_HEIGHT = 4  # px
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class ModelListModel(SectionModel[ModelRow]):
    """The models under the headings of their sections."""

    def show_rows(self, rows: list[ModelRow]) -> None:
        """Shows these models, which are in the order of their sections."""
        sections: dict[str, list[ModelRow]] = {}
        for row in rows:
            sections.setdefault(row.section, []).append(row)
        self.show_sections(sections.items())

    def key(self, item: ModelRow) -> str:
        return item.key

    def values(self, item: ModelRow) -> Mapping[int, object]:
        return {Qt.ItemDataRole.DisplayRole: item.title, Qt.ItemDataRole.AccessibleTextRole: description(item)}


class ModelDelegate(SectionDelegate):
    """Draws a model in two lines. used: the key of the model that the open chat uses."""

    def __init__(self, view: QWidget) -> None:
        super().__init__(view)
        self.used = ""

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        large, small = QFontMetrics(theme.current().font()), QFontMetrics(theme.current().font(11.5))
        if index.data(ITEM) is None:
            return QSize(0, small.height() + (2 * GAP if index.row() == 0 else 3 * GAP))
        return QSize(0, large.height() + small.height() + 2 * GAP + 4)

    def paint_item(self, painter: QPainter, rect: QRect, item: ModelRow, selected: bool) -> None:
        rect = rect.adjusted(0, GAP, 0, -GAP)
        upper = QRect(rect.left(), rect.top(), rect.width(), QFontMetrics(theme.current().font()).height())
        lower = QRect(rect.left(), upper.bottom() + 4, rect.width(), rect.bottom() - upper.bottom() - 4)
        upper.setRight(self._paint_badge(painter, upper, item.fit, selected))
        if item.key == self.used:
            upper.setRight(self._paint_in_use(painter, upper, selected))
        painter.setFont(theme.current().font(13, QFont.Weight.Medium))
        painter.setPen(_colour("text", selected))
        draw_elided(painter, upper.adjusted(0, 0, -GAP, 0), item.title)
        painter.setFont(theme.current().font(11.5))
        painter.setPen(_colour("faint", selected))
        if item.download is not None:
            self._paint_download(painter, lower, item.download, selected)
            return
        found = speedup(item.measured) if item.fit else ""
        text = f"{found} speed-up" if found else ""
        painter.drawText(lower, _RIGHT, text)
        draw_elided(painter, lower.adjusted(0, 0, -painter.fontMetrics().horizontalAdvance(text) - GAP, 0), facts(item))

    def _paint_badge(self, painter: QPainter, rect: QRect, fit: str, selected: bool) -> int:
        """Draws at the right whether the model fits, as an icon and words; returns where that begins."""
        if not fit:
            return rect.right()
        look, colour = theme.current(), _colour(TONES[fit], selected)
        painter.setFont(look.font(11.5))
        painter.setPen(colour)
        painter.drawText(rect, _RIGHT, BADGES[fit])
        size = look.px(12)
        left = rect.right() - painter.fontMetrics().horizontalAdvance(BADGES[fit]) - size - 4
        icon = pixmap(ICONS[fit], colour.name(), size, painter.device().devicePixelRatioF())
        painter.drawPixmap(left, rect.center().y() - size // 2, icon)
        return left

    def _paint_in_use(self, painter: QPainter, rect: QRect, selected: bool) -> int:
        """Draws at the right that the open chat uses the model; returns where that begins."""
        painter.setFont(theme.current().font(11, QFont.Weight.DemiBold))
        width = painter.fontMetrics().horizontalAdvance("In use") + 12
        pill = QRectF(rect.right() - width - 6, rect.top() + 1, width, rect.height() - 2)
        painter.setPen(_colour("accent", selected))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        painter.drawText(pill, Qt.AlignmentFlag.AlignCenter, "In use")
        return int(pill.left())

    def _paint_download(self, painter: QPainter, rect: QRect, download: Download, selected: bool) -> None:
        look, running = theme.current(), download.state == "running"
        if download.state == "failed":
            painter.setPen(_colour("error", selected))
        text = f"{download.share:.0%}" if running and download.total_bytes else status(download)
        if not download.total_bytes:
            draw_elided(painter, rect, text)
            return
        painter.drawText(rect, _RIGHT, text)
        width = rect.width() - painter.fontMetrics().horizontalAdvance(text) - 2 * GAP
        bar = QRectF(rect.left(), rect.center().y() - BAR_HEIGHT / 2 + 1, width, BAR_HEIGHT)
        ground = mix(look.accent, look.on_accent, 0.3) if selected else mix(look.sidebar, look.text, 0.15)
        draw_bar(painter, bar, download.share, _colour("accent" if running else "faint", selected).name(), ground)


def _colour(tone: str, selected: bool) -> QColor:
    """Returns a colour of the appearance, for a row that stands on the accent or not."""
    look = theme.current()
    return QColor(look.on_accent if selected else look.colour(tone))


def facts(row: ModelRow) -> str:
    """Returns the size of a model, its bits, what it is good at, and its best drafter, on one line."""
    if row.here is not None and not row.here.complete:
        return joined((size(row.size_bytes), row.here.trouble))
    entry = row.entry
    estimated = row.here is None and entry is not None and entry.size == "estimated"
    good_at = row.target.good_at if row.target else ""
    about = (bits(entry.bits), good_at or parameters(entry.parameters_b)) if entry else ()
    return joined((size(row.size_bytes, estimated), *about, row.drafter))


def description(row: ModelRow) -> str:
    """Returns everything that a row shows, for assistive technology."""
    if row.download is not None:
        return ", ".join((row.title, status(row.download)))
    found = speedup(row.measured) if row.fit else ""
    parts = (row.title, *facts(row).split(" · "), BADGES[row.fit], f"speed-up {found}" if found else "")
    return ", ".join(part for part in parts if part)
