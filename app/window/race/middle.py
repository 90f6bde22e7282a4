"""Between the panes: the speed-up, how it spreads over the runs, and what the texts have in common so far."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.race import words
from app.race.replaying import Replay, State
from app.race.results import Spread
from app.window.fonts import font
from app.window.icons import pixmap
from app.window.look import GAP, Look
from app.window.race.timeline import MarkKind
from app.window.shell.styles import faint_style, wear
from app.window.shell.widgets import Hairline, wrapped

WIDTH = 184
AS_FAST = 0.995  # what is shown as 1.00 is no loss


class Middle(QWidget):
    """Of one race."""

    def __init__(self, replay: Replay, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedWidth(WIDTH)
        self._replay, self._parted = replay, False
        found, self._labels = replay.results, list[tuple[QLabel, str, float]]()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(GAP, 0, GAP, 0)
        self._column.setSpacing(0)
        self._column.addStretch(3)
        self.total = self._figure(found.total, "wall-clock speed-up", 44)
        self._column.addSpacing(2 * GAP)
        self.decode = self._figure(found.decode, "decode speed-up", 26)
        self._column.addSpacing(GAP + 4)
        self._add(words.medians_of(found.pairs).replace(", ", "\n"), "faint", 11)
        self._column.addSpacing(2 * GAP)
        self._line = Hairline()
        self._column.addWidget(self._line)
        self._column.addSpacing(2 * GAP)
        self._column.addLayout(self._sameness())
        self._column.addStretch(4)

    _look: Look | None = None

    def show_state(self, state: State) -> None:
        """What both have shown by now."""
        same, parted = str(state.identical), state.parted is not None
        if (self.same.text(), self._parted) == (same, parted) and self.below.text():
            return
        self._parted = parted
        self.same.setText(same)
        self.below.setText(self._explained(state))
        self.setAccessibleName(f"{self.same.text()} {self.below.text()}")
        self._colour()

    def set_look(self, look: Look) -> None:
        self._look = look
        for label, kind, size in self._labels:
            if kind == "faint":
                wear(label, faint_style(look, size))
            else:
                label.setFont(font(look, size, QFont.Weight.Bold))
                wear(label, f"color: {getattr(look, kind)}; background: transparent;")
        self._line.set_look(look)
        self.same.setFont(font(look, 26, QFont.Weight.Bold))
        self._colour()

    # --- parts ---------------------------------------------------------------------------------

    def _figure(self, found: Spread | None, what: str, size: float) -> QLabel:
        """A speed-up, what it is of, and its spread."""
        slower = found is not None and found.median < AS_FAST
        figure = self._add(words.speedup(found.median if found else None), "warning" if slower else "good", size)
        self._add(what, "faint", 12)
        if found is not None and self._replay.results.pairs > 1:
            self._add(words.spread(found), "faint", 11)
        return figure

    def _sameness(self) -> QVBoxLayout:
        self.icon, self.same, self.below = QLabel(), QLabel("0"), wrapped()
        self.below.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        row = QHBoxLayout()
        row.setSpacing(GAP // 2)
        row.addStretch(1)
        row.addWidget(self.icon)
        row.addWidget(self.same)
        row.addStretch(1)
        column = QVBoxLayout()
        column.setSpacing(0)
        column.addLayout(row)
        column.addWidget(self.below)
        return column

    def _explained(self, state: State) -> str:
        noun = "token" if state.identical == 1 else "tokens"
        if state.parted is None:
            return f"identical {noun}" if state.done else f"identical {noun} so far"
        texts = [" ".join(text.split()) or "a blank" if text is not None else "the end" for text in self._texts()]
        said = " / ".join(f"“{text[:16]}”" for text in texts)
        return f"identical {noun}, then {said}: {words.gap(self._replay.receipt)}"

    def _texts(self) -> tuple[str | None, ...]:
        parting = self._replay.parting
        return parting.texts if parting is not None else ()

    def _colour(self) -> None:
        """Good while nothing differs; then as bad as it is."""
        look = self._look
        if look is None:
            return
        colour = mark_colour(self._replay, look) if self._parted else look.good
        wear(self.same, f"color: {colour}; background: transparent;")
        wear(self.below, f"color: {look.text if self._parted else look.faint}; font-size: {look.px(12)}px;")
        self.icon.setPixmap(pixmap("warning" if self._parted else "check", colour, 22, self.devicePixelRatioF()))

    def _add(self, text: str, kind: str, size: float) -> QLabel:
        label = wrapped(text)
        label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._labels.append((label, kind, size))
        self._column.addWidget(label)
        return label


def mark_kind(replay: Replay) -> MarkKind:
    """Of a difference: an error where a promise was broken."""
    if not replay.receipt.promised:
        return "accent"
    return "error" if replay.receipt.failed else "warning"


def mark_colour(replay: Replay, look: Look) -> str:
    """Of a token that differs."""
    return str(getattr(look, mark_kind(replay)))
