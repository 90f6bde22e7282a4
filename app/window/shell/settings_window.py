"""The Settings window: pages behind buttons at the top, as macOS has them. What is changed holds at once."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import (
    QButtonGroup,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QStackedWidget,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app.records import ChatSettings
from app.window.fonts import font
from app.window.icons import icon
from app.window.look import GAP, Look
from app.window.shell.appearance_page import AppearancePage
from app.window.shell.chat_form import ChatForm
from app.window.shell.pages import AboutPage, DataPage, ShortcutsPage
from app.window.shell.preferences import Preferences
from app.window.shell.styles import controls_style, faint_style, flat_style, scroll_style
from app.window.shell.widgets import Hairline, wrapped

PAGES = {
    "appearance": "Appearance",
    "chat": "New chats",
    "data": "Data",
    "keyboard": "Shortcuts",
    "info": "About",
}
DEFAULTS = "What a new chat begins with: what was used last, or what you choose here."


class SettingsWindow(QWidget):
    """preferred(Preferences), defaulted(ChatSettings): the user made it so."""

    preferred = Signal(object)
    defaulted = Signal(object)

    def __init__(self, place: Path | None, parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Dialog)
        self.setObjectName("settings")
        self.setWindowTitle("Settings")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.appearance, self.defaults = AppearancePage(), ChatForm()
        self.data, self.shortcuts, self.about = DataPage(place), ShortcutsPage(), AboutPage()
        self.reset, self._note = QPushButton("Reset to defaults"), wrapped(DEFAULTS)
        self._stack, self._line, self._buttons = QStackedWidget(), Hairline(), QButtonGroup(self)
        self._set_up()
        self.appearance.changed.connect(self.preferred)
        self.defaults.changed.connect(self.defaulted)
        self.reset.clicked.connect(self._reset)
        self._buttons.idClicked.connect(self._stack.setCurrentIndex)
        self.resize(600, 640)

    def show_page(self, name: str) -> None:
        """Show the window, at one of PAGES."""
        button = self._buttons.button(list(PAGES).index(name))
        button.setChecked(True)
        self._stack.setCurrentIndex(list(PAGES).index(name))
        self.show()
        self.raise_()
        self.activateWindow()
        self.setFocus()

    @property
    def page(self) -> str:
        """The one that is shown."""
        return list(PAGES)[self._stack.currentIndex()]

    def show_values(self, preferences: Preferences, defaults: ChatSettings) -> None:
        """What holds now."""
        self.appearance.show_preferences(preferences)
        self.defaults.show_settings(defaults)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def set_look(self, look: Look) -> None:
        for part in (self.appearance, self.defaults, self.data, self.shortcuts, self.about, self._line):
            part.set_look(look)
        self._note.setStyleSheet(faint_style(look))
        for name, button in zip(PAGES, self._buttons.buttons(), strict=True):
            button.setIcon(icon(name, look.faint, look.accent))
            button.setFont(font(look, 12))
        self.setStyleSheet(
            f"#settings, #settings QScrollArea, #settings QScrollArea > QWidget > QWidget, #settings QStackedWidget"
            f" {{ background: {look.background}; }} QLabel {{ background: transparent; }}"
            + controls_style(look)
            + scroll_style(look)
            + flat_style(look, "QToolButton#page")
            + "QToolButton#page { padding: 4px 6px; }"
        )

    def _set_up(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(GAP, GAP, GAP, GAP)
        bar.addStretch(1)
        for number, title in enumerate(PAGES.values()):
            button = QToolButton()
            button.setText(title)
            button.setCheckable(True)
            button.setObjectName("page")
            button.setAccessibleName(title)
            button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
            button.setIconSize(QSize(22, 22))
            button.setMinimumWidth(84)
            button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            button.setChecked(number == 0)
            self._buttons.addButton(button, number)
            bar.addWidget(button)
        bar.addStretch(1)
        for page in (self.appearance, self._new_chats(), self.data, self.shortcuts, self.about):
            page.setContentsMargins(0, 0, 0, 0)
            self._stack.addWidget(page)
        for page in (self.appearance, self.data, self.about):
            layout = page.layout()
            if layout is not None:
                layout.setContentsMargins(40, 24, 40, 24)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(bar)
        column.addWidget(self._line)
        column.addWidget(self._stack, 1)

    def _new_chats(self) -> QWidget:
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self.defaults)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(24, 16, 24, 12)
        column.addWidget(self._note)
        column.addWidget(scroll, 1)
        column.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignLeft)
        return page

    def _reset(self) -> None:
        self.defaults.show_settings(ChatSettings())
        self.defaulted.emit(ChatSettings())
