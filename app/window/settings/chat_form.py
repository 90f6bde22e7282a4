"""The form for all settings of a chat: which pair answers, with which system prompt, and how replies are sampled."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.store.records import ChatSettings
from app.window.common.appearance import GAP
from app.window.common.form_fields import Field, Lines
from app.window.common.widgets import label
from app.window.settings.pair_form import PairForm
from app.window.settings.sampling_form import TYPING_MS, SamplingForm


class ChatForm(QWidget):
    """changed(ChatSettings): the user changed something. Values that are invalid keep their last valid state."""

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pair, self.sampling = PairForm(), SamplingForm()
        self.system = Lines(4, "None")
        self._shown = ChatSettings()
        self._context = 0
        self._typing = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(2 * GAP, 4, 2 * GAP, 2 * GAP)
        self._column.setSpacing(12)
        self._add_section("Models", self.pair)
        system = Field("System prompt", self.system, "Instructions to the model before the conversation.", wide=True)
        self._add_section("Instructions", system)
        self._add_section("Speculation", *self.sampling.speculation)
        self._add_section("Sampling", *self.sampling.sampling)
        self._add_section("Replies", *self.sampling.ends)
        self._column.addStretch(1)
        self.pair.changed.connect(self._change)
        self.sampling.changed.connect(self._change)
        self.system.textChanged.connect(self._typing.start)
        self._typing.timeout.connect(self._change)

    def settings(self) -> ChatSettings:
        """Returns the values shown; an invalid part as it was before."""
        shown = self._shown
        return ChatSettings(
            pair=self.pair.pair() if self.pair.valid else shown.pair,
            sampling=self.sampling.settings() if self.sampling.valid else shown.sampling,
            system=self.system.toPlainText().strip(),
        )

    def show_settings(self, settings: ChatSettings) -> None:
        """Shows these settings, without a signal. What the user is typing is not replaced by its own echo."""
        if settings == self._shown and settings == self.settings():
            return
        self._shown = settings
        self.pair.show_pair(settings.pair)
        self.sampling.show_settings(settings.sampling)
        self.system.blockSignals(True)
        self.system.setPlainText(settings.system)
        self.system.blockSignals(False)
        self._set_limits()

    def set_context(self, context: int) -> None:
        """The context of the loaded pair, tokens; 0 while it is unknown."""
        self._context = context
        self._set_limits()

    @property
    def valid(self) -> bool:
        """Whether every value is allowed."""
        return self.pair.valid and self.sampling.valid

    def _add_section(self, name: str, *parts: QWidget) -> None:
        if self._column.count():
            self._column.addSpacing(GAP)
        for widget in (label(name, "section"), *parts):
            self._column.addWidget(widget)

    def _set_limits(self) -> None:
        self.sampling.set_limits(self.pair.tree.isChecked(), self._context)

    def _change(self) -> None:
        self._typing.stop()
        self._set_limits()
        settings = self.settings()
        if settings != self._shown:
            self._shown = settings
            self.changed.emit(settings)
