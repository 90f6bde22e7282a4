"""What a drafter is: `Drafter`, what it states of itself (`Needs`, `Traits`), what it returns (`Draft`).

A round is one draft, one verify pass of the target and one commit. A drafter is not told about each token: whenever it
is to draft, it is given all committed tokens and catches up by itself, so it cannot miss one; after the round it
forgets what was refused. The arrays of a draft may be lazy, which means not computed yet: MLX computes the draft, the
verify pass and the acceptance together, once the round is waited for.

To add a kind of drafter, write a subclass of `Drafter` in a file here, and another file in `models/drafters` that
checks, loads and measures the drafter's files; `models/drafters/__init__.py` lists it. `draft_model.py` is a short
example; `chain.py` draws a chain from logits, and `head_drafter.py` has what drafters share that read the target's
hidden states.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import mlx.core as mx

from engine.cache.snapshot import Snapshot
from engine.errors import ModelError
from engine.sampling import Sampler, TokenCounts
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.tree.draft_tree import DraftTree


@dataclass(frozen=True, eq=False)
class Needs:
    """What a drafter reads of the target, by `engine.target.target_view.TargetView`.

    taps: the layers whose hidden states it reads, numbered as in `engine.target.layer_taps`; every pass of the target
    records them while the drafter serves. latest_only: it never reads older states than those of the latest pass and
    of the one token before it. kv_layers: the layers whose keys and values it reads. token_map: (width,) the target's
    token id for each column of the drafter's logits; None where the columns are all of the target's tokens, or where
    the drafter has no logits.
    """

    taps: tuple[int, ...] = ()
    latest_only: bool = False
    kv_layers: tuple[int, ...] = ()
    token_map: mx.array | None = None


@dataclass(frozen=True)
class Traits:
    """How a drafter drafts.

    branches: whether it drafts trees; else chains. one_pass: whether one pass, or none, yields all tokens of a draft;
    otherwise each is drawn given those before it. longest: tokens of its longest chain, None where there is no limit.
    """

    branches: bool = False
    one_pass: bool = False
    longest: int | None = None

    @property
    def in_steps(self) -> bool:
        """Whether each token of a draft, which is a chain, is drawn given those before it."""
        return not self.branches and not self.one_pass


@dataclass(frozen=True)
class Draft:
    """Proposed tokens: a chain, or a tree that says which token follows which.

    tokens: (n,) int32, may be lazy. logq: (n, vocabulary of the target) log-probabilities of the distribution that
    each token was drawn from; None for a point mass, where each token has the probability 1. In a tree siblings have
    the same row and are drawn without replacement, in order. How many tokens a chain has, or how many children a node,
    must not depend on what is drawn there.
    q: (n,) the drafter's probability of each token, for display; None: taken from `logq`, or 1. reason: why the draft
    has this length; the proposer fills it in. times_s: `time.monotonic` before and after drafting, for a drafter that
    waits for its own tokens.
    """

    tokens: mx.array
    logq: mx.array | None = None
    tree: DraftTree | None = None
    q: mx.array | None = None
    reason: str = ""
    times_s: tuple[float, float] | None = None


_NO_TOKENS = mx.array([], mx.int32)


def empty_draft(reason: str = "") -> Draft:
    """Returns the draft of no tokens, which makes the round one plain step."""
    return Draft(_NO_TOKENS, reason=reason)


def check_probabilities(probs: Sequence[float]) -> None:
    """Raises ModelError if one of a drafter's probabilities is not a number."""
    if any(map(math.isnan, probs)):
        raise ModelError("the drafter's probabilities are not numbers: its files are damaged, download it again")


@dataclass(frozen=True)
class DraftContext:
    """Where the reply stands when a draft is requested.

    tokens: all committed ids, prompt included; the last one has not been through the target yet. counts: the same
    tokens as the penalties count them. sampler: how the target will choose; a drafter that samples chooses with it as
    well. cancelled: whether the reply is to end, for drafters that have much to catch up with.
    """

    tokens: Sequence[int]
    counts: TokenCounts
    sampler: Sampler
    cancelled: Callable[[], bool] = lambda: False


class Drafter(ABC):
    """Whatever proposes tokens for a target. As it stands here, a drafter remembers nothing and reads nothing of the
    target; a kind overrides what it does otherwise.

    name: what users call it. needs: what it reads of the target. traits: how it drafts.
    """

    name: str = "drafter"
    needs: Needs = Needs()
    traits: Traits = Traits()

    def for_another_reply(self, target: CachedModel) -> Drafter:
        """Returns a drafter of the same weights with an empty memory of its own, for replies of `target` that alternate
        with those of this one. A drafter that remembers nothing serves them all."""
        return self

    def _with_same_weights(self) -> Self:
        """Returns a shallow copy, whose memory the caller replaces."""
        other = copy(self)
        other.snapshot_key = self.snapshot_key
        return other

    @cached_property
    def snapshot_key(self) -> object:
        """Equal for drafters of the same weights: each can go on from a snapshot of the other."""
        return object()

    def sync(  # noqa: B027  a default
        self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False, following: int = 0
    ) -> None:
        """Catches up with `tokens`, of which the target has seen all but the last, unless and until `cancelled`.
        following: how many tokens of the prompt come after these.

        Called after each chunk of a prompt, with more tokens each time, so that the first `propose` is not slow.
        Whatever was remembered of other tokens has been rewound before.
        """

    @abstractmethod
    def propose(self, context: DraftContext, length: int) -> Draft:
        """Returns at most `length` >= 1 tokens to follow `context.tokens`; fewer, or none, is fine."""

    def draft_class(self, context: DraftContext) -> float | None:
        """Returns a number that stands for all drafts of one class, such as those after matches of one length: the
        policy learns how often each class is accepted. 0: it is known for free that there is nothing to propose. None:
        all drafts are of one class, and only drafting can tell whether there is one."""
        return None

    def rewind(self, length: int, repeats: bool = False) -> None:  # noqa: B027  a default
        """Forgets everything after the first `length` tokens; those after them were refused, or may be replaced.
        repeats: whether the drafts that follow must be those of a drafter that has read the text from its beginning."""

    def reusable(self, length: int) -> int:
        """Returns for how many of the first `length` tokens it needs nothing more: a drafter of its own reads the rest;
        for one that needs layer taps the target reads the rest again, so that the states are recorded."""
        return length

    def snapshot(self) -> Snapshot:
        """Returns what it remembers of the tokens, to go on from when their conversation is continued."""
        return None

    def restore(self, snapshot: Snapshot) -> None:
        """Remembers what it did when the snapshot was taken, and nothing else."""
        self.rewind(0)

    def is_ready(self, context: DraftContext, missing: int) -> bool:
        """Reads in chunks what it lacks of the tokens, if `missing` are more than one pass may read, as after a long
        stretch of plain steps. Returns False where that was cancelled."""
        if missing > PREFILL_CHUNK:
            self.sync(context.tokens, context.cancelled)
            return not context.cancelled()
        return True
