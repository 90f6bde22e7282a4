"""What drafters have in common that read the target's hidden states.

HeadDrafter         its head has caches of its own, with an entry for every committed token: DFlash
PairDrafter         so has this one's, but an entry is a pair: EAGLE (Li 2024, arXiv 2401.15077) and multi-token
                    prediction heads (DeepSeek-V3, arXiv 2412.19437)
LatestStateDrafter  reads the target's latest state and remembers nothing else: Medusa, MLP speculators, and Gemma 4's
                    assistants

A pair is the target's state at one token together with the token after it. The pair of state i and token i + 1 gives a
hidden state from which token i + 2 is drawn; after a drafted token the head's own hidden state takes the place of the
target's. Every pair of the committed sequence has the target's own state; entries of drafted steps, which build on the
head's own output, are dropped as soon as the draft is made. So after n committed tokens n - 1 pairs are known, and
drafting catches up with one pass over what the last round committed, whose last row is the first drafted step.

A head with a `reach` sees the first SINK entries, on which much of its attention rests (Xiao 2023, arXiv 2309.17453),
and of the others those of its last tokens alone. So of a long prompt it reads no more than it sees. After a rewind to a
place before which entries were left out it goes on with the first SINK and the new ones. Only where a reply must repeat
does the target read again what the head would see.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

import mlx.core as mx

from engine.backend.mlx_lm_imports import KVCache
from engine.cache.snapshot import Snapshot, capture, restore
from engine.drafters import Draft, DraftContext, Drafter, Needs, Traits, empty_draft
from engine.drafters.chain import draw_chain
from engine.rotary_embedding import RotationByLength
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.target.joint_pass import RowsPass
from engine.target.layer_taps import NORMED
from engine.target.target_view import TargetView
from engine.together import run

SINK = 4  # entries, the attention sink
SPARE = 256  # extra entries, so that an edit of the last tokens of a prompt has all that is seen before it


class HeadDrafter(Drafter):
    """Drafts for `target` with a head whose caches, one a layer, are `caches`. rotary: the modules that rotate its
    keys, where the length of a text may change how. head: the network. lag: how many tokens after its own an entry is
    made of. reach: how many tokens back a draft can be influenced from, through all layers together; None: no limit.

    Raises ModelError for a target whose states cannot be read.
    """

    head: Any
    lag = 0
    reach: int | None = None

    def __init__(
        self, target: CachedModel, needs: Needs, traits: Traits, caches: Sequence[KVCache], rotary: Sequence[Any] = ()
    ) -> None:
        self.needs, self.traits = needs, traits
        self.target = TargetView(target, needs.taps)
        self._caches = caches
        self._gap = 0  # entries that were left out after the first SINK
        self._rotation = RotationByLength(rotary)

    def for_another_reply(self, target: CachedModel) -> Self:
        other = self._with_same_weights()
        other.target = TargetView(target, self.needs.taps)
        other._caches, other._rotation = [KVCache() for _ in self._caches], self._rotation.for_another_reply()
        other._gap = 0
        return other

    @abstractmethod
    def extend(self, states: mx.array, following: Sequence[int]) -> mx.array:
        """Adds the entries of the target's states (n, width), each of which the token in `following` follows, and
        returns what the head makes of them, (n, hidden)."""

    @abstractmethod
    def draft(self, context: DraftContext, hidden: mx.array, length: int) -> Draft:
        """Returns at most `length` tokens. hidden: what `extend` returned of the tokens that the draft follows. What it
        adds to the caches is dropped afterwards."""

    def embed(self, tokens: mx.array) -> mx.array:
        """Returns the embedding of ids (n,), (n, hidden): the head's own, if it has one, else the target's."""
        embedded: mx.array = (self.head.embed_tokens if "embed_tokens" in self.head else self.target.embed)(tokens)
        return embedded

    def logits(self, hidden: mx.array) -> mx.array:
        """Returns logits (n, width) of states (n, hidden), by the head's own output matrix if it has one, else by the
        target's."""
        if "lm_head" in self.head:
            return run(RowsPass(self.head.logits, [hidden]))
        logits: mx.array = self.head.logits(hidden, self.target.unembed)
        return logits

    @property
    def entries(self) -> int:
        """How many entries are in the caches; between rounds all are of committed tokens."""
        return int(self._caches[0].offset)

    @property
    def known(self) -> int:
        """How many entries there are, counting those left out."""
        return self.entries + self._gap

    def sync(self, tokens: Sequence[int], cancelled: Callable[[], bool] = lambda: False, following: int = 0) -> None:
        last = len(tokens) - 1 - self.lag  # the last pair is the first step of a draft
        first = last + following - self.reach - SPARE if self.reach is not None else 0
        if first > max(self.known, SINK) and last > SINK:
            self._leave_out(tokens, min(last, first))
        while self.known < last and not cancelled():
            self._read(tokens, min(last, self.known + PREFILL_CHUNK))

    def propose(self, context: DraftContext, length: int) -> Draft:
        """Before a second token there is no state to read, and nothing to propose."""
        tokens = context.tokens
        if len(tokens) < 2 or not self.is_ready(context, len(tokens) - self.known):
            return empty_draft()
        hidden = self._catch_up(tokens, len(tokens) - 1)
        known = self.known
        draft = self.draft(context, hidden, length)
        self._trim(known)
        return draft

    def rewind(self, length: int, repeats: bool = False) -> None:
        end, begin = max(length - self.lag, 0), SINK + self._gap
        known = min(self.known, end)
        needed = end - 1 - (self.reach or 0)  # the first entry that a draft may see, but for the first SINK
        if self._gap and repeats and needed < begin:
            self._begin(max(needed, min(known, SINK)))  # so the target reads again from there
        elif self._gap and known < begin:
            self._begin(known)
        else:
            self._trim(known)

    def reusable(self, length: int) -> int:
        """Entries are made of states, so up to the first token that has none yet."""
        start, end = self.target.recorded
        return min(length, max(self.known, end if start <= self.known else 0))

    def snapshot(self) -> Snapshot:
        return {"caches": capture(self._caches), "gap": self._gap, "is_long": self._rotation.is_long}

    def restore(self, snapshot: Snapshot) -> None:
        restore(self._caches, snapshot["caches"])
        self._gap = snapshot["gap"]
        self._rotation.switch(snapshot["is_long"])

    def _catch_up(self, tokens: Sequence[int], upto: int) -> mx.array:
        """Adds the entries before `upto` that are missing; returns what the head makes of them."""
        first = self.known
        self._rotation.follow(len(tokens), self._caches)
        if first == upto:
            return mx.zeros((0, 1))
        return self.extend(self.target.hidden(self.needs.taps, first, upto), tokens[first + 1 : upto + 1])

    def _read(self, tokens: Sequence[int], upto: int) -> None:
        """Adds the entries before `upto` that are missing, and computes nothing else of them."""
        self._catch_up(tokens, upto)
        mx.eval([(cache.keys, cache.values) for cache in self._caches])

    def _leave_out(self, tokens: Sequence[int], first: int) -> None:
        """Leaves out all entries between the first SINK and the entry `first`, and releases the states before it."""
        if self.known < SINK:
            self._read(tokens, SINK)
        self._begin(first)
        self.target.hidden(self.needs.taps, first, first + 1)  # which releases those before

    def _begin(self, first: int) -> None:
        """Keeps of all entries the first SINK, and goes on with the entry `first`."""
        kept = min(first, SINK)
        self._drop(self.entries - kept)
        self._gap = first - kept

    def _trim(self, known: int) -> None:
        """Drops all entries from the entry `known` on, none of which was left out."""
        self._drop(self.known - known)

    def _drop(self, count: int) -> None:
        """Drops so many entries from the end."""
        for cache in self._caches:
            cache.trim(count)


