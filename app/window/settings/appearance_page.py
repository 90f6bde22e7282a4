"""The Appearance page of the settings: colours, text size, tints, motion, screen readers, and unloading idle models."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.common.form_fields import CheckBox, Field, choice
from app.window.common.preferences import LARGEST, SMALLEST, STEP, Follow, Motion, Preferences

SCHEMES = {"system": "System", "light": "Light", "dark": "Dark"}
MOTIONS = {"system": "System", "full": "Full", "reduced": "Reduced"}
UNLOADING = {
    "5": "After 5 minutes",
    "15": "After 15 minutes",
    "30": "After 30 minutes",
    "60": "After an hour",
    "0": "Never",
}


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
        for field in (
            Field("Appearance", self.scheme),
            Field("Text size", self.text_size),
            Field("Token tints", self.tints, "Colours accepted, corrected and bonus tokens in every reply."),
            Field("Refused tokens", self.refused, "Shows what the drafter proposed and the target refused."),
            Field("Motion", self.motion, "Reduced motion shows text as it comes; nothing slides or fades."),
            Field("Unload idle models", self.unload, "Frees their memory. Your next message loads them again."),
            Field("Screen readers", self.announce, "Reads replies aloud, sentence by sentence."),
        ):
            column.addWidget(field)
        column.addStretch(1)
        for box in (self.scheme, self.text_size, self.motion, self.unload):
            box.activated.connect(lambda _: self._change())
        for check in (self.tints, self.refused, self.announce):
            check.clicked.connect(lambda _: self._change())

    def show_preferences(self, preferences: Preferences) -> None:
        """Shows these preferences, without a signal."""
        self._preferences = preferences
        self.scheme.choose(preferences.scheme)
        self.text_size.choose(str(preferences.zoom))
        self.motion.choose(preferences.motion)
        self.unload.choose(str(preferences.unload_minutes))
        self.tints.setChecked(preferences.tints)
        self.refused.setChecked(preferences.show_refused)
        self.announce.setChecked(preferences.announce)

    def _change(self) -> None:
        self._preferences = replace(
            self._preferences,
            scheme=cast(Follow, self.scheme.currentData()),
            zoom=int(self.text_size.currentData()),
            motion=cast(Motion, self.motion.currentData()),
            tints=self.tints.isChecked(),
            show_refused=self.refused.isChecked(),
            announce=self.announce.isChecked(),
            unload_minutes=int(self.unload.currentData()),
        )
        self.changed.emit(self._preferences)
