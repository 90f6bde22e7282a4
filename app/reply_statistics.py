"""The numbers of a reply as they are stored, and in one line of words, the same in the terminal and the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from app.duration_text import duration_words
from app.protocol import Struct
from engine.audit.verify_blocks import BLOCK_WIDTH
from engine.metrics import Metrics
from engine.policy.fixed import PLAIN_DECODING
from engine.settings import MODEL_DEFAULTS, SamplingSettings

ABOUT_EQUAL = 0.05  # of the speed, below which no difference is named
MANY = 0.5  # of the rounds of a reply, from which on it is said why they had no draft


class Statistics(Struct, frozen=True, kw_only=True):
    """The numbers of one reply by the definitions of `engine.metrics`. None: the number means nothing here. plain_s:
    what a plain step took on this machine, by the last measurement. plain_rounds, why_plain: how many rounds had no
    draft, and why most of those."""

    prompt_tokens: int
    tokens: int
    rounds: int
    drafted: int
    accepted: int
    ttft_s: float | None
    tokens_per_s: float | None
    acceptance_rate: float | None
    mean_acceptance_length: float | None
    acceptance_by_position: tuple[float, ...]
    thought_tokens: int = 0
    thought_s: float | None = None
    plain_s: float | None = None
    plain_rounds: int = 0
    why_plain: str = ""

    @classmethod
    def of(cls, metrics: Metrics, plain_s: float | None = None) -> Statistics:
        """Returns the numbers of a reply so far."""
        reached = tuple(metrics.acceptance_by_position)
        names = (name for name in cls.__struct_fields__ if name not in ("acceptance_by_position", "plain_s"))
        values = {name: getattr(metrics, name) for name in names}
        return cls(**values, acceptance_by_position=reached, plain_s=plain_s)

    @property
    def saved_s(self) -> float | None:
        """An estimate of how much later the reply would have ended by plain decoding; negative if sooner, None if
        nothing was drafted or no plain step was measured."""
        if not self.drafted or not self.plain_s or not self.tokens_per_s:
            return None
        return (self.tokens - 1) * (self.plain_s - 1 / self.tokens_per_s)


def speed_in_words(numbers: Statistics) -> str:
    """Compares the speed of a reply with that of plain decoding, as an estimate; "" where that is not known."""
    saved_s = numbers.saved_s
    if saved_s is None or not numbers.plain_s or not numbers.tokens_per_s:
        return ""
    times = numbers.plain_s * numbers.tokens_per_s
    if abs(times - 1) < ABOUT_EQUAL:
        return "about as fast as without drafting"
    return f"about {times:.1f} times as fast as without drafting ({_difference(saved_s)})"


def saved_in_words(replies: Sequence[Statistics]) -> str:
    """Returns how much time drafting has saved in a conversation, as an estimate; "" if that is not known or nothing
    worth naming."""
    saved_s = sum(numbers.saved_s or 0.0 for numbers in replies)
    return f"About {duration_words(saved_s)} saved in this chat" if saved_s >= 1 else ""


def chat_in_words(replies: Sequence[Statistics]) -> str:
    """Compares the last of the replies of a conversation with plain decoding, and says what all of them saved; "" where
    neither is known."""
    saved = saved_in_words(replies) if len(replies) > 1 else ""
    return ", ".join(filter(None, [speed_in_words(replies[-1]), f"{saved[:1].lower()}{saved[1:]}"]))


def _difference(saved_s: float) -> str:
    seconds = abs(saved_s)
    return f"{duration_words(seconds) if seconds >= 10 else f'{seconds:.1f} s'} {'sooner' if saved_s > 0 else 'later'}"


def in_words(numbers: Metrics | Statistics, endings: Sequence[str] = ()) -> str:
    """Returns the numbers in one line, with the reason where nothing or little was drafted and nobody asked for that.

    endings: how the reply ended, where that needs a word.
    """
    tokens = ", ".join([count(numbers.tokens, "token"), *endings])
    drafting = "" if numbers.why_plain == PLAIN_DECODING else drafting_in_words(numbers)
    return " · ".join(filter(None, [tokens, *_times(numbers), *_acceptance(numbers), drafting]))


def drafting_in_words(numbers: Metrics | Statistics) -> str:
    """Returns why nothing was drafted, or why nothing was in many of the rounds; "" where most had a draft. The same
    for the terminal, the window, receipts and programs."""
    because = f": {numbers.why_plain}" if numbers.why_plain else ""
    if not numbers.drafted:
        return f"nothing was drafted{because}" if numbers.rounds else ""
    if numbers.plain_rounds < MANY * numbers.rounds:
        return ""
    return f"{numbers.plain_rounds:,} of {count(numbers.rounds, 'round')} without a draft{because}"


def thought_in_words(numbers: Metrics | Statistics | None) -> str:
    """Returns how long the model thought and how many tokens that took, as far as is known."""
    if numbers is None or not numbers.thought_tokens:
        return "Thought"
    return thought_line(numbers.thought_tokens, numbers.thought_s)


def thought_line(tokens: int, seconds: float | None, live: bool = False) -> str:
    """Returns the line above a thought. seconds: how long it took, None if unknown. live: it is being written."""
    took = [] if seconds is None else [duration_words(seconds)]
    numbers = ", ".join([*took, *([f"{tokens:,} {'token' if tokens == 1 else 'tokens'}"] if tokens else [])])
    if live:
        return f"Thinking… {numbers}".rstrip()
    return f"Thought for {numbers}" if took else f"Thought, {numbers}" if numbers else "Thought"


def sampling_in_words(sampling: SamplingSettings) -> str:
    """Returns the sampling settings of a reply that are not neutral, and which of them were the model's own."""
    used = {"temperature": sampling.temperature, **not_neutral(sampling)}
    groups = [
        ({name: value for name, value in used.items() if name not in sampling.from_model}, ""),
        ({name: value for name, value in used.items() if name in sampling.from_model}, " (the model's own)"),
    ]
    parts = [f"{settings_in_words(values)}{whose}" for values, whose in groups if values]
    return ", ".join(filter(None, [*parts, exact_in_words(sampling)]))


