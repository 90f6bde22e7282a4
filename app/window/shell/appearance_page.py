"""Settings, appearance: scheme, text size, tints, motion, what is read out, and when idle models rest."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.window.look import Look
from app.window.shell.fields import Check, Field, choice, choose
from app.window.shell.preferences import LARGEST, SMALLEST, STEP, Follow, Motion, Preferences

SCHEMES = {"system": "As the system", "light": "Light", "dark": "Dark"}
UNLOADING = {
    "5": "After 5 minutes",
    "15": "After 15 minutes",
    "30": "After 30 minutes",
    "60": "After an hour",
    "0": "Never",
}
MOTIONS = {"system": "As the system", "full": "Full", "reduced": "Reduced"}


class AppearancePage(QWidget):
    """changed(Preferences): the user made it so; it holds at once."""

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        sizes = {str(step): f"{round(100 * STEP**step)} %" for step in range(SMALLEST, LARGEST + 1)}
        self.scheme, self.text_size, self.motion = choice(SCHEMES), choice(sizes), choice(MOTIONS)
        self.unload = choice(UNLOADING)
        self.tints, self.ghosts, self.announce = Check("Show"), Check("Show"), Check("Announce")
        self._preferences = Preferences()
        self.fields = (
            Field("Colours", self.scheme),
            Field("Text size", self.text_size),
            Field("Tints of tokens", self.tints, "Accepted, corrected and bonus tokens are told apart in every reply."),
            Field("Refused tokens", self.ghosts, "What the drafter proposed and the target did not take, struck out."),
            Field("Motion", self.motion, "Reduced: text appears as it comes, nothing slides or fades."),
            Field("Unload idle models", self.unload, "Gives their memory back; writing loads them again."),
            Field("Replies to screen readers", self.announce, "Sentences are read out as they come, not faster."),
        )
        column = QVBoxLayout(self)
        column.setSpacing(14)
        for field in self.fields:
            column.addWidget(field)
        column.addStretch(1)
        for box in (self.scheme, self.text_size, self.motion, self.unload):
            box.activated.connect(lambda _: self._change())
        for check in (self.tints, self.ghosts, self.announce):
            check.clicked.connect(lambda _: self._change())

    def show_preferences(self, preferences: Preferences) -> None:
        """Show these, without telling."""
        self._preferences = preferences
        choose(self.scheme, preferences.scheme)
        choose(self.text_size, str(preferences.zoom))
        choose(self.motion, preferences.motion)
        choose(self.unload, str(preferences.unload_minutes))
        self.tints.setChecked(preferences.tints)
        self.ghosts.setChecked(preferences.ghosts)
        self.announce.setChecked(preferences.announce)

    def set_look(self, look: Look) -> None:
        for field in self.fields:
            field.set_look(look)

    def _change(self) -> None:
        self._preferences = replace(
            self._preferences,
            scheme=cast(Follow, self.scheme.currentData()),
            zoom=int(self.text_size.currentData()),
            motion=cast(Motion, self.motion.currentData()),
            tints=self.tints.isChecked(),
            ghosts=self.ghosts.isChecked(),
            announce=self.announce.isChecked(),
            unload_minutes=int(self.unload.currentData()),
        )
        self.changed.emit(self._preferences)
