"""One reply, measured with empty caches, as race and benchmark do. `engine.metrics` compares two of them.

The ideal speed-up is what costs measured in isolation allow the same rounds: tokens x c / sum of (c(width) + draft
cost), which for one draft length k is tau / (c(k + 1) + draft cost) with c, a step in a run of plain ones, as the unit;
for one token less, where its pass can be built while it is drafted.
Comparable with the decode speed-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair
from engine.audit.receipt import Receipt
from engine.events import Event, Finished, Round
from engine.metrics import Metrics
from engine.policy.costs import Costs
from engine.session import Prompt
from engine.settings import SamplingSettings

WARM_UP_TOKENS = 32  # of a shorter reply, draft length auto lends too little for a draft


@dataclass(frozen=True)
class Reply:
    """A whole reply. prompt: its ids. tail: the text that no token completed."""

    prompt: tuple[int, ...]
    rounds: tuple[Round, ...]
    metrics: Metrics
    tail: str = ""

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids, the end-of-sequence token included."""
        return tuple(token for round_ in self.rounds for token in round_.tokens)

    @property
    def answer(self) -> str:
        """The text without what the model thought."""
        return "".join(round_.text_in("answer") for round_ in self.rounds) + self.tail

    @property
    def text(self) -> str:
        return "".join(text for round_ in self.rounds for text in round_.texts) + self.tail

    @classmethod
    def of(cls, prompt: Sequence[int], events: Iterable[Event]) -> Reply:
        """Returns the reply that consists of these events."""
        seen = list(events)
        rounds = tuple(event for event in seen if isinstance(event, Round))
        tail = "".join(event.text for event in seen if isinstance(event, Finished))
        return cls(tuple(prompt), rounds, Metrics.of(seen), tail)


def begin_reply(
    pair: LoadedPair,
    prompt: Sequence[int],
    settings: SamplingSettings,
    cancelled: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Returns the events of a reply with empty caches, so that every reply pays for its prompt. What draft length auto
    needs to know is measured first, if it is not known yet. Raises whatever a drafter raises."""
    policy = pair.policy(settings, len(prompt))
    pair.session.forget()
    drafter = pair_loader.wanted(pair.drafter.drafter, policy)
    return pair.session.continue_tokens(Prompt(prompt), settings, drafter, policy, cancelled)


def measure_reply(pair: LoadedPair, prompt: Sequence[int], settings: SamplingSettings) -> Reply:
    """Returns the whole reply of `begin_reply`."""
    return Reply.of(prompt, begin_reply(pair, prompt, settings))


def warm_up(settings: SamplingSettings) -> SamplingSettings:
    """Returns the settings of a reply that only warms up kernels, pages and clocks."""
    return replace(settings, max_tokens=min(WARM_UP_TOKENS, settings.max_tokens))


def ideal_speedup(costs: Costs, rounds: Sequence[Round]) -> float | None:
    """Returns the speed-up that `costs` allow these rounds, the first left out as in `engine.metrics`; None
    where it is the only one."""
    tokens = sum(len(round_.tokens) for round_ in rounds[1:])
    rounds_s = sum(_round_s(costs, round_) for round_ in rounds[1:])
    return tokens * costs.plain_s / rounds_s if rounds_s else None


def _round_s(costs: Costs, round_: Round) -> float:
    """Returns the time of a round: of a plain one as if it was launched ahead, of one with a single drafted token as if
    its pass was built meanwhile."""
    drafted = len(round_.drafted)
    return costs.round_s(drafted) + costs.pass_s(round_.width) - costs.pass_s(drafted + 1)


_METRICS = (
    "tokens", "prompt_tokens", "ttft_s", "decode_s", "tokens_per_s", "rounds", "waits_per_round", "drafted", "accepted",
    "acceptance_rate", "acceptance_by_position", "mean_acceptance_length",
)  # fmt: skip
_DIFFERENCE = ("position", "gap_ulps", "noise_ulps", "near_tie", "plain_token", "other_token")


def reply_record(reply: Reply) -> dict[str, Any]:
    """Returns what was measured of one reply, for JSON."""
    metrics = {name: getattr(reply.metrics, name) for name in _METRICS}
    ends = {"total_s": reply.metrics.last_s, "finish_reason": reply.metrics.reason}
    return {"token_ids": list(reply.tokens), **metrics, **ends}


def receipt_record(receipt: Receipt | None) -> dict[str, Any]:
    """Returns matches_plain and first_difference, for JSON; nulls where no such promise is made."""
    if receipt is None:
        return {"matches_plain": None, "first_difference": None}
    found = receipt.difference
    difference = found and {name: getattr(found, name) for name in _DIFFERENCE}
    return {"matches_plain": receipt.identical, "first_difference": difference}
