"""One reply, measured from nothing, and how two of them compare: what race and benchmark share.

Speed-ups
---------
decode   plain seconds a token / other seconds a token, from the first pass's tokens to the last: the prompt is in
         neither, and the tokens of the first pass aren't counted as if they had taken no time
total    the same from request to last token, prompt included: what someone waiting sees
ideal    what pass costs measured in isolation allow the same rounds: tokens x c(1) / sum of (c(width) + draft cost),
         which for one draft length k is tau / (c(k + 1) + draft cost) with c(1) as the unit. Comparable with `decode`
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app import pair
from engine.costs import Costs
from engine.drafters import Drafter
from engine.events import Event, Finished, Round
from engine.metrics import Metrics
from engine.policy import Policy
from engine.receipt import Receipt
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded

WARM_UP_TOKENS = 8


@dataclass(frozen=True)
class Reply:
    """A whole reply. prompt: its ids. tail: the text that no token completed."""

    prompt: tuple[int, ...]
    rounds: tuple[Round, ...]
    metrics: Metrics
    tail: str = ""

    @property
    def tokens(self) -> tuple[int, ...]:
        """Ids, the end-of-sequence token included."""
        return tuple(token for round_ in self.rounds for token in round_.tokens)

    @property
    def text(self) -> str:
        return "".join(text for round_ in self.rounds for text in round_.texts) + self.tail

    @classmethod
    def of(cls, prompt: Sequence[int], events: Iterable[Event]) -> Reply:
        told = list(events)
        rounds = tuple(event for event in told if isinstance(event, Round))
        tail = "".join(event.text for event in told if isinstance(event, Finished))
        return cls(tuple(prompt), rounds, Metrics.of(told), tail)


def measure_reply(
    session: Session, prompt: Sequence[int], settings: Settings, drafter: Drafter | None, policy: Policy
) -> Reply:
    """Answer `prompt` with nothing remembered by target or drafter, so that every reply pays for its prompt."""
    session.forget()
    return Reply.of(prompt, session.continue_tokens(prompt, settings, drafter, policy))


def policy_maker(target: Loaded, drafter: pair.NamedDrafter, length: int | None) -> Callable[[], Policy]:
    """Makes a policy for each reply. Costs, for auto (None), are measured once, which empties both caches."""
    measured = pair.measure_costs(target, drafter) if drafter.drafter is not None and length is None else None
    return lambda: pair.make_policy(drafter, length, measured)


def warm_up(settings: Settings) -> Settings:
    """Settings of a reply that is only there to warm up: kernels, pages, clocks."""
    return replace(settings, max_tokens=min(WARM_UP_TOKENS, settings.max_tokens))


def decode_speedup(plain: Metrics, other: Metrics) -> float | None:
    """Without the prompt; None where a reply had but one pass."""
    if not plain.pass_speed or not other.pass_speed:
        return None
    return other.pass_speed / plain.pass_speed


def total_speedup(plain: Metrics, other: Metrics) -> float | None:
    """With the prompt; None where a reply is empty."""
    if not plain.last_s or not other.last_s:
        return None
    return (plain.last_s / plain.tokens) / (other.last_s / other.tokens)


def ideal_speedup(costs: Costs, rounds: Sequence[Round]) -> float | None:
    """What `costs` allow these rounds, the first left out as in `decode_speedup`; None where it is the only one."""
    tokens = sum(len(round_.tokens) for round_ in rounds[1:])
    passes_s = sum(costs.pass_s(round_.width) + costs.draft_s(len(round_.drafted)) for round_ in rounds[1:])
    return tokens * costs.pass_s(1) / passes_s if passes_s else None


def median(values: Iterable[float | None]) -> float | None:
    """Of the values that there are; None when there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def reply_record(reply: Reply) -> dict[str, Any]:
    """What was measured of one reply, JSON-ready."""
    metrics = reply.metrics
    return {
        "token_ids": list(reply.tokens),
        "tokens": metrics.tokens,
        "prompt_tokens": metrics.prompt_tokens,
        "ttft_s": metrics.ttft_s,
        "decode_s": metrics.decode_s,
        "total_s": metrics.last_s,
        "tokens_per_s": metrics.tokens_per_s,
        "rounds": metrics.rounds,
        "drafted": metrics.drafted,
        "accepted": metrics.accepted,
        "acceptance_rate": metrics.acceptance_rate,
        "acceptance_by_position": metrics.acceptance_by_position,
        "mean_acceptance_length": metrics.mean_acceptance_length,
        "finish_reason": metrics.reason,
    }


def receipt_record(receipt: Receipt | None) -> dict[str, Any]:
    """matches_plain and first_difference, JSON-ready; nulls where no such promise is made."""
    if receipt is None:
        return {"matches_plain": None, "first_difference": None}
    found = receipt.difference
    difference = found and {
        "position": found.position,
        "gap_ulps": found.gap_ulps,
        "noise_ulps": found.noise_ulps,
        "near_tie": found.near_tie,
        "plain_token": found.plain_token,
        "other_token": found.other_token,
    }
    return {"matches_plain": receipt.identical, "first_difference": difference}
