"""One side of a race at a time: its name, how far it is, its numbers, its text."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt, QUrl, Signal
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QTextEdit, QVBoxLayout, QWidget

from app.protocol.racing import Run
from app.race import words
from app.race.replaying import PaneState
from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.race.numbers import Numbers
from app.window.race.script import Script
from app.window.reading import Reader
from app.window.shell.styles import faint_style, wear
from app.window.shell.widgets import ElidedLabel

NAMES = ("tokens", "decode tok/s", "TTFT", "target passes", "tokens a pass")
BAR = 8  # px
FRAME = 14  # px, around what is in a pane


class Bar(QWidget):
    """How much of a run has come."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(BAR)
        self.setAccessibleName(name)
        self._share, self._done = 0.0, False
        self._look: Look | None = None

    @property
    def share(self) -> float:
        return self._share

    def show_share(self, share: float, done: bool) -> None:
        """0 to 1."""
        if (share, done) != (self._share, self._done):
            self._share, self._done = share, done
            self.setAccessibleDescription(f"{share:.0%}")
            self.update()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        look = self._look
        if look is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        whole = QRectF(self.rect())
        painter.setBrush(QColor(look.hairline))
        painter.drawRoundedRect(whole, BAR / 2, BAR / 2)
        if self._share:
            whole.setWidth(max(BAR, whole.width() * self._share))
            painter.setBrush(QColor(look.good if self._done else look.accent))
            painter.drawRoundedRect(whole, BAR / 2, BAR / 2)
        painter.end()


class Pane(QFrame):
    """link_asked(QUrl). name, detail: of the side, for people."""

    link_asked = Signal(QUrl)

    def __init__(self, name: str, detail: str, run: Run, look: Look, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("pane")
        self.setAccessibleName(name)
        self.name, self._detail, self._clock = QLabel(name), ElidedLabel(detail), QLabel()
        self.name.setTextFormat(Qt.TextFormat.PlainText)
        self.bar, self.reader = Bar(f"Progress of {name}"), Reader()
        self.numbers = Numbers(NAMES, _longest(run))
        self.reader.setFrameShape(QFrame.Shape.NoFrame)
        self.reader.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.reader.setAccessibleName(f"Text of {name}")
        self.reader.document().setDocumentMargin(0)
        self.reader.link_asked.connect(self.link_asked)
        self.script = Script(run, self.reader.document(), look)
        self._marked: int | None = None
        self._mark = ""
        self._look = look
        self._state: PaneState | None = None
        self._lay_out()

    def show_state(self, state: PaneState, marked: int | None, mark: str) -> None:
        """marked: the token that differs, shown in the colour `mark`; None for none."""
        news = self.script.show(state.tokens)
        if news or (marked, mark) != (self._marked, self._mark):
            self._marked, self._mark = marked, mark
            self._select()
        if news:
            bar = self.reader.verticalScrollBar()
            bar.setValue(bar.maximum())
        if state != self._state:
            self._state = state
            self._show_numbers(state)

    def reveal_mark(self) -> None:
        """Scroll to the token that differs."""
        for cursor, _ in self.script.mark(self._marked, self._mark)[:1]:
            cursor.clearSelection()
            self.reader.setTextCursor(cursor)
            self.reader.ensureCursorVisible()

    def set_look(self, look: Look) -> None:
        self._look = look
        self.name.setFont(font(look, 16, QFont.Weight.DemiBold))
        wear(self.name, f"color: {look.text}; background: transparent;")
        self._clock.setFont(font(look, 16, QFont.Weight.DemiBold))
        self._detail.setFont(font(look, 12))
        wear(self._detail, faint_style(look, 12))
        self.bar.set_look(look)
        self.numbers.set_look(look)
        wear(
            self,
            f"#pane {{ background: {look.raised}; border: 1px solid {look.hairline}; border-radius: 12px; }}"
            f" QTextBrowser {{ background: transparent; color: {look.text}; }}",
        )
        self.script.set_look(look)
        self._select()
        if self._state is not None:
            self._show_numbers(self._state)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(FRAME, FRAME - 2, FRAME, FRAME)
        column.setSpacing(GAP)
        head = QHBoxLayout()
        head.addWidget(self.name)
        head.addStretch(1)
        head.addWidget(self._clock)
        column.addLayout(head)
        column.addWidget(self._detail)
        column.addWidget(self.bar)
        column.addWidget(self.numbers)
        column.addSpacing(GAP // 2)
        column.addWidget(self.reader, 1)

    def _show_numbers(self, state: PaneState) -> None:
        self.bar.show_share(state.share, state.done)
        self._clock.setText(f"{state.clock_s:.1f} s")
        colour = self._look.good if state.done else self._look.text
        wear(self._clock, f"color: {colour}; background: transparent;")
        self.numbers.show_values(_values(state))

    def _select(self) -> None:
        selections = []
        for cursor, shape in self.script.mark(self._marked, self._mark):
            selection = QTextEdit.ExtraSelection()
            selection.cursor, selection.format = cursor, shape  # type: ignore[attr-defined]  # unknown to the stubs
            selections.append(selection)
        self.reader.setExtraSelections(selections)


def _values(state: PaneState) -> tuple[str, ...]:
    """In the order of NAMES."""
    metrics = state.metrics
    return (
        f"{state.tokens} / {state.of}",
        words.number(metrics.tokens_per_s, ".1f"),
        words.number(metrics.ttft_s, ".2f", " s"),
        str(metrics.rounds),
        words.number(metrics.mean_acceptance_length, ".2f"),
    )


def _longest(run: Run) -> tuple[str, ...]:
    """Values as long as any of this run."""
    tokens, rounds = sum(len(one.round.tokens) for one in run.told), len(run.told)
    return f"{tokens} / {tokens}", "888.8", "88.88 s", str(rounds), "8.88"
