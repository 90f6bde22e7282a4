"""What stands where a conversation has not begun: the first time what Redline is, and always something worth trying."""

from __future__ import annotations

import sys
from typing import NamedTuple

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app.window.fonts import font
from app.window.look import GAP, TEXT_WIDTH, Look
from app.window.shell.flow import FlowLayout
from app.window.shell.styles import faint_style, flat_style
from app.window.shell.widgets import wrapped

HERE = "this Mac" if sys.platform == "darwin" else "this computer"
WHAT = (
    f"Redline chats with language models on {HERE}: private, offline, no account.",
    "A small model drafts, the large one checks every word: exactly its text, often sooner.",
)
NARROW = 560  # px: below, the cards stand one above the other


class Prompt(NamedTuple):
    """Something worth trying: why, and what is asked."""

    title: str
    text: str


PROMPTS = (
    Prompt("A draft mostly accepted", "Count from one to thirty in words, one number a line."),
    Prompt("Watch code being drafted", "Write a Python function that counts the words in a text, with an example."),
    Prompt("Ask for an explanation", "Explain in plain words why the sky is blue."),
)


class Card(QPushButton):
    """A prompt that is sent when it is pressed."""

    def __init__(self, prompt: Prompt, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.prompt = prompt
        self.setObjectName("card")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(f"Send: {prompt.text}")
        self.setAccessibleDescription(prompt.title)
        self._why, self._what = wrapped(prompt.title), wrapped(prompt.text)
        column = QVBoxLayout(self)
        column.setContentsMargins(14, 12, 14, 12)
        column.setSpacing(4)
        for label in (self._why, self._what):
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            column.addWidget(label)
        column.addStretch(1)

    def sizeHint(self) -> QSize:
        return QSize(200, self.heightForWidth(max(self.width(), 180)))

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.sizeHint().height())

    def heightForWidth(self, width: int) -> int:
        layout = self.layout()
        return layout.heightForWidth(width) if layout else 0

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.updateGeometry()

    def set_look(self, look: Look) -> None:
        self._why.setFont(font(look, 13, self._why.font().Weight.DemiBold))
        self._why.setStyleSheet(f"color: {look.text}; background: transparent;")
        self._what.setStyleSheet(faint_style(look, 13))
        self.setStyleSheet(
            f"#card {{ background: {look.raised}; border: 1px solid {look.hairline}; border-radius: 12px; }}"
            f"#card:hover {{ background: {look.hover}; }} #card:focus {{ border: 2px solid {look.accent}; }}"
        )


class Welcome(QScrollArea):
    """first: whether to say what Redline is."""

    chosen = Signal(str)  # the prompt to send
    models_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.title, self.what = QLabel("Redline"), [wrapped(line) for line in WHAT]
        self.model, self.other = QLabel(), QPushButton("Use another model…")
        self.cards = [Card(prompt) for prompt in PROMPTS]
        self._grid, self._across = QGridLayout(), 0
        self._set_up()
        self.other.clicked.connect(self.models_asked)
        for card in self.cards:
            card.clicked.connect(lambda _=False, text=card.prompt.text: self.chosen.emit(text))

    def set_first(self, first: bool) -> None:
        """Whether this is the first run."""
        self.title.setText("Redline" if first else "New chat")
        for widget in (*self.what, self.model, self.other):
            widget.setVisible(first)

    def show_model(self, target: str, ready: bool) -> None:
        """What answers, and whether it is there yet."""
        name = target or "the built-in model"
        self.model.setText(f"{name} is ready. Nothing to download." if ready else f"Getting {name} ready…")

    def set_look(self, look: Look) -> None:
        self.title.setFont(font(look, 30, self.title.font().Weight.Bold))
        self.title.setStyleSheet(f"color: {look.text};")
        for line in self.what:
            line.setFont(font(look, 15))
            line.setStyleSheet(f"color: {look.text};")
        self.model.setStyleSheet(faint_style(look, 13))
        self.other.setStyleSheet(
            flat_style(look, "QPushButton") + f"QPushButton {{ color: {look.accent}; font-size: {look.px(13)}px; }}"
        )
        for card in self.cards:
            card.set_look(look)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._lay_cards(1 if self.width() < NARROW else len(self.cards))

    def _set_up(self) -> None:
        inside = QWidget()
        inside.setMaximumWidth(TEXT_WIDTH + 4 * GAP)
        column = QVBoxLayout(inside)
        column.setContentsMargins(2 * GAP, 3 * GAP, 2 * GAP, 2 * GAP)
        column.setSpacing(GAP)
        column.addStretch(2)
        column.addWidget(self.title)
        for line in self.what:
            column.addWidget(line)
        column.addSpacing(GAP)
        models = QWidget()
        flow = FlowLayout(models, 12)
        flow.setContentsMargins(0, 0, 0, 0)
        flow.addWidget(self.model)
        flow.addWidget(self.other)
        column.addWidget(models)
        column.addSpacing(2 * GAP)
        self._grid.setSpacing(12)
        column.addLayout(self._grid)
        column.addStretch(3)
        outside = QWidget()
        middle = QHBoxLayout(outside)
        middle.setContentsMargins(0, 0, 0, 0)
        middle.addStretch(1)
        middle.addWidget(inside, 1000)
        middle.addStretch(1)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        models.setSizePolicy(policy)
        self.setWidget(outside)
        self.viewport().setAutoFillBackground(False)
        outside.setAutoFillBackground(False)
        self._lay_cards(len(self.cards))

    def _lay_cards(self, across: int) -> None:
        if across == self._across:
            return
        self._across = across
        for place, card in enumerate(self.cards):
            self._grid.addWidget(card, place // across, place % across)
