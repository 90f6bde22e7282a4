"""The form for the sampling settings: speculation, sampling, thinking, and where a reply ends.

Values that the user does not set are the model's own: they are shown as its default once the model is loaded, and
follow the model when another one is chosen.
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from PySide6.QtCore import QSignalBlocker, Signal
from PySide6.QtWidgets import QDoubleSpinBox, QLineEdit, QPushButton, QSpinBox, QWidget

from app.protocol import AcceptanceRule, SamplingSettings
from app.window.common.form_fields import DECIMALS, Field, Lines, choice, real_number, whole_number
from app.window.common.timer import Timer
from engine.settings import (
    LARGEST_SEED,
    LONGEST_DRAFT,
    LONGEST_TREE,
    MAX_PENALTY,
    MAX_TEMPERATURE,
    MIN_TEMPERATURE,
    MODEL_DEFAULTS,
)

MAX_TOKENS = 1_000_000
TYPING_MS = 400
_DIGITS = re.compile("[0-9]{1,19}")

RULES = {"rejection": "Rejection", "coupled": "Coupled"}
RULE_HELP = {
    "rejection": "Follows exactly the distribution of the target.",
    "coupled": "The same seed gives the same text with every drafter, and without one.",
}
LENGTHS = {"auto": "Automatic", "fixed": "Fixed"}
LENGTH_HELP = {
    "auto": "Adjusts to whatever is fastest on this computer.",
    "fixed": "The same in every round. 0 is plain decoding.",
}
GREEDY = "0 always takes the most likely token. Top-p, top-k, min-p, seed and acceptance then have no effect."
VARIED = "Higher is more varied."
NAMES = {  # of the settings that a model may have a default for
    "temperature": "Temperature",
    "top_p": "Top-p",
    "top_k": "Top-k",
    "min_p": "Min-p",
    "repetition_penalty": "Repetition penalty",
    "presence_penalty": "Presence penalty",
    "frequency_penalty": "Frequency penalty",
}
HELP = {  # of the same
    "temperature": VARIED,
    "top_p": "Keeps the most likely tokens up to this total probability; 1 is off.",
    "top_k": "Keeps this many of the most likely tokens.",
    "min_p": "Drops tokens below this share of the most likely one; 0 is off.",
    "repetition_penalty": "Above 1 discourages repetition.",
    "presence_penalty": "Above 0, discourages tokens that have already appeared.",
    "frequency_penalty": "Above 0, discourages a token more each time it has appeared.",
}
THINKING = {"": "Default", "on": "On", "off": "Off"}
NO_SWITCH = "This model does not offer this setting."
THOUGHT_HELP = "If the model thinks for longer than this, the reply stops. You can then continue it."


class SamplingForm(QWidget):
    """The controls in three groups of fields, which the chat form lays out. changed(): the user changed something,
    which may be invalid."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._from_model = set(MODEL_DEFAULTS)
        self._defaults: Mapping[str, float] = {}
        self._has_thinking = self._has_effort = True
        self._tree, self._context = False, 0
        self._make_controls()
        self._make_fields()
        self._typing = Timer(self, singleShot=True, interval=TYPING_MS)
        self._connect()
        self.show_settings(SamplingSettings())

    def _make_controls(self) -> None:
        self.temperature, self.max_tokens = real_number(0, MAX_TEMPERATURE, 0.1), whole_number(1, MAX_TOKENS)
        self.thinking, self.effort = choice(THINKING), choice({"": THINKING[""]})
        self.max_thought = whole_number(0, MAX_TOKENS, "No separate limit")
        self.reset = QPushButton("Use Model's Defaults")
        self.reset.setAccessibleName("Use the Model's Defaults for Sampling")
        self.rule, self.length_kind, self.length = choice(RULES), choice(LENGTHS), whole_number(0, LONGEST_TREE)
        self.seed, self.stop = QLineEdit(), Lines(2, "One per line; \\n is a line break")
        self.seed.setPlaceholderText("Random")
        self._numbers: dict[str, QSpinBox | QDoubleSpinBox] = {  # by the name of the setting
            "temperature": self.temperature,
            "top_p": real_number(0.0001, 1, 0.05),
            "top_k": whole_number(0, 1_000_000, "Off"),
            "min_p": real_number(0, 0.9999, 0.01),
            "repetition_penalty": real_number(0.01, MAX_PENALTY, 0.05),
            "presence_penalty": real_number(-MAX_PENALTY, MAX_PENALTY, 0.1),
            "frequency_penalty": real_number(-MAX_PENALTY, MAX_PENALTY, 0.1),
            "max_tokens": self.max_tokens,
        }

    def _make_fields(self) -> None:
        self._by_model = {name: Field(NAMES[name], self._numbers[name]) for name in MODEL_DEFAULTS}
        self._temperature, self._most = self._by_model["temperature"], Field("Maximum tokens", self.max_tokens)
        self._seed, self._rule = Field("Seed", self.seed), Field("Acceptance", self.rule)
        self._kind, self._length = Field("Draft length", self.length_kind), Field("Tokens per round", self.length)
        self._think, self._effort = Field("Thinking", self.thinking), Field("Effort", self.effort)
        self.speculation = (self._rule, self._kind, self._length)
        self.sampling = (*self._by_model.values(), self._seed)
        self.thought = (self._think, self._effort, Field("Maximum thinking tokens", self.max_thought, THOUGHT_HELP))
        self.ends = (self._most, Field("Stop strings", self.stop, wide=True))
        self.fields = (*self.speculation, *self.thought, *self.sampling, *self.ends)

    def settings(self) -> SamplingSettings:
        """Returns the settings that are shown; call it only while they are `valid`."""
        seed = self.seed.text().strip()
        own = {name: box for name, box in self._numbers.items() if name not in self._from_model}
        values: dict[str, Any] = {name: round(box.value(), DECIMALS) for name, box in own.items()}
        thinking = self.thinking.currentData()
        return SamplingSettings(
            **values,
            from_model=tuple(name for name in MODEL_DEFAULTS if name in self._from_model),
            thinking=thinking == "on" if thinking else None,
            effort=self.effort.currentData() or "",
            max_thought_tokens=self.max_thought.value() or None,
            seed=int(seed) if seed else None,
            acceptance=cast(AcceptanceRule, self.rule.currentData()),
            draft_length=self.length.value() if self.length_kind.currentData() == "fixed" else None,
            stop=read_stops(self.stop.toPlainText()),
        )

    def show_settings(self, sampling: SamplingSettings) -> None:
        """Shows these settings, without a signal."""
        with QSignalBlocker(self):
            for name, box in self._numbers.items():
                box.setValue(getattr(sampling, name))
            # Last: what was shown before counted as values that the user gave.
            self._from_model = set(sampling.from_model)
            self._show_defaults()
            self.thinking.choose("" if sampling.thinking is None else "on" if sampling.thinking else "off")
            self._choose_effort(sampling.effort)
            self.max_thought.setValue(sampling.max_thought_tokens or 0)
            self.length.setValue(sampling.draft_length or 0)
            self.seed.setText("" if sampling.seed is None else str(sampling.seed))
            self.stop.setPlainText(write_stops(sampling.stop))
            self.rule.choose(sampling.acceptance)
            self.length_kind.choose("auto" if sampling.draft_length is None else "fixed")
            self._typing.stop()
        self._check()

    def set_limits(self, tree: bool, context: int) -> None:
        """Sets what the pair allows: a tree may be longer than a chain, and the context ends a reply (0: unknown)."""
        self._tree, self._context = tree, context
        self._check()

    def set_model(self, defaults: Mapping[str, float], thinking: bool, efforts: tuple[str, ...]) -> None:
        """Shows what the loaded model has: its own values, and the switches of its chat template."""
        self._defaults, self._has_thinking, self._has_effort = defaults, thinking, bool(efforts)
        chosen = self.effort.currentData() or ""
        self.effort.clear()
        for value, text in {"": THINKING[""], **{one: one.replace("_", " ").capitalize() for one in efforts}}.items():
            self.effort.addItem(text, value)
        self._choose_effort(chosen)
        self._show_defaults()
        self._check()

    def _choose_effort(self, effort: str) -> None:
        """Chooses an effort, which the model that is loaded now may not know."""
        if self.effort.findData(effort) < 0:
            self.effort.addItem(effort.capitalize(), effort)
        self.effort.choose(effort)

    def _show_defaults(self) -> None:
        neutral = SamplingSettings()
        for name in self._from_model:
            with QSignalBlocker(self._numbers[name]):
                self._numbers[name].setValue(self._defaults.get(name, getattr(neutral, name)))

    def _use_defaults(self) -> None:
        self._from_model = set(MODEL_DEFAULTS)
        self._show_defaults()
        self._change()

    def _set_own(self, name: str) -> None:
        """Takes a value that the user gave in place of the model's."""
        self._from_model.discard(name)
        self._change()

    def _help_of(self, name: str) -> str:
        """Returns the explanation of a setting, and what the model's own value is."""
        text = GREEDY if name == "temperature" and not self.temperature.value() else HELP[name]
        default = self._defaults.get(name)
        if name in self._from_model:
            return f"Model's default. {text}" if default is not None else text
        return text if default is None else f"Model's default is {default:g}. {text}"

    @property
    def valid(self) -> bool:
        """Whether every value is allowed."""
        return not any(field.error for field in self.fields)

    def _connect(self) -> None:
        for name, number in self._numbers.items():
            number.valueChanged.connect(lambda _, name=name: self._set_own(name))
        for number in (self.length, self.max_thought):
            number.valueChanged.connect(lambda _: self._change())
        self.reset.clicked.connect(self._use_defaults)
        for box in (self.rule, self.length_kind, self.thinking, self.effort):
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
        for name, field in self._by_model.items():
            field.set_help(self._help_of(name))
        self.reset.setEnabled(self._from_model != set(MODEL_DEFAULTS))
        for switch, field, known in (
            (self.thinking, self._think, self._has_thinking),
            (self.effort, self._effort, self._has_effort),
        ):
            switch.setEnabled(known)
            field.set_help("" if known else NO_SWITCH)
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
    return "Enter a whole number from 0 to 2^63 - 1, or leave the field empty."


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
