"""Above the conversation: its title, whether speculation is on and why not, and what of the window is shown."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFont, QFontMetrics, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QStyleOptionToolButton, QStylePainter, QToolButton, QVBoxLayout, QWidget

from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import GAP, LIGHT, Look
from app.window.shell.styles import flat_style
from app.window.shell.widgets import ElidedLabel, Hairline, IconButton

if TYPE_CHECKING:
    from app.window.controller import Speculating

LEAST_REST = 40  # px: with less room the names are left out
TUNE_FROM = 470  # px: in a narrower window the chip alone opens the chat's settings

WORDS = {
    "loading": "Loading",
    "on": "Speculation on",
    "off": "Speculation off",
    "unsupported": "Speculation unsupported",
    "fell back": "Fell back to plain decoding",
    "host down": "Engine stopped",
    "unloaded": "Unloaded",
}

SHORT = {
    "loading": "Loading",
    "on": "On",
    "off": "Off",
    "unsupported": "Unsupported",
    "fell back": "Fell back",
    "host down": "Engine stopped",
    "unloaded": "Unloaded",
}
TOLD = ("loading", "unsupported", "fell back", "host down", "unloaded")  # states whose reason is shown


def words_of(state: Speculating) -> tuple[str, str]:
    """What the chip says: the state in words, and what belongs to it: the pair, and the reason where there is one."""
    pair = " · ".join(name for name in (state.target, state.drafter if state.state == "on" else "") if name)
    parts = (state.said, pair) if state.state in TOLD else (pair,)
    return WORDS[state.state], " · ".join(part for part in parts if part)


class PairChip(QToolButton):
    """The state of speculation, always in words, with an icon and a colour; a press opens the chat's settings."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self._look, self._state, self._word, self._rest = LIGHT, "loading", WORDS["loading"], ""
        self._name()

    def show_state(self, state: Speculating) -> None:
        """Show this state instead."""
        self._state = state.state
        self._word, self._rest = words_of(state)
        said = f"\n{state.said}" if state.said and state.said not in self._rest else ""
        self._name(said)
        self.updateGeometry()
        self.update()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.setFont(font(look, 12))
        self.setStyleSheet(flat_style(look))
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        wide = self._bold().horizontalAdvance(self._word) + self.fontMetrics().horizontalAdvance(self._rest)
        return QSize(wide + 54 + (10 if self._rest else 0), self.fontMetrics().height() + 8)

    def minimumSizeHint(self) -> QSize:
        return QSize(64, self.sizeHint().height())

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        painter.drawComplexControl(self.style().ComplexControl.CC_ToolButton, option)
        colour, height = self._colour(), self.height()
        ratio = self.devicePixelRatioF()
        painter.drawPixmap(8, (height - 14) // 2, pixmap(self._state, colour, 14, ratio))
        right = self.width() - 22
        painter.drawPixmap(right + 2, (height - 12) // 2, pixmap("down", self._look.faint, 12, ratio))
        x = 27
        word = self._word if self._bold().horizontalAdvance(self._word) <= right - x else SHORT[self._state]
        for text, ink, of in ((word, colour, self._bold()), (self._rest, self._look.faint, self.fontMetrics())):
            painter.setPen(ink)
            painter.setFont(self._bold_font() if text is word else self.font())
            room = max(0, right - x)
            if text is not word and room < LEAST_REST:
                break
            shown = of.elidedText(text, Qt.TextElideMode.ElideRight, room)
            painter.drawText(x, 0, room, height, Qt.AlignmentFlag.AlignVCenter, shown)
            x += of.horizontalAdvance(shown) + 10
        painter.end()

    def _name(self, said: str = "") -> None:
        text = f"{self._word}: {self._rest}{said}" if self._rest else f"{self._word}{said}"
        self.setAccessibleName(f"Chat settings. {text}")
        self.setToolTip(text)

    def _colour(self) -> str:
        look = self._look
        colours = {"on": look.good, "fell back": look.warning, "unsupported": look.warning, "host down": look.error}
        return colours.get(self._state, look.faint)

    def _bold_font(self) -> QFont:
        return font(self._look, 12, QFont.Weight.DemiBold)

    def _bold(self) -> QFontMetrics:
        return QFontMetrics(self._bold_font())


class Header(QWidget):
    """The buttons do what the actions that they are given do."""

    settings_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title, self.chip = ElidedLabel(), PairChip()
        self.sidebar, self.new = IconButton("sidebar", "Sidebar"), IconButton("compose", "New chat")
        self.tints, self.raw = IconButton("tints", "Tints of tokens"), IconButton("raw", "Raw text")
        self.inspector, self.tune = IconButton("inspector", "Inspector"), IconButton("tune", "Chat settings")
        self._buttons = (self.sidebar, self.new, self.tints, self.raw, self.tune, self.inspector)
        self._line = Hairline()
        self.sidebar.marked = False
        self.title.setContentsMargins(8, 0, 0, 0)
        self.title.setAccessibleName("Conversation")
        self._set_up()
        self.chip.clicked.connect(self.settings_asked)

    def show_title(self, title: str) -> None:
        self.title.setText(title)
        self.title.setAccessibleName(f"Conversation: {title}")

    def set_look(self, look: Look) -> None:
        for part in (*self._buttons, self.chip, self._line):
            part.set_look(look)
        self.title.setFont(font(look, 14, QFont.Weight.DemiBold))
        self.title.setStyleSheet(f"color: {look.text};")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.tune.setVisible(self.width() >= TUNE_FROM)

    def _set_up(self) -> None:
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
        column.addWidget(self._line)
        order = (self.sidebar, self.new, self.chip, self.tints, self.raw, self.tune, self.inspector)
        for first, second in pairwise(order):
            self.setTabOrder(first, second)