def exact_in_words(sampling: SamplingSettings) -> str:
    """Returns how a reply of exact-verify is kept the same to the last bit, "" for any other."""
    if not sampling.exact:
        return ""
    if sampling.identical_width > 1:
        return f"exact, bit-identical by construction up to width {sampling.identical_width}"
    return f"exact, in fixed blocks of {BLOCK_WIDTH} tokens"


def not_neutral(sampling: SamplingSettings) -> dict[str, float]:
    """Returns the settings that change the model's distribution, by name."""
    neutral = SamplingSettings()
    used = {name: getattr(sampling, name) for name in MODEL_DEFAULTS}
    return {name: value for name, value in used.items() if value != getattr(neutral, name)}


def settings_in_words(values: Mapping[str, float]) -> str:
    """Returns sampling settings by name: temperature 0.6, top-p 0.95."""
    return ", ".join(f"{name.replace('_p', '-p').replace('_k', '-k')} {value:g}" for name, value in values.items())


def count(number: int, what: str) -> str:
    """Returns a number with its noun: 1 token, 2,000 tokens."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _times(numbers: Metrics | Statistics) -> list[str]:
    speed, ttft_s = numbers.tokens_per_s, numbers.ttft_s
    parts = [] if speed is None else [f"{speed:.1f} tok/s"]
    return parts if ttft_s is None else [*parts, f"first token after {ttft_s:.2f} s"]


def _acceptance(numbers: Metrics | Statistics) -> list[str]:
    rate, tau = numbers.acceptance_rate, numbers.mean_acceptance_length
    if rate is None or tau is None:
        return []
    drafted = count(numbers.drafted, "drafted token")
    return [f"{numbers.accepted} of {drafted} accepted ({rate:.0%})", f"{tau:.2f} tokens per pass"]
