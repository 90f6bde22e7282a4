"""Conversations that are not in the caches now, kept so that their next reply need not read them again.

A reply continues the one of which it can reuse the most tokens, whoever asks, as they have no names here; the one in
the caches competes as well (`Session._choose_conversation`). One that only begins alike, as those of two agents with
the same system prompt do, stays kept as well: both share its arrays until these change. They take memory, so there are
limits, and the one that was used longest ago goes first.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import mlx.core as mx

from engine.audit.verify_blocks import VerifyBlocks
from engine.cache.model_cache import reachable
from engine.cache.snapshot import Snapshot, arrays_in
from engine.drafters import Drafter

LEAST_TOKENS = 64  # of a conversation: shorter ones are read again
MOST = 32  # conversations: programs that never ask the same twice would fill the memory


@dataclass(frozen=True)
class KeptConversation:
    """tokens: of which the caches held a prefix. target: what its cache held, over `blocks` in exact-verify. drafter,
    drafted: the `snapshot_key` of the drafter used last, and what it remembered; None for none. next_question: how
    many of the tokens every later prompt of this conversation begins with; one that shares fewer is another
    conversation's."""

    tokens: tuple[int, ...]
    target: Snapshot
    blocks: VerifyBlocks | None = None
    drafter: object = None
    drafted: Snapshot = None
    next_question: int = 0

    @cached_property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return sum(array.nbytes for array in self.arrays())

    def arrays(self) -> list[mx.array]:
        """Returns every array that is kept."""
        return [*arrays_in(self.target), *arrays_in(self.drafted)]


@dataclass(frozen=True)
class Request:
    """A reply that is wanted: to `prompt`, with `drafter`, over `blocks` in exact-verify. repeats: whether its rounds
    must be those that it has in empty caches."""

    prompt: Sequence[int]
    drafter: Drafter | None = None
    blocks: VerifyBlocks | None = None
    repeats: bool = False

    def reusable(self, kept: KeptConversation) -> int:
        """Returns how many tokens of the prompt need not be read again where a conversation is in the caches."""
        if self.drafter is not None and self.drafter.snapshot_key != kept.drafter:
            needs = self.drafter.needs
            if needs.taps and not needs.latest_only:
                return 0  # it learns from every pass of the target
        common = min(common_prefix(kept.tokens, self.prompt), len(self.prompt) - 1)
        if kept.blocks != self.blocks:
            blocks = kept.blocks, self.blocks
            common = 0 if blocks[0] is None or blocks[1] is None else blocks[0].shared(blocks[1], common)
        return reachable(kept.target["cache"], common)

    def goes_on_with(self, kept: KeptConversation) -> bool:
        """Returns whether this is the next question of a conversation, or the last one again."""
        return common_prefix(kept.tokens, self.prompt) >= kept.next_question


class KeptConversations:
    """limit_bytes: of all together; 0 keeps none. There are never more than MOST."""

    def __init__(self, limit_bytes: int = 0) -> None:
        self._limit_bytes = limit_bytes
        self._kept: list[KeptConversation] = []  # the one used last at the end

    @property
    def limit_bytes(self) -> int:
        return self._limit_bytes

    @limit_bytes.setter
    def limit_bytes(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._drop_oldest()

    @property
    def nbytes(self) -> int:
        """The bytes of all that are kept."""
        return sum(kept.nbytes for kept in self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, kept: KeptConversation) -> bool:
        """Keeps a conversation, in place of older ones; returns whether the limit allows that. Waits for the device."""
        if kept.nbytes > self._limit_bytes:
            return False
        mx.eval(kept.arrays())  # a graph would keep all that it is made of
        self._kept.append(kept)
        self._drop_oldest()
        return True

    def has_room(self, nbytes: int) -> bool:
        """Returns whether another conversation of this many bytes can be kept without dropping one."""
        return len(self) < MOST and self.nbytes + nbytes <= self._limit_bytes

    def use(self, request: Request, least: int) -> KeptConversation | None:
        """Returns the conversation of which the most tokens can be reused, the one used last of several; None where
        that is fewer than `least`. It stays kept, as the one used last, unless the request goes on with it: then it is
        the caller's."""
        found = max(reversed(self._kept), key=request.reusable, default=None)
        if found is None or request.reusable(found) < least:
            return None
        self._kept = [kept for kept in self._kept if kept is not found]
        if not request.goes_on_with(found):
            self._kept.append(found)
        return found

    def find(self, tokens: Sequence[int]) -> KeptConversation | None:
        """Returns the conversation of exactly these tokens, without removing it."""
        return next((kept for kept in reversed(self._kept) if kept.tokens == tuple(tokens)), None)

    def forget_drafters(self) -> None:
        """Drops every conversation's drafter, what it remembered and the states that were recorded for it, so that the
        memory is free for another one; what else the target remembers stays."""
        bare = [replace(kept, target={**kept.target, "recorded": None}) for kept in self._kept]
        self._kept = [replace(kept, drafter=None, drafted=None) for kept in bare]

    def clear(self) -> None:
        """Drops everything."""
        self._kept = []

    def _drop_oldest(self) -> None:
        while self._kept and (len(self._kept) > MOST or self.nbytes > self._limit_bytes):
            del self._kept[0]


def common_prefix(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Returns how many leading tokens are the same. Halves what is compared, as comparing slices is what is fast."""
    tokens, others = tuple(tokens), tuple(others)
    same, end = 0, min(len(tokens), len(others))
    while same < end:
        half = (same + end + 1) // 2
        if tokens[same:half] == others[same:half]:
            same = half
        else:
            end = half - 1
    return same
