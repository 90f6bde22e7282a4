"""Banners above the conversation: what happened, what can be done about it. An error stays until it is dismissed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.window.icons import pixmap
from app.window.look import GAP, LIGHT, TEXT_WIDTH, Look, mix
from app.window.shell.composer import BESIDE
from app.window.shell.styles import flat_style
from app.window.shell.widgets import IconButton, wrapped

Level = Literal["info", "warning", "error"]
Actions = Sequence[tuple[str, Callable[[], object]]]

INFO_MS, OFFER_MS = 6_000, 12_000  # how long an info stays without and with something to do about it
MOST = 3  # banners at once; the others wait below


class Banner(QFrame):
    """One notice. Infos go by themselves, but not while the pointer or the keyboard is on them."""

    gone = Signal(object)  # itself

    def __init__(self, level: Level, text: str, actions: Actions, look: Look) -> None:
        super().__init__()
        self.level: Level = level
        self.text = text
        self.setObjectName("banner")
        self.setAccessibleName(f"{level.capitalize()}: {text}")
        self.picture, self.label = QLabel(), wrapped(text)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.buttons = [self._button(label, do) for label, do in actions]
        self.close_button = IconButton("close", "Dismiss")
        self.close_button.setFixedSize(26, 26)
        self.close_button.setIconSize(QSize(14, 14))
        self.close_button.clicked.connect(self.go)
        self._timer = QTimer(self, singleShot=True, interval=OFFER_MS if actions else INFO_MS)
        self._timer.timeout.connect(self._leave)
        self._set_up()
        self.set_look(look)
        if level == "info":
            self._timer.start()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.go()
        else:
            super().keyPressEvent(event)

    def go(self) -> None:
        """It has been read."""
        self.gone.emit(self)

    def set_look(self, look: Look) -> None:
        colour = {"info": look.accent, "warning": look.warning, "error": look.error}[self.level]
        self.picture.setPixmap(pixmap(self.level, colour, 18, self.devicePixelRatioF()))
        self.close_button.set_look(look)
        ground, line = mix(look.background, colour, 0.09), mix(look.background, colour, 0.35)
        self.setStyleSheet(
            f"#banner {{ background: {ground}; border: 1px solid {line}; border-radius: 10px; }}"
            f"QLabel {{ color: {look.text}; font-size: {look.px(13)}px; background: transparent; }}"
            + flat_style(look, "QPushButton")
            + f"QPushButton {{ color: {colour}; font-weight: 600; font-size: {look.px(13)}px; padding: 3px 8px; }}"
        )

    def _set_up(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 6, 6, 6)
        row.setSpacing(GAP)
        row.addWidget(self.picture, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.label, 1)
        for button in self.buttons:
            row.addWidget(button)
        row.addWidget(self.close_button)

    def _button(self, label: str, do: Callable[[], object]) -> QPushButton:
        button = QPushButton(label)
        button.setAccessibleName(label)
        button.clicked.connect(self.go)
        button.clicked.connect(lambda: do())
        return button

    def _leave(self) -> None:
        focused = any(w.hasFocus() for w in (*self.buttons, self.close_button))
        if focused or self.underMouse():
            self._timer.start()
        else:
            self.go()


class Notices(QWidget):
    """The banners, newest first, as wide as the text below them."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.banners: list[Banner] = []
        self._look = LIGHT
        self._column = QVBoxLayout()
        self._column.setSpacing(6)
        self._middle = QWidget()
        self._middle.setLayout(self._column)
        self._middle.setMaximumWidth(TEXT_WIDTH + BESIDE)
        self._column.setContentsMargins(0, 6, 0, 6)
        row = QHBoxLayout(self)
        row.setContentsMargins(2 * GAP, 0, 2 * GAP, 0)
        row.addStretch(1)
        row.addWidget(self._middle, 1000)
        row.addStretch(1)
        self.hide()

    def show_notice(self, level: Level, text: str, actions: Actions = ()) -> None:
        """Show a notice; the same text again replaces itself."""
        for banner in [b for b in self.banners if b.text == text]:
            self._remove(banner)
        banner = Banner(level, text, actions, self._look)
        banner.gone.connect(self._remove)
        self.banners.insert(0, banner)
        self._arrange()
        _announce(banner)

    def set_look(self, look: Look) -> None:
        self._look = look
        for banner in self.banners:
            banner.set_look(look)

    def _remove(self, banner: Banner) -> None:
        if banner in self.banners:
            self.banners.remove(banner)
            self._column.removeWidget(banner)
            banner.hide()
            banner.deleteLater()
            self._arrange()

    def _arrange(self) -> None:
        """Show the newest, errors above others."""
        self.banners.sort(key=lambda b: b.level != "error")
        for place, banner in enumerate(self.banners):
            self._column.insertWidget(place, banner)
            banner.setVisible(place < MOST)
        self.setVisible(bool(self.banners))


def _announce(banner: Banner) -> None:
    """Tell assistive technology, politely unless it is an error."""
    event = QAccessibleAnnouncementEvent(banner, banner.accessibleName())
    if banner.level == "error":
        event.setPoliteness(QAccessible.AnnouncementPoliteness.Assertive)
    QAccessible.updateAccessibility(event)
