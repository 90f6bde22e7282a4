"""All settings of a chat in one form: what answers, with which system prompt, and how replies are drawn."""

from __future__ import annotations

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QLabel, QVBoxLayout, QWidget

from app.records import ChatSettings
from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.shell.fields import Field, Lines
from app.window.shell.law_form import TYPING_MS, LawForm
from app.window.shell.pair_form import PairForm


class ChatForm(QWidget):
    """changed(ChatSettings): what the user made of it, once it is valid; the values in error stay as they were."""

    changed = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.pair, self.law = PairForm(), LawForm()
        self.system = Lines(4, "None")
        self._system = Field("System prompt", self.system, "Said to the model before everything else.", wide=True)
        self._headings: list[QLabel] = []
        self._shown = ChatSettings()
        self._context = 0
        self._typing = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(2 * GAP, 4, 2 * GAP, 2 * GAP)
        self._column.setSpacing(12)
        self._section("Models", self.pair)
        self._section("Instructions", self._system)
        self._section("Speculation", *self.law.speculation)
        self._section("Sampling", *self.law.sampling)
        self._section("Replies", *self.law.ends)
        self._column.addStretch(1)
        self.pair.changed.connect(self._change)
        self.law.changed.connect(self._change)
        self.system.textChanged.connect(self._typing.start)
        self._typing.timeout.connect(self._change)

    def settings(self) -> ChatSettings:
        """The values shown; those in error as they were before."""
        shown = self._shown
        return ChatSettings(
            pair=self.pair.pair() if self.pair.valid else shown.pair,
            law=self.law.law() if self.law.valid else shown.law,
            system=self.system.toPlainText().strip(),
        )

    def show_settings(self, settings: ChatSettings) -> None:
        """Show these instead, without telling. What the user is typing is not taken away by its own echo."""
        if settings == self._shown and settings == self.settings():
            return
        self._shown = settings
        self.pair.show_pair(settings.pair)
        self.law.show_law(settings.law)
        self.system.blockSignals(True)
        self.system.setPlainText(settings.system)
        self.system.blockSignals(False)
        self._fit()

    def set_context(self, context: int) -> None:
        """What the loaded pair has room for, tokens; 0 while that is unknown."""
        self._context = context
        self._fit()

    @property
    def valid(self) -> bool:
        """Whether every value shown can be had."""
        return self.pair.valid and self.law.valid

    def set_look(self, look: Look) -> None:
        for part in (self.pair, self.law, self._system):
            part.set_look(look)
        for heading in self._headings:
            heading.setFont(font(look, 11.5, heading.font().Weight.Bold))
            heading.setStyleSheet(f"color: {look.faint};")

    def _section(self, name: str, *parts: QWidget) -> None:
        heading = QLabel(name)
        self._headings.append(heading)
        if len(self._headings) > 1:
            self._column.addSpacing(GAP)
        for widget in (heading, *parts):
            self._column.addWidget(widget)

    def _fit(self) -> None:
        self.law.fit(self.pair.tree.isChecked(), self._context)

    def _change(self) -> None:
        self._typing.stop()
        self._fit()
        settings = self.settings()
        if settings != self._shown:
            self._shown = settings
            self.changed.emit(settings)
