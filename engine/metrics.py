"""Statistics of a reply: a fold over its events that keeps counts and seconds and derives rates.

The definitions are those of Leviathan 2023 and the glossary in the README; every place that shows such a number takes
it from here, so they agree.

A speed-up compares two replies to one prompt:

decode   plain seconds a token / other seconds a token, from the first pass's tokens to the last: the prompt is in
         neither, and the tokens of the first pass aren't counted as if they had taken no time
total    the same from request to last token, prompt included: what someone waiting sees
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.events import Event, Finished, PromptProgress, Round


@dataclass
class Metrics:
    """Counts of tokens and rounds, times in seconds. Rates are None as long as they are undefined. plain_reasons: how
    many rounds had no draft, by the reason."""

    prompt_tokens: int = 0
    reused_tokens: int = 0
    tokens: int = 0
    rounds: int = 0
    waits: int = 0
    drafted: int = 0
    accepted: int = 0
    first_tokens: int = 0
    first_s: float | None = None
    last_s: float | None = None
    reached: list[int] = field(default_factory=list)
    kept: list[int] = field(default_factory=list)
    reason: str | None = None
    thought_tokens: int = 0
    thought_s: float | None = None  # from the first token to the last one of thought
    plain_reasons: Counter[str] = field(default_factory=Counter)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Metrics:
        """Returns the metrics of a whole reply."""
        metrics = cls()
        for event in events:
            metrics.add(event)
        return metrics

    def add(self, event: Event) -> None:
        """Counts one event."""
        if isinstance(event, PromptProgress):
            self.prompt_tokens, self.reused_tokens = event.total, event.reused
        elif isinstance(event, Round):
            self._add_round(event)
        elif isinstance(event, Finished):
            self.reason = event.reason

    def _add_round(self, r: Round) -> None:
        self.tokens += len(r.tokens)
        self.rounds += 1
        self.waits += r.waits
        self.drafted += len(r.drafted)
        self.accepted += r.accepted
        if self.first_s is None:
            self.first_s, self.first_tokens = r.time_s, len(r.tokens)
        self.last_s = r.time_s
        if not r.drafted:
            self.plain_reasons[r.reason] += 1
        if thought := r.channels.count("thought"):
            self.thought_tokens += thought
            self.thought_s = r.time_s - self.first_s
        places = len(r.drafted) if r.parents is None else r.depth
        while len(self.reached) < places:
            self.reached.append(0)
            self.kept.append(0)
        for i in range(min(len(r.tokens), places)):
            self.reached[i] += 1
            self.kept[i] += i < r.accepted

    @property
    def plain_rounds(self) -> int:
        """How many rounds had no draft."""
        return self.plain_reasons.total()

    @property
    def why_plain(self) -> str:
        """Why rounds had no draft: the reason of most of them, "" where all had one or it is not known."""
        return self.plain_reasons.most_common(1)[0][0] if self.plain_reasons else ""

    @property
    def ttft_s(self) -> float | None:
        """Seconds from the request to the first token."""
        return self.first_s

    @property
    def decode_s(self) -> float | None:
        """Seconds from the first token to the last."""
        return None if self.first_s is None or self.last_s is None else self.last_s - self.first_s

    @property
    def tokens_per_s(self) -> float | None:
        """Decode speed: (n - 1) / (time of last token - time of first)."""
        return (self.tokens - 1) / self.decode_s if self.decode_s else None

    @property
    def pass_speed(self) -> float | None:
        """Tokens a second after the first pass, whose tokens are not counted: what speed-ups compare.
        Decode speed counts all but one of them, which overstates short replies in long rounds."""
        return (self.tokens - self.first_tokens) / self.decode_s if self.decode_s else None

    @property
    def acceptance_rate(self) -> float | None:
        """accepted / drafted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def mean_acceptance_length(self) -> float | None:
        """tau: tokens emitted / verify passes; the bonus or correction counts."""
        return self.tokens / self.rounds if self.rounds else None

    @property
    def waits_per_round(self) -> float | None:
        """How often a round waited for the device."""
        return self.waits / self.rounds if self.rounds else None

    @property
    def acceptance_by_position(self) -> list[float]:
        """Share of drafted tokens kept at each draft position, of the rounds that got that far."""
        return [k / n if n else 0.0 for k, n in zip(self.kept, self.reached, strict=True)]


def decode_speedup(plain: Metrics, other: Metrics) -> float | None:
    """Returns the speed-up without the prompt; None where a reply had only one pass."""
    if not plain.pass_speed or not other.pass_speed:
        return None
    return other.pass_speed / plain.pass_speed


def total_speedup(plain: Metrics, other: Metrics) -> float | None:
    """Returns the speed-up with the prompt; None where a reply is empty."""
    if not plain.last_s or not other.last_s:
        return None
    return (plain.last_s / plain.tokens) / (other.last_s / other.tokens)


def median(values: Iterable[float | None]) -> float | None:
    """Returns the median of the values that are known; None where there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
