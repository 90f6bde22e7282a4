"""The Settings window: pages behind buttons at the top, as macOS has them. Changes apply at once."""

from pathlib import Path
from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QButtonGroup, QPushButton, QStackedWidget, QToolButton, QWidget

from app.store.records import NEW_CHAT, ChatSettings
from app.task_queue import MOST_PLACES
from app.window.common.appearance import GAP
from app.window.common.form_fields import CheckBox, Choice, Field, choice
from app.window.common.icons import icon
from app.window.common.layouts import STRETCH, column, row
from app.window.common.preferences import LARGEST, SMALLEST, STEP, Preferences
from app.window.common.widgets import Hairline, keep_min_width, scroll_area, style, wrapped
from app.window.settings.chat_panel import ChatForm
from app.window.settings.info_pages import PAGE_MARGINS, AboutPage, DataPage, Shortcuts, shortcuts_page

PAGES = {
    "appearance": "Appearance",
    "chat": "New Chats",
    "data": "Data",
    "keyboard": "Shortcuts",
    "info": "About",
}
SCHEMES = {"system": "System", "light": "Light", "dark": "Dark"}
MOTIONS = {"system": "System", "full": "Full", "reduced": "Reduced"}
UNLOADING = {5: "5 minutes", 15: "15 minutes", 30: "30 minutes", 60: "1 hour", 0: "Never"}
UNLOADING_HELP = "Frees their memory. Your next message loads them again."
PARALLEL = {number: str(number) for number in range(1, MOST_PLACES + 1)}
PARALLEL_HELP = "Chats and other apps share the models. Each reply is slower meanwhile, and its text is the same."
LEARNING_HELP = (
    "Drafts may copy from earlier replies, and long conversations resume faster after a restart. Turning this "
    "off deletes the saved data."
)
TINTS_HELP = "Colours accepted, corrected and bonus tokens in every reply."
REFUSED_HELP = "Shows what the drafter proposed and the target refused."
DEFAULTS_HELP = (
    "New chats start with these settings. Changing the settings of a chat changes these too, except the system prompt."
)


class AppearancePage(QWidget):
    """Colours, text size, tints, motion, screen readers, idle models and replies at once.

    changed(Preferences): by the user.
    """

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        sizes = {step: f"{round(100 * STEP**step)}%" for step in range(SMALLEST, LARGEST + 1)}
        self._preferences = Preferences()
        fields = column(on=self, margins=PAGE_MARGINS, gap=14)
        self.controls: dict[str, Choice | CheckBox] = {}  # by the name of the preference
        for name, title, control, help in (
            ("scheme", "Appearance", choice(SCHEMES), ""),
            ("zoom", "Text size", choice(sizes), ""),
            ("tints", "Token colours", CheckBox("Show"), TINTS_HELP),
            ("show_refused", "Refused tokens", CheckBox("Show"), REFUSED_HELP),
            ("motion", "Motion", choice(MOTIONS), "With reduced motion, nothing blinks, slides or fades."),
            ("unload_minutes", "Unload idle models after", choice(UNLOADING), UNLOADING_HELP),
            ("parallel", "Replies at once", choice(PARALLEL), PARALLEL_HELP),
            ("learn_replies", "Earlier replies", CheckBox("Use for drafting"), LEARNING_HELP),
            ("announce", "Screen readers", CheckBox("Read aloud"), "Reads replies aloud, sentence by sentence."),
        ):
            self.controls[name] = control
            fields.addWidget(Field(title, control, help))
            changed = control.activated if isinstance(control, Choice) else control.clicked
            changed.connect(lambda _: self._change())
        fields.addStretch(1)

    def show_preferences(self, preferences: Preferences) -> None:
        """Shows these preferences, without a signal."""
        self._preferences = preferences
        for name, control in self.controls.items():
            value = getattr(preferences, name)
            if isinstance(control, Choice):
                control.choose(value)
            else:
                control.setChecked(value)

    def _change(self) -> None:
        values: dict[str, Any] = {}
        for name, control in self.controls.items():
            values[name] = control.currentData() if isinstance(control, Choice) else control.isChecked()
        self._preferences = replace(self._preferences, **values)
        self.changed.emit(self._preferences)


class SettingsWindow(QWidget):
    """file: that holds the conversations. shortcuts: by menu. preferred(Preferences): the user changed a preference.
    defaulted(ChatSettings): the user changed the settings of new chats."""

    preferred = Signal(object)
    defaulted = Signal(object)

    def __init__(self, file: Path | None, shortcuts: Shortcuts = (), parent: QWidget | None = None) -> None:
        super().__init__(parent, Qt.WindowType.Dialog)
        self.setWindowTitle("Settings")
        self.appearance, self.defaults = AppearancePage(), ChatForm()
        self.data, self.shortcuts, self.about = DataPage(file), shortcuts_page(shortcuts), AboutPage()
        self.reset = QPushButton("Reset to Defaults")
        self._stack, self._buttons = QStackedWidget(), QButtonGroup(self)
        self._lay_out()
        self.appearance.changed.connect(self.preferred)
        self.defaults.changed.connect(self.defaulted)
        self.reset.clicked.connect(self._reset)
        self._buttons.idClicked.connect(self._stack.setCurrentIndex)
        self.resize(600, 640)

    def show_page(self, name: str) -> None:
        """Shows the window at one of PAGES."""
        place = list(PAGES).index(name)
        self._buttons.button(place).setChecked(True)
        self._stack.setCurrentIndex(place)
        self.show()
        self.raise_()
        self.activateWindow()
        self.setFocus()

    @property
    def page(self) -> str:
        """The name of the page that is shown."""
        return list(PAGES)[self._stack.currentIndex()]

    def show_values(self, preferences: Preferences, defaults: ChatSettings) -> None:
        """Shows the values in use."""
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
        for place, (name, title) in enumerate(PAGES.items()):
            button = _page_button(name, title)
            button.setChecked(place == 0)
            self._buttons.addButton(button, place)
        new_chats, left = QWidget(), Qt.AlignmentFlag.AlignLeft
        parts = (wrapped(DEFAULTS_HELP, role="detail"), (scroll_area(self.defaults), 1), (self.reset, 0, left))
        column(*parts, on=new_chats, margins=(24, 16, 24, 12), gap=6)
        for page in (scroll_area(self.appearance), new_chats, self.data, self.shortcuts, self.about):
            self._stack.addWidget(page)
        bar = row(STRETCH, *self._buttons.buttons(), STRETCH, margins=(GAP, GAP, GAP, GAP))
        column(bar, Hairline(), (self._stack, 1), on=self)

    def _reset(self) -> None:
        self.defaults.show_settings(NEW_CHAT)
        self.defaulted.emit(NEW_CHAT)


def _page_button(shape: str, title: str) -> QToolButton:
    """Returns the button of a page: an icon over its title."""
    button = QToolButton()
    button.setText(title)
    button.setIcon(icon(shape, checked="accent"))
    button.setAccessibleName(title)
    button.setCheckable(True)
    button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
    button.setIconSize(QSize(22, 22))
    button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
    style(button, role="page")
    keep_min_width(button, 84)
    return button
