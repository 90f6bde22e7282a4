"""The Appearance page of the settings: colours, text size, tints, motion, screen readers, and unloading idle models."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.common.form_fields import CheckBox, Choice, Field, choice
from app.window.common.preferences import LARGEST, SMALLEST, STEP, Preferences

SCHEMES = {"system": "System", "light": "Light", "dark": "Dark"}
MOTIONS = {"system": "System", "full": "Full", "reduced": "Reduced"}
UNLOADING = {
    "5": "After 5 minutes",
    "15": "After 15 minutes",
    "30": "After 30 minutes",
    "60": "After an hour",
    "0": "Never",
}
UNLOADING_HELP = "Frees their memory. Your next message loads them again."
REFUSED_HELP = "Shows what the drafter proposed and the target refused."


class AppearancePage(QWidget):
    """changed(Preferences): the user changed something, which applies at once."""

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        sizes = {str(step): f"{round(100 * STEP**step)} %" for step in range(SMALLEST, LARGEST + 1)}
        self.scheme, self.text_size, self.motion = choice(SCHEMES), choice(sizes), choice(MOTIONS)
        self.unload = choice(UNLOADING)
        self.tints, self.refused, self.announce = CheckBox("Show"), CheckBox("Show"), CheckBox("Read aloud")
        for box in (self.scheme, self.text_size, self.motion, self.unload):
            box.setMinimumContentsLength(max(map(len, UNLOADING.values())))
        self._preferences = Preferences()
        column = QVBoxLayout(self)
        column.setSpacing(14)
        self._controls: dict[str, Choice | CheckBox] = {}  # by the name of the preference
        for name, title, control, help in (
            ("scheme", "Appearance", self.scheme, ""),
            ("zoom", "Text size", self.text_size, ""),
            ("tints", "Token tints", self.tints, "Colours accepted, corrected and bonus tokens in every reply."),
            ("show_refused", "Refused tokens", self.refused, REFUSED_HELP),
            ("motion", "Motion", self.motion, "Reduced motion shows text as it comes; nothing slides or fades."),
            ("unload_minutes", "Unload idle models", self.unload, UNLOADING_HELP),
            ("announce", "Screen readers", self.announce, "Reads replies aloud, sentence by sentence."),
        ):
            self._controls[name] = control
            column.addWidget(Field(title, control, help))
            changed = control.activated if isinstance(control, Choice) else control.clicked
            changed.connect(lambda _: self._change())
        column.addStretch(1)

    def show_preferences(self, preferences: Preferences) -> None:
        """Shows these preferences, without a signal."""
        self._preferences = preferences
        for name, control in self._controls.items():
            value = getattr(preferences, name)
            if isinstance(control, Choice):
                control.choose(str(value))
            else:
                control.setChecked(value)

    def _change(self) -> None:
        values: dict[str, Any] = {}
        for name, control in self._controls.items():
            value = control.currentData() if isinstance(control, Choice) else control.isChecked()
            values[name] = type(getattr(self._preferences, name))(value)  # a choice keeps numbers as text
        self._preferences = replace(self._preferences, **values)
        self.changed.emit(self._preferences)
