"""What is to be raced: a prompt, two sides, how often, and the law that both share."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace as changed
from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QGridLayout, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.protocol import Law
from app.protocol.racing import PLAIN, Side
from app.records import ChatSettings
from app.window.fonts import font
from app.window.look import GAP, Look
from app.window.shell.fields import Check, Lines, choice, choose, real, whole
from app.window.shell.folders import FolderField, folder_error
from app.window.shell.law_form import LONGEST_DRAFT, LONGEST_TREE, RULES
from app.window.shell.pair_form import DRAFTERS, FOLDER
from app.window.shell.styles import controls_style, faint_style, wear
from app.window.transcript.buttons import filled

RUNS, MOST_RUNS = 3, 20
TOKENS, MOST_TOKENS = 128, 4096
AUTO = -1  # as a draft length in the form
REST = "What else shapes the text, penalties or top-p for example, is as in the chat this was opened from."
SIDES = {"none": "Plain decoding", **{kind: name for kind, name in DRAFTERS.items() if kind != "none"}}


class SideForm(QWidget):
    """One side. name: "A" or "B"."""

    changed = Signal()

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.letter = QLabel(name)
        self.drafter, self.rule = choice(SIDES), choice(RULES)
        self.length, self.tree = whole(AUTO, LONGEST_TREE, "Auto"), Check("Trees")
        self.folder = FolderField(f"Model folder of drafter {name}")
        self.letter.setToolTip(f"Side {name}")
        for control, said in (
            *((self.drafter, "Drafter"), (self.length, "Draft length"), (self.tree, "Trees")),
            *((self.rule, "Acceptance"), (self.folder, "Drafter folder")),
        ):
            control.setAccessibleName(f"{said} of side {name}")
        self.length.setPrefix("Length ")
        self.drafter.setMinimumWidth(150)
        row = QHBoxLayout()
        row.setSpacing(GAP)
        for widget in (self.letter, self.drafter, self.length, self.tree, self.rule):
            row.addWidget(widget)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addLayout(row)
        column.addWidget(self.folder)
        for signal in (self.drafter.activated, self.rule.activated, self.tree.clicked, self.length.valueChanged):
            signal.connect(lambda *_: self._change())
        self.folder.changed.connect(self._change)
        self._check()

    def side(self) -> Side:
        """As it stands, right or wrong."""
        kind = self.drafter.currentData()
        length = self.length.value()
        return Side(
            drafter=str(Path(self.folder.text()).expanduser()) if kind == FOLDER else kind,
            tree=self.tree.isChecked() and kind != "none",
            draft_length=None if length == AUTO or kind == "none" else length,
            acceptance="coupled" if self.rule.currentData() == "coupled" else "rejection",
        )

    def show_side(self, side: Side) -> None:
        own = side.drafter not in SIDES
        choose(self.drafter, FOLDER if own else side.drafter)
        self.folder.set_text(side.drafter if own else "")
        self.length.blockSignals(True)
        self.length.setValue(AUTO if side.draft_length is None else side.draft_length)
        self.length.blockSignals(False)
        self.tree.setChecked(side.tree)
        choose(self.rule, side.acceptance)
        self._check()

    def error(self) -> str:
        """What is wrong with it, or ""."""
        if self.drafter.currentData() == FOLDER and (why := folder_error(self.folder.text())):
            return why
        longest = LONGEST_TREE if self.tree.isChecked() else LONGEST_DRAFT
        return f"A draft has at most {longest} tokens." if self.length.value() > longest else ""

    def show_rule(self, shown: bool) -> None:
        """Where the temperature is 0, the rule changes nothing."""
        self.rule.setVisible(shown)

    def set_look(self, look: Look) -> None:
        self.letter.setFont(font(look, 15, QFont.Weight.Bold))
        for control in (self.drafter, self.rule, self.tree):
            control.set_look(look)
            control.setFont(font(look))

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        kind = self.drafter.currentData()
        self.folder.setVisible(kind == FOLDER)
        for control in (self.length, self.tree):
            control.setVisible(kind != "none")


class RaceForm(QWidget):
    """raced(): by the user; what stands in the form is valid. stopped(). open_asked(): a race that was saved."""

    raced = Signal()
    stopped = Signal()
    open_asked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.prompt = Lines(2, "What both sides answer")
        self.sides = [SideForm("A"), SideForm("B")]
        self.runs, self.tokens = whole(1, MOST_RUNS), whole(1, MOST_TOKENS)
        self.temperature = real(0, 10, 0.1)
        self.start, self.stop, self.said = QPushButton("Race"), QPushButton("Stop"), QLabel()
        self.open = QPushButton("Open…")
        self.open.setAccessibleName("Open a race that was saved")
        self._labels: list[QLabel] = []
        self._busy = False
        self._law = Law(max_tokens=TOKENS, seed=0)
        self._set_up()
        self.sides[0].show_side(PLAIN)
        self.sides[1].show_side(Side())
        self.runs.setValue(RUNS)
        self.tokens.setValue(TOKENS)
        self.start.clicked.connect(self.race)
        self.stop.clicked.connect(self.stopped)
        self.open.clicked.connect(self.open_asked)
        self.temperature.valueChanged.connect(lambda _: self._check())
        for side in self.sides:
            side.changed.connect(self._check)
        self.set_busy(False)
        self._check()

    def race(self) -> None:
        """Start, if everything is right and nothing goes on; else the keyboard goes to what is wrong."""
        if self._busy:
            return
        if not self.prompt.toPlainText().strip():
            self.said.setText("Write a prompt first.")
            self.prompt.setFocus(Qt.FocusReason.OtherFocusReason)
        elif self._check():
            self.raced.emit()

    def law(self) -> Law:
        """What both sides share."""
        return changed(self._law, temperature=self.temperature.value(), max_tokens=self.tokens.value())

    def suggest(self, settings: ChatSettings) -> None:
        """Plain decoding against how a conversation is decoded, by its law."""
        pair, law = settings.pair, settings.law
        other = Side(
            drafter="auto" if pair.drafter == "none" else pair.drafter,
            tree=pair.tree,
            draft_length=law.draft_length or None,
            acceptance=law.acceptance,
        )
        law = changed(law, max_tokens=TOKENS, draft_length=None)
        self.show_race(self.prompt.toPlainText(), law, (PLAIN, other), RUNS)

    def show_race(self, prompt: str, law: Law, sides: tuple[Side, ...], runs: int) -> None:
        """Of a race that was held."""
        self.prompt.setPlainText(prompt)
        self.temperature.setValue(law.temperature)
        self.tokens.setValue(min(law.max_tokens, MOST_TOKENS))
        self.runs.setValue(min(runs, MOST_RUNS))
        self._law = changed(law, seed=law.seed or 0)
        for form, side in zip(self.sides, sides, strict=True):
            form.show_side(side)
        self._check()

    def set_busy(self, busy: bool) -> None:
        """Whether a race goes on: then it can only be stopped."""
        self._busy = busy
        controls: list[QWidget] = [self.prompt, *self.sides, self.runs, self.tokens, self.temperature, self.open]
        for control in controls:
            control.setEnabled(not busy)
        self.start.setVisible(not busy)
        self.stop.setVisible(busy)

    def set_look(self, look: Look) -> None:
        for side in self.sides:
            side.set_look(look)
        for label in self._labels:
            wear(label, faint_style(look, 12))
        wear(self.said, f"color: {look.error}; font-size: {look.px(12)}px;")
        self.start.setStyleSheet(filled(look))
        for control in (self.prompt, self.runs, self.tokens, self.temperature):
            control.setFont(font(look))
        wear(self, controls_style(look))

    def _check(self) -> bool:
        """Show what belongs to the choice and what is wrong with it; whether nothing is."""
        for side in self.sides:
            side.show_rule(self.temperature.value() > 0)
        wrong = next((why for why in (side.error() for side in self.sides) if why), "")
        self.said.setText(wrong)
        return not wrong

    def _set_up(self) -> None:
        self.prompt.setAccessibleName("Prompt")
        self.temperature.setToolTip(REST)
        grid = QGridLayout(self)
        grid.setContentsMargins(2 * GAP + 4, 2 * GAP, 2 * GAP + 4, GAP)
        grid.setHorizontalSpacing(3 * GAP)
        grid.setVerticalSpacing(GAP)
        grid.addWidget(self.prompt, 0, 0, 1, 2)
        for column, side in enumerate(self.sides):
            grid.addWidget(side, 1, column)
            grid.setColumnStretch(column, 1)
        row = QHBoxLayout()
        row.setSpacing(GAP)
        for name, control in (
            *(("Runs of each", self.runs), ("Longest reply", self.tokens)),
            ("Temperature", self.temperature),
        ):
            row.addWidget(self._label(name, control))
            row.addWidget(control)
            row.addSpacing(GAP)
        row.addWidget(self.said, 1)
        row.addWidget(self.open)
        row.addWidget(self.start)
        row.addWidget(self.stop)
        grid.addLayout(row, 2, 0, 1, 2)

    def _label(self, name: str, control: QWidget) -> QLabel:
        label = QLabel(name)
        label.setBuddy(control)
        control.setAccessibleName(name)
        control.setFixedWidth(76)
        self._labels.append(label)
        return label
