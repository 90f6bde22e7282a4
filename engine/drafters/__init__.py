"""Whatever proposes tokens: one file a kind, one small protocol.

A drafter is told nothing step by step. Each round it sees the committed tokens and catches up by
itself, so it cannot miss one; after the round it is asked to forget what was not kept. What it
returns may be lazy: the round evaluates draft, verify pass and acceptance together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import mlx.core as mx

from engine.choice import Chooser
from engine.sampling import Context


@dataclass(frozen=True)
class Draft:
    """A chain of k proposed tokens.

    tokens: (k,) int32, may be lazy. logq: the drafter's law as log-probabilities
    (k, vocabulary of the target), or None for a point mass.
    """

    tokens: mx.array
    logq: mx.array | None = None


@dataclass(frozen=True)
class Standing:
    """Where the reply stands when a draft is asked for.

    tokens: all committed ids, prompt included; the last one has not been through the target yet.
    context: the same tokens as the penalties count them.
    chooser: how the target will choose, for drafters that want to choose alike.
    """

    tokens: Sequence[int]
    context: Context
    chooser: Chooser


class Drafter(Protocol):
    """The one protocol. Heads that need the target's hidden states and trees extend `Standing` and
    `Draft` with what they need; the loop passes both through untouched."""

    name: str

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        """A reply to the prompt `tokens` begins: do now what would slow the first `propose` down, unless
        and until it is `cancelled`. Whatever was remembered of other tokens has been rewound."""

    def propose(self, standing: Standing, length: int) -> Draft:
        """At most `length` tokens to follow `standing.tokens`; fewer, or none, is fine."""

    def quiet(self, standing: Standing) -> bool:
        """Whether there has been nothing to propose for a while and there is nothing now. The loop may
        then launch the next plain step before this one's token is known, and asks again after it."""

    def rewind(self, length: int) -> None:
        """Only the first `length` tokens of the sequence are certain: forget whatever came after."""


def nothing() -> Draft:
    """The empty draft: the round becomes one plain step."""
    return Draft(mx.zeros(0, mx.int32))
