"""The page of a conversation without messages: prompts to try and, at the first start, what Redline is."""

import sys
from typing import NamedTuple

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QFrame, QPushButton, QScrollArea, QSizePolicy, QWidget

from app.window.common.appearance import GAP, TEXT_WIDTH
from app.window.common.layouts import STRETCH, FlowLayout, Part, column, row
from app.window.common.widgets import label, style, wrapped
from app.window.main_window.pair_offer import PairOffer
from app.window.models.known_models import BUILTIN_NAME

HERE = "this Mac" if sys.platform == "darwin" else "this computer"
INTRODUCTION = (
    f"Chat with language models on {HERE}: private, offline, no account.",
    "A small model drafts and the large one checks every token: exactly the same text, often faster.",
)
NARROW = 560  # px; below, the cards are stacked


class Prompt(NamedTuple):
    """A prompt to try. title: why it is worth trying."""

    title: str
    text: str


# Of eleven prompts these had short, sound replies by the built-in pair, greedily and with drafts of 3: 49, 49 and 22 %
# of the drafted tokens are accepted.
PROMPTS = (
    Prompt("See many drafts accepted", "List the planets of the solar system in order, one per line."),
    Prompt("Watch code being drafted", "Write a simple HTML page with a title and a paragraph."),
    Prompt("Ask for an explanation", "Explain in plain words why the sky is blue."),
)


class Card(QPushButton):
    """A button that sends its prompt."""

    def __init__(self, prompt: Prompt, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.prompt = prompt
        style(self, kind="card")
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.setAccessibleName(f"Send: {prompt.text}")
        self.setAccessibleDescription(prompt.title)
        labels = (wrapped(prompt.title, role="heading"), wrapped(prompt.text, role="body", tone="faint"))
        for line in labels:
            line.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        column(*labels, STRETCH, on=self, margins=(14, 12, 14, 12), gap=4)

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


class Welcome(QScrollArea):
    """The page of a conversation without messages. other: the button to choose another model."""

    chosen = Signal(str)  # the prompt to send

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.title, self.introduction = label("Redline", "display"), [wrapped(t, role="lead") for t in INTRODUCTION]
        self.model, self.other = label(role="body", tone="faint"), QPushButton("Other Models…")
        self.race = QPushButton("See a Race")
        self.race.setAccessibleDescription("Replays a recorded race: the same reply with drafting and without")
        for link in (self.other, self.race):
            style(link, role="link")
        self.offer, self.first = PairOffer(), False
        self.cards = [Card(prompt) for prompt in PROMPTS]
        self._row = row(*((card, 1) for card in self.cards), gap=12)
        self._lay_out()
        for card in self.cards:
            card.clicked.connect(lambda _=False, text=card.prompt.text: self.chosen.emit(text))

    def set_first(self, first: bool) -> None:
        """Shows the introduction, at the first start, or hides it."""
        self.first = first
        self.title.setText("Redline" if first else "New Chat")
        for widget in (*self.introduction, self.model, self.other, self.race):
            widget.setVisible(first)

    def show_model(self, target: str, ready: bool) -> None:
        """Shows which model replies, and whether it is loaded."""
        name = target or "the built-in model"
        small = " It is a small demonstration model." if name == BUILTIN_NAME else ""
        self.model.setText(f"{name} is ready.{small}" if ready else f"Loading {name}…")

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        direction = QBoxLayout.Direction
        self._row.setDirection(direction.TopToBottom if self.width() < NARROW else direction.LeftToRight)

    def _lay_out(self) -> None:
        inside = QWidget()
        inside.setMaximumWidth(TEXT_WIDTH + 4 * GAP)
        models = QWidget()
        flow = FlowLayout(models, 12)
        flow.setContentsMargins(0, 0, 0, 0)
        for part in (self.model, self.other, self.race):
            flow.addWidget(part)
        above: list[Part] = [(STRETCH, 2), self.title, *self.introduction, GAP, models, GAP, self.offer, 4]
        column(*above, self._row, (STRETCH, 3), on=inside, margins=(2 * GAP, 3 * GAP, 2 * GAP, 2 * GAP), gap=GAP)
        outside = QWidget()
        row(STRETCH, (inside, 1000), STRETCH, on=outside)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        models.setSizePolicy(policy)
        self.setWidget(outside)
        self.viewport().setAutoFillBackground(False)
        outside.setAutoFillBackground(False)
