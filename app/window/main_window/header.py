"""The header above the conversation: its title, the status of speculation, and buttons for what the window shows."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStyleOptionToolButton, QStylePainter, QToolButton, QVBoxLayout, QWidget

from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.icons import pixmap
from app.window.common.widgets import ElidedLabel, Hairline, IconButton, style

if TYPE_CHECKING:
    from app.window.chat import SpeculationStatus

MIN_DETAIL = 40  # px; with less room the names are left out
SETTINGS_BUTTON_FROM = 470  # px; in a narrower window only the chip opens the chat's settings

# Of each state: in full, and where there is little room.
STATE_TEXTS = {
    "loading": ("Loading", "Loading"),
    "on": ("Speculation on", "On"),
    "off": ("Speculation off", "Off"),
    "unsupported": ("Speculation not available", "Not available"),
    "fell back": ("Fell back to plain decoding", "Fell back"),
    "host down": ("Engine stopped", "Engine stopped"),
    "unloaded": ("Models unloaded", "Unloaded"),
}
STATES_WITH_REASON = ("loading", "unsupported", "fell back", "host down", "unloaded")
STATE_TONES = {"on": "good", "fell back": "warning", "unsupported": "warning", "host down": "error"}


def status_text(status: SpeculationStatus) -> tuple[str, str]:
    """Returns the state in words, and its details: the reason where there is one, and the loaded pair."""
    pair = " · ".join(name for name in (status.target, status.drafter if status.state == "on" else "") if name)
    details = (status.detail, pair) if status.state in STATES_WITH_REASON else (pair,)
    return STATE_TEXTS[status.state][0], " · ".join(detail for detail in details if detail)


class StatusChip(QToolButton):
    """The status of speculation, always in words, with an icon and a colour; a press opens the chat's settings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        style(self, role="flat")
        self._state, self._text, self._detail = "loading", STATE_TEXTS["loading"][0], ""
        self._set_name()

    def show_status(self, status: SpeculationStatus) -> None:
        """Shows this status."""
        self._state = status.state
        self._text, self._detail = status_text(status)
        self._set_name(f"\n{status.detail}" if status.detail and status.detail not in self._detail else "")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        wide = self._bold_metrics().horizontalAdvance(self._text) + self._metrics().horizontalAdvance(self._detail)
        return QSize(wide + 54 + (10 if self._detail else 0), self._metrics().height() + 8)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter, look = QStylePainter(self), theme.current()
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        painter.drawComplexControl(self.style().ComplexControl.CC_ToolButton, option)
        colour, height = look.colour(STATE_TONES.get(self._state, "faint")), self.height()
        ratio = self.devicePixelRatioF()
        painter.drawPixmap(8, (height - 14) // 2, pixmap(self._state, colour, 14, ratio))
        right = self.width() - 22
        painter.drawPixmap(right + 2, (height - 12) // 2, pixmap("down", look.faint, 12, ratio))
        x = 27
        fits = self._bold_metrics().horizontalAdvance(self._text) <= right - x
        text = self._text if fits else STATE_TEXTS[self._state][1]
        x += self._draw(painter, text, self._bold_font(), colour, x, right) + 10
        if right - x >= MIN_DETAIL:
            self._draw(painter, self._detail, look.font(12), look.faint, x, right)
        painter.end()

    def _draw(self, painter: QStylePainter, text: str, text_font: QFont, colour: str, left: int, right: int) -> int:
        """Draws a text, cut at `right`, and returns its width."""
        metrics = QFontMetrics(text_font)
        width = max(0, right - left)
        shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, width)
        painter.setPen(colour)
        painter.setFont(text_font)
        painter.drawText(left, 0, width, self.height(), Qt.AlignmentFlag.AlignVCenter, shown)
        return metrics.horizontalAdvance(shown)

    def _set_name(self, reason: str = "") -> None:
        text = f"{self._text}: {self._detail}{reason}" if self._detail else f"{self._text}{reason}"
        self.setAccessibleName(f"Chat settings. {text}")
        self.setToolTip(text)

    def _bold_font(self) -> QFont:
        return theme.current().font(12, QFont.Weight.DemiBold)

    def _bold_metrics(self) -> QFontMetrics:
        return QFontMetrics(self._bold_font())

    def _metrics(self) -> QFontMetrics:
        return QFontMetrics(theme.current().font(12))


class Header(QWidget):
    """The buttons follow actions that they are given. settings_asked(): the chip was pressed."""

    settings_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title, self.chip = ElidedLabel(role="heading"), StatusChip()
        self.sidebar, self.new = IconButton("sidebar", "Sidebar"), IconButton("compose", "New Chat")
        self.tints, self.raw = IconButton("tints", "Token Colours"), IconButton("raw", "Raw Text")
        self.inspector, self.tune = IconButton("inspector", "Inspector"), IconButton("tune", "Chat Settings")
        self.sidebar.set_marked(False)
        self.title.setContentsMargins(8, 0, 0, 0)
        self.title.setAccessibleName("Conversation")
        self._lay_out()
        self.chip.clicked.connect(self.settings_asked)

    def show_title(self, title: str) -> None:
        """Shows the title of the conversation."""
        self.title.setText(title)
        self.title.setAccessibleName(f"Conversation: {title}")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.tune.setVisible(self.width() >= SETTINGS_BUTTON_FROM)

    def _lay_out(self) -> None:
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addWidget(self.title)
        chip = QHBoxLayout()
        chip.addWidget(self.chip, 0)
        chip.addStretch(1)
        texts.addLayout(chip)
        row = QHBoxLayout()
        row.setContentsMargins(GAP, 6, GAP, 6)
        row.setSpacing(2)
        row.addWidget(self.sidebar)
        row.addWidget(self.new)
        row.addLayout(texts, 1)
        for button in (self.tints, self.raw, self.tune, self.inspector):
            row.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(Hairline())
        order = (self.sidebar, self.new, self.chip, self.tints, self.raw, self.tune, self.inspector)
        for first, second in pairwise(order):
            self.setTabOrder(first, second)
