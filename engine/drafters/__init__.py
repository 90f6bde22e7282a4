"""Whatever proposes tokens: one file a kind, one small protocol.

A drafter is told nothing step by step. Each round it sees the committed tokens and catches up by
itself, so it cannot miss one; after the round it is asked to forget what was not kept. What it
returns may be lazy: the round evaluates draft, verify pass and acceptance together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from engine.choice import Chooser
from engine.draft import Draft, nothing
from engine.features import Features
from engine.gate import Gate
from engine.sampling import Context


@dataclass(frozen=True)
class Standing:
    """Where the reply stands when a draft is asked for.

    tokens: all committed ids, prompt included; the last one has not been through the target yet.
    context: the same tokens as the penalties count them.
    chooser: how the target will choose, for drafters that want to choose alike.
    gate: asked at each token of a chain whether to go on, by drafters that can say how sure they are.
    member: which of several drafters is wanted, None for whichever has something.
    """

    tokens: Sequence[int]
    context: Context
    chooser: Chooser
    gate: Gate | None = None
    member: int | None = None


class Drafter(Protocol):
    """The one protocol."""

    name: str

    @property
    def features(self) -> Features | None:
        """Where it reads the target's hidden states, None for those that don't. While it drafts, every pass of the
        target is logged there; its rows stay in step with the committed tokens (see `engine.features`)."""

    def prefill(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> None:
        """A reply to a prompt begins, of which the target has seen all `tokens` but the last: do now what would
        slow the first `propose` down, unless and until it is `cancelled`. Called for each chunk of the prompt, with
        more tokens each time. Whatever was remembered of other tokens has been rewound."""

    def propose(self, standing: Standing, length: int) -> Draft:
        """At most `length` tokens to follow `standing.tokens`; fewer, or none, is fine."""

    def hints(self, standing: Standing) -> Sequence[float | None]:
        """What is known before drafting and for free, of each member of several drafters, else of the one: 0 for
        nothing to propose, other numbers for kinds of chances that differ; None for what only drafting can tell."""

    def quiet(self, standing: Standing) -> bool:
        """Whether it is known that there is nothing to propose. The loop may then launch the next plain step before
        this one's token is known, and asks again after it."""

    def rewind(self, length: int) -> None:
        """Only the first `length` tokens of the sequence are certain: forget whatever came after."""

    def reach(self) -> int:
        """Of how many leading tokens nothing more is needed from the target. Only asked of those with features:
        a reply that reuses more of the target's cache than this has the target see the rest again."""


__all__ = ["Draft", "Drafter", "Standing", "nothing"]
