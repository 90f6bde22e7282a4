"""How a reply is drawn: sampling, the rule of acceptance, the draft length, and where it ends."""

from __future__ import annotations

import re
from typing import cast

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from app.protocol import Acceptance, Law
from app.window.look import Look
from app.window.shell.fields import DECIMALS, Field, Lines, choice, choose, real, whole

LONGEST_DRAFT, LONGEST_TREE = 32, 64  # tokens, nodes: what the engine allows
MOST_TOKENS, LARGEST_SEED = 1_000_000, 2**63 - 1
TYPING_MS = 400
_DIGITS = re.compile("[0-9]{1,19}")

RULES = {"rejection": "Rejection", "coupled": "Coupled"}
RULES_ARE = {
    "rejection": "Replies are drawn exactly as the target alone would draw them.",
    "coupled": "The same seed gives the same text with every drafter, and with none.",
}
LENGTHS = {"auto": "Automatic", "fixed": "Fixed"}
LENGTHS_ARE = {"auto": "As far as it pays on this machine.", "fixed": "The same in every round. 0 is plain decoding."}
GREEDY = "0 takes the likeliest token: top-p, top-k, min-p, seed and acceptance then change nothing."
WARM = "Higher is more varied."


class LawForm(QWidget):
    """changed(): the user changed something, for better or worse."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.temperature, self.top_p, self.top_k = real(0, 10, 0.1), real(0.0001, 1, 0.05), whole(0, 1_000_000, "Off")
        self.min_p, self.penalty, self.seed = real(0, 0.9999, 0.01), real(0.01, 10, 0.05), QLineEdit()
        self.rule, self.length_kind = choice(RULES), choice(LENGTHS)
        self.length, self.max_tokens = whole(0, LONGEST_TREE), whole(1, MOST_TOKENS)
        self.stop = Lines(2, "One a line; \\n stands for a new line")
        self.seed.setPlaceholderText("Random")
        self._temperature = Field("Temperature", self.temperature)
        self._seed, self._rule = Field("Seed", self.seed), Field("Acceptance", self.rule)
        self._kind, self._length = Field("Draft length", self.length_kind), Field("Tokens a round", self.length)
        self._most = Field("Longest reply, tokens", self.max_tokens)
        self.speculation = (self._rule, self._kind, self._length)
        self.sampling = (
            self._temperature,
            Field("Top-p", self.top_p, "Keeps the likeliest tokens of this mass; 1 is off."),
            Field("Top-k", self.top_k, "Keeps this many of the likeliest tokens."),
            Field("Min-p", self.min_p, "Drops tokens below this share of the likeliest; 0 is off."),
            Field("Repetition penalty", self.penalty, "Above 1 discourages repeats."),
            self._seed,
        )
        self.ends = (self._most, Field("Stop strings", self.stop, wide=True))
        self.fields = (*self.speculation, *self.sampling, *self.ends)
        self._tree, self._context = False, 0
        self._typing = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._wire()
        self.show_law(Law())

    def law(self) -> Law:
        """As it stands; call it only while `valid`."""
        seed = self.seed.text().strip()
        return Law(
            temperature=round(self.temperature.value(), DECIMALS),
            top_p=round(self.top_p.value(), DECIMALS),
            top_k=self.top_k.value(),
            min_p=round(self.min_p.value(), DECIMALS),
            repetition_penalty=round(self.penalty.value(), DECIMALS),
            seed=int(seed) if seed else None,
            acceptance=cast(Acceptance, self.rule.currentData()),
            draft_length=self.length.value() if self.length_kind.currentData() == "fixed" else None,
            max_tokens=self.max_tokens.value(),
            stop=read_stops(self.stop.toPlainText()),
        )

    def show_law(self, law: Law) -> None:
        """Show this instead, without telling."""
        controls: list[QWidget] = [self.temperature, self.top_p, self.top_k, self.min_p, self.penalty, self.length]
        controls += [self.max_tokens, self.seed, self.stop]
        for control in controls:
            control.blockSignals(True)
        self.temperature.setValue(law.temperature)
        self.top_p.setValue(law.top_p)
        self.top_k.setValue(law.top_k)
        self.min_p.setValue(law.min_p)
        self.penalty.setValue(law.repetition_penalty)
        self.length.setValue(law.draft_length or 0)
        self.max_tokens.setValue(law.max_tokens)
        self.seed.setText("" if law.seed is None else str(law.seed))
        self.stop.setPlainText(write_stops(law.stop))
        choose(self.rule, law.acceptance)
        choose(self.length_kind, "auto" if law.draft_length is None else "fixed")
        for control in controls:
            control.blockSignals(False)
        self._check()

    def fit(self, tree: bool, context: int) -> None:
        """What of the pair bears on the law: trees may be larger, a reply fits into the context (0: unknown)."""
        self._tree, self._context = tree, context
        self._check()

    @property
    def valid(self) -> bool:
        return not any(field.error for field in self.fields)

    def set_look(self, look: Look) -> None:
        for field in self.fields:
            field.set_look(look)

    def _wire(self) -> None:
        for number in (self.temperature, self.top_p, self.min_p, self.penalty):
            number.valueChanged.connect(lambda _: self._change())
        for count in (self.top_k, self.length, self.max_tokens):
            count.valueChanged.connect(lambda _: self._change())
        for box in (self.rule, self.length_kind):
            box.activated.connect(lambda _: self._change())
        self.seed.textChanged.connect(lambda _: self._typing.start())
        self.stop.textChanged.connect(self._typing.start)
        self._typing.timeout.connect(self._change)

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        """Explain what is chosen, and say what is wrong with it."""
        fixed = self.length_kind.currentData() == "fixed"
        self._temperature.say(WARM if self.temperature.value() else GREEDY)
        self._rule.say(RULES_ARE[self.rule.currentData()])
        self._kind.say(LENGTHS_ARE[self.length_kind.currentData()])
        self._length.setVisible(fixed)
        longest, of = (LONGEST_TREE, "nodes") if self._tree else (LONGEST_DRAFT, "tokens")
        too_long = fixed and self.length.value() > longest
        self._length.fail(f"At most {longest} {of}." if too_long else "")
        self._seed.fail(seed_error(self.seed.text()))
        beyond = 0 < self._context < self.max_tokens.value()
        self._most.say(f"The context ends it earlier, at {self._context:,} tokens in all." if beyond else "")


def seed_error(text: str) -> str:
    """What is wrong with a seed; nothing with none."""
    text = text.strip()
    if not text or (_DIGITS.fullmatch(text) and int(text) <= LARGEST_SEED):
        return ""
    return "Give a whole number from 0 to 2^63 - 1, or nothing."


def read_stops(text: str) -> tuple[str, ...]:
    """One a line; \\n, \\t and \\\\ are what they are elsewhere."""
    return tuple(_unescaped(line) for line in text.splitlines() if line)


def write_stops(stops: tuple[str, ...]) -> str:
    """The inverse of `read_stops`."""
    return "\n".join(s.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") for s in stops)


def _unescaped(line: str) -> str:
    pieces, rest = [], iter(line)
    for character in rest:
        following = next(rest, "") if character == "\\" else ""
        known = {"n": "\n", "t": "\t", "\\": "\\"}.get(following)
        pieces.append(known if known else character + following)
    return "".join(pieces)