class PairDrafter(HeadDrafter):
    """Drafts chains with a head that reads pairs."""

    lag = 1

    @abstractmethod
    def fuse(self, states: mx.array) -> mx.array:
        """Returns the hidden states (n, hidden) that pairs begin with, of the target's states (n, width)."""

    @abstractmethod
    def steps(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        """Runs the head over one pair a row, (n, hidden) and (n,), that follow each other after the pairs in the
        cache; returns the next hidden states (n, hidden)."""

    def extend(self, states: mx.array, following: Sequence[int]) -> mx.array:
        return self.steps(self.fuse(states), mx.array(list(following), mx.int32))

    def draft(self, context: DraftContext, hidden: mx.array, length: int) -> Draft:
        state = hidden[-1:]

        def next_logits(token: mx.array) -> mx.array:
            nonlocal state
            state = self.steps(state, token)
            return self.logits(state)

        return draw_chain(context, self.logits(state), next_logits, length, self.needs.token_map)


class LatestStateDrafter(Drafter):
    """Drafts for `target` from its last normed state at the last token that it has seen, whose logits gave the last
    committed token.

    token_map, kv_layers: as in `Needs`. Raises what `TargetView` raises for a target that cannot show these layers.
    """

    def __init__(self, target: CachedModel, token_map: mx.array | None = None, kv_layers: tuple[int, ...] = ()) -> None:
        self.needs = Needs((NORMED,), latest_only=True, kv_layers=kv_layers, token_map=token_map)
        self.target = TargetView(target, self.needs.taps, True, kv_layers)

    def for_another_reply(self, target: CachedModel) -> Self:
        other = self._with_same_weights()
        other.target = TargetView(target, self.needs.taps, True, self.needs.kv_layers)
        return other

    @abstractmethod
    def draft(self, context: DraftContext, state: mx.array, length: int) -> Draft:
        """Returns at most `length` tokens. state: (1, hidden), that gave the last committed token."""

    def propose(self, context: DraftContext, length: int) -> Draft:
        """Before a second token there is no state to read, and nothing to propose."""
        place = len(context.tokens) - 2
        if place < 0:
            return empty_draft()
        return self.draft(context, self.target.hidden(self.needs.taps, place, place + 1), length)

    def reusable(self, length: int) -> int:
        """All, if the last state of it can be read; else the target must see one token again."""
        start, end = self.target.recorded
        return length if start < length <= end else max(length - 1, 0)
