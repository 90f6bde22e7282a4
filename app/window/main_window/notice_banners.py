"""Banners above the conversation: what happened, and what can be done about it. Errors stay until dismissed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from app.window.common.appearance import GAP, TEXT_WIDTH
from app.window.common.widgets import Glyph, IconButton, announce, style, wrapped
from app.window.composer.composer import BOX_OVERHANG

Level = Literal["info", "warning", "error"]
Actions = Sequence[tuple[str, Callable[[], object]]]

INFO_MS, OFFER_MS = 6_000, 12_000  # how long an info stays without and with an action
MAX_BANNERS = 3  # at once; the others wait
TONES = {"info": "accent", "warning": "warning", "error": "error"}


class Banner(QFrame):
    """One notice. Infos disappear after a while, but not while the pointer or the focus is on them.

    dismissed(Banner): by the user or by its timer.
    """

    dismissed = Signal(object)

    def __init__(self, level: Level, text: str, actions: Actions) -> None:
        super().__init__()
        self.level: Level = level
        self.text = text
        style(self, kind="banner", level=level)
        self.setAccessibleName(f"{level.capitalize()}: {text}")
        self.icon, self.label = Glyph(level, TONES[level], 18), wrapped(text, role="body")
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = [self._button(label, action) for label, action in actions]
        self.close_button = IconButton("close", "Dismiss", size=26)
        self.close_button.clicked.connect(self.dismiss)
        self._timer = QTimer(self, singleShot=True, interval=OFFER_MS if actions else INFO_MS)
        self._timer.timeout.connect(self._dismiss_unless_used)
        self._lay_out()
        if level == "info":
            self._timer.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.dismiss()
        else:
            super().keyPressEvent(event)

    def dismiss(self) -> None:
        """Removes the banner."""
        self.dismissed.emit(self)

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(GAP)
        row.addWidget(self.icon, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.label, 1)
        for button in self.buttons:
            row.addWidget(button)
        row.addWidget(self.close_button)

    def _button(self, label: str, action: Callable[[], object]) -> QPushButton:
        button = QPushButton(label)
        style(button, role="link")
        button.setAccessibleName(label)
        button.clicked.connect(self.dismiss)
        button.clicked.connect(lambda: action())
        return button

    def _dismiss_unless_used(self) -> None:
        focused = any(w.hasFocus() for w in (*self.buttons, self.close_button))
        if focused or self.underMouse():
            self._timer.start()
        else:
            self.dismiss()


class NoticeBanners(QWidget):
    """The banners, newest first, as wide as the text below them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.banners: list[Banner] = []
        self._column = QVBoxLayout()
        self._column.setSpacing(6)
        self._column.setContentsMargins(0, 6, 0, 6)
        middle = QWidget()
        middle.setLayout(self._column)
        middle.setMaximumWidth(TEXT_WIDTH + BOX_OVERHANG)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GAP, 0, 2 * GAP, 0)
        row.addStretch(1)
        row.addWidget(middle, 1000)
        row.addStretch(1)
        self.hide()

    def show_notice(self, level: Level, text: str, actions: Actions = ()) -> None:
        """Shows a notice; the same text again replaces itself."""
        for banner in [b for b in self.banners if b.text == text]:
            self._remove(banner)
        banner = Banner(level, text, actions)
        banner.dismissed.connect(self._remove)
        self.banners.insert(0, banner)
        self._arrange()
        announce(banner, banner.accessibleName(), assertive=level == "error")

    def _remove(self, banner: Banner) -> None:
        if banner in self.banners:
            self.banners.remove(banner)
            self._column.removeWidget(banner)
            banner.hide()
            banner.deleteLater()
            self._arrange()

    def _arrange(self) -> None:
        """Shows the newest banners, errors above others."""
        self.banners.sort(key=lambda b: b.level != "error")
        for place, banner in enumerate(self.banners):
            self._column.insertWidget(place, banner)
            banner.setVisible(place < MAX_BANNERS)
        self.setVisible(bool(self.banners))
