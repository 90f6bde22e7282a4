"""The Settings window: pages behind buttons at the top, as macOS has them. Changes apply at once."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QEvent, QSize, Qt, Signal
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

from app.store.records import ChatSettings
from app.window.common import theme
from app.window.common.appearance import GAP
from app.window.common.icons import icon
from app.window.common.preferences import Preferences
from app.window.common.widgets import Hairline, style, wrapped
from app.window.settings.appearance_page import AppearancePage
from app.window.settings.chat_form import ChatForm
from app.window.settings.info_pages import AboutPage, DataPage, Shortcuts, ShortcutsPage

PAGES = {
    "appearance": "Appearance",
    "chat": "New Chats",
    "data": "Data",
    "keyboard": "Shortcuts",
    "info": "About",
}
DEFAULTS_HELP = "New chats start with these settings, or with the ones you used last."


class SettingsWindow(QWidget):
    """preferred(Preferences), defaulted(ChatSettings): the user changed something. file: in which the conversations are
    kept. shortcuts: by menu, to be listed."""

    preferred = Signal(object)
    defaulted = Signal(object)

    def __init__(self, file: Path | None, shortcuts: Shortcuts = (), parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Dialog)
        self.setWindowTitle("Settings")
        self.appearance, self.defaults = AppearancePage(), ChatForm()
        self.data, self.shortcuts, self.about = DataPage(file), ShortcutsPage(shortcuts), AboutPage()
        self.reset = QPushButton("Reset to Defaults")
        self._stack, self._buttons = QStackedWidget(), QButtonGroup(self)
        self._lay_out()
        self.appearance.changed.connect(self.preferred)
        self.defaults.changed.connect(self.defaulted)
        self.reset.clicked.connect(self._reset)
        self._buttons.idClicked.connect(self._stack.setCurrentIndex)
        self.resize(600, 640)

    def show_page(self, name: str) -> None:
        """Shows the window, at one of PAGES."""
        place = list(PAGES).index(name)
        self._buttons.button(place).setChecked(True)
        self._stack.setCurrentIndex(place)
        self.show()
        self.raise_()
        self.activateWindow()
        self.setFocus()

    @property
    def page(self) -> str:
        """The page that is shown."""
        return list(PAGES)[self._stack.currentIndex()]

    def show_values(self, preferences: Preferences, defaults: ChatSettings) -> None:
        """Shows the values that hold now."""
        self.appearance.show_preferences(preferences)
        self.defaults.show_settings(defaults)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.close()
        else:
            super().keyPressEvent(event)

    def _lay_out(self) -> None:
        style(self, ground="page")
        style(self._stack, ground="page")
        bar = QHBoxLayout()
        bar.setContentsMargins(GAP, GAP, GAP, GAP)
        bar.addStretch(1)
        for place, (name, title) in enumerate(PAGES.items()):
            button = _PageButton(name, title)
            button.setChecked(place == 0)
            self._buttons.addButton(button, place)
            bar.addWidget(button)
        bar.addStretch(1)
        for page in (self.appearance, self._new_chats(), self.data, self.shortcuts, self.about):
            self._stack.addWidget(page)
        for page in (self.appearance, self.data, self.about):
            layout = page.layout()
            if layout is not None:
                layout.setContentsMargins(40, 24, 40, 24)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(bar)
        column.addWidget(Hairline())
        column.addWidget(self._stack, 1)

    def _new_chats(self) -> QWidget:
        scroll = QScrollArea()
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setWidgetResizable(True)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.setWidget(self.defaults)
        style(scroll, ground="page")
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(24, 16, 24, 12)
        column.addWidget(wrapped(DEFAULTS_HELP, role="detail"))
        column.addWidget(scroll, 1)
        column.addWidget(self.reset, 0, Qt.AlignmentFlag.AlignLeft)
        return page

    def _reset(self) -> None:
        self.defaults.show_settings(ChatSettings())
        self.defaulted.emit(ChatSettings())


class _PageButton(QToolButton):
    """The button of a page: an icon over its title."""

    def __init__(self, shape: str, title: str) -> None:
        super().__init__()
        self._shape = shape
        self.setText(title)
        self.setAccessibleName(title)
        self.setCheckable(True)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        self.setIconSize(QSize(22, 22))
        self.setMinimumWidth(84)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        style(self, role="page")
        self._colour()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self._colour()

    def _colour(self) -> None:
        look = theme.current()
        self.setIcon(icon(self._shape, look.faint, look.accent))
