"""The form for the sampling settings: speculation, sampling, and where a reply ends."""

from __future__ import annotations

import re
from typing import cast

from PySide6.QtCore import QTimer, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit, QSpinBox, QWidget

from app.protocol import AcceptanceRule, SamplingSettings
from app.window.common.form_fields import DECIMALS, Field, Lines, choice, real_number, whole_number
from engine.settings import LARGEST_SEED, LONGEST_DRAFT, LONGEST_TREE, MAX_PENALTY, MAX_TEMPERATURE, MIN_TEMPERATURE

MAX_TOKENS = 1_000_000
TYPING_MS = 400
_DIGITS = re.compile("[0-9]{1,19}")

RULES = {"rejection": "Rejection", "coupled": "Coupled"}
RULE_HELP = {
    "rejection": "Follows exactly the distribution of the target.",
    "coupled": "The same seed gives the same text with every drafter, and without one.",
}
LENGTHS = {"auto": "Automatic", "fixed": "Fixed"}
LENGTH_HELP = {"auto": "As long as it pays on this computer.", "fixed": "The same in every round. 0 is plain decoding."}
GREEDY = "0 always takes the most likely token. Top-p, top-k, min-p, seed and acceptance then have no effect."
VARIED = "Higher is more varied."


class SamplingForm(QWidget):
    """The controls in three groups of fields, which the chat form lays out. changed(): the user changed something,
    which may be invalid."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.temperature, self.max_tokens = real_number(0, MAX_TEMPERATURE, 0.1), whole_number(1, MAX_TOKENS)
        top_p, top_k = real_number(0.0001, 1, 0.05), whole_number(0, 1_000_000, "Off")
        min_p, penalty = real_number(0, 0.9999, 0.01), real_number(0.01, MAX_PENALTY, 0.05)
        self.rule, self.length_kind, self.length = choice(RULES), choice(LENGTHS), whole_number(0, LONGEST_TREE)
        self.seed, self.stop = QLineEdit(), Lines(2, "One per line; \\n is a line break")
        self.seed.setPlaceholderText("Random")
        self._numbers: dict[str, QSpinBox | QDoubleSpinBox] = {  # by the name of the setting
            "temperature": self.temperature,
            "top_p": top_p,
            "top_k": top_k,
            "min_p": min_p,
            "repetition_penalty": penalty,
            "max_tokens": self.max_tokens,
        }
        self._temperature = Field("Temperature", self.temperature)
        self._seed, self._rule = Field("Seed", self.seed), Field("Acceptance", self.rule)
        self._kind, self._length = Field("Draft length", self.length_kind), Field("Tokens per round", self.length)
        self._most = Field("Maximum tokens", self.max_tokens)
        self.speculation = (self._rule, self._kind, self._length)
        self.sampling = (
            self._temperature,
            Field("Top-p", top_p, "Keeps the most likely tokens up to this probability; 1 is off."),
            Field("Top-k", top_k, "Keeps this many of the most likely tokens."),
            Field("Min-p", min_p, "Drops tokens below this share of the most likely one; 0 is off."),
            Field("Repetition penalty", penalty, "Above 1 discourages repetition."),
            self._seed,
        )
        self.ends = (self._most, Field("Stop strings", self.stop, wide=True))
        self.fields = (*self.speculation, *self.sampling, *self.ends)
        self._tree, self._context = False, 0
        self._typing = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._connect()
        self.show_settings(SamplingSettings())

    def settings(self) -> SamplingSettings:
        """Returns the settings that are shown; call it only while they are `valid`."""
        seed = self.seed.text().strip()
        return SamplingSettings(
            **{name: round(box.value(), DECIMALS) for name, box in self._numbers.items()},  # type: ignore[arg-type]
            seed=int(seed) if seed else None,
            acceptance=cast(AcceptanceRule, self.rule.currentData()),
            draft_length=self.length.value() if self.length_kind.currentData() == "fixed" else None,
            stop=read_stops(self.stop.toPlainText()),
        )

    def show_settings(self, sampling: SamplingSettings) -> None:
        """Shows these settings, without a signal."""
        self.blockSignals(True)
        for name, box in self._numbers.items():
            box.setValue(getattr(sampling, name))
        self.length.setValue(sampling.draft_length or 0)
        self.seed.setText("" if sampling.seed is None else str(sampling.seed))
        self.stop.setPlainText(write_stops(sampling.stop))
        self.rule.choose(sampling.acceptance)
        self.length_kind.choose("auto" if sampling.draft_length is None else "fixed")
        self._typing.stop()
        self.blockSignals(False)
        self._check()

    def set_limits(self, tree: bool, context: int) -> None:
        """Sets what the pair allows: a tree may be longer than a chain, and the context ends a reply (0: unknown)."""
        self._tree, self._context = tree, context
        self._check()

    @property
    def valid(self) -> bool:
        """Whether every value is allowed."""
        return not any(field.error for field in self.fields)

    def _connect(self) -> None:
        for number in (*self._numbers.values(), self.length):
            number.valueChanged.connect(lambda _: self._change())
        for box in (self.rule, self.length_kind):
            box.activated.connect(lambda _: self._change())
        self.seed.textChanged.connect(lambda _: self._typing.start())
        self.stop.textChanged.connect(self._typing.start)
        self._typing.timeout.connect(self._change)

    def _change(self) -> None:
        self._check()
        self.changed.emit()

    def _check(self) -> None:
        """Shows explanations of the values, and what is wrong with them."""
        fixed = self.length_kind.currentData() == "fixed"
        self._temperature.set_help(VARIED if self.temperature.value() else GREEDY)
        self._temperature.set_error(temperature_error(self.temperature.value()))
        self._rule.set_help(RULE_HELP[self.rule.currentData()])
        self._kind.set_help(LENGTH_HELP[self.length_kind.currentData()])
        self._length.setVisible(fixed)
        longest, unit = (LONGEST_TREE, "nodes") if self._tree else (LONGEST_DRAFT, "tokens")
        too_long = fixed and self.length.value() > longest
        self._length.set_error(f"At most {longest} {unit}." if too_long else "")
        self._seed.set_error(seed_error(self.seed.text()))
        beyond = 0 < self._context < self.max_tokens.value()
        self._most.set_help(f"The context ends the reply earlier, at {self._context:,} tokens." if beyond else "")


def temperature_error(temperature: float) -> str:
    """Returns what is wrong with a temperature, as the engine refuses those close to 0; "" if nothing is."""
    return f"Enter 0, or at least {MIN_TEMPERATURE:g}." if 0 < temperature < MIN_TEMPERATURE else ""


def seed_error(text: str) -> str:
    """Returns what is wrong with a seed; "" if nothing is. An empty text is a random seed."""
    text = text.strip()
    if not text or (_DIGITS.fullmatch(text) and int(text) <= LARGEST_SEED):
        return ""
    return "Enter a whole number from 0 to 2^63 - 1, or leave this empty."


def read_stops(text: str) -> tuple[str, ...]:
    """Returns the stop strings of a text with one per line, in which \\n, \\t and \\\\ are escapes."""
    return tuple(_unescaped(line) for line in text.splitlines() if line)


def write_stops(stops: tuple[str, ...]) -> str:
    """Returns the text from which `read_stops` reads these stop strings."""
    return "\n".join(s.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t") for s in stops)


def _unescaped(line: str) -> str:
    pieces, rest = [], iter(line)
    for character in rest:
        following = next(rest, "") if character == "\\" else ""
        known = {"n": "\n", "t": "\t", "\\": "\\"}.get(following)
        pieces.append(known if known else character + following)
    return "".join(pieces)
