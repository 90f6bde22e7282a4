"""Conversations that are not in the caches now, kept so that their next reply need not read them again.

A reply continues the one that shares the most tokens with its prompt, whoever asks, as they have no names here. One
that only begins alike, as those of two agents with the same system prompt do, stays kept as well: both share its arrays
until these change. They take memory, so there are limits, and the one that was used longest ago goes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import mlx.core as mx

from engine.audit.verify_blocks import VerifyBlocks
from engine.cache.snapshot import Snapshot, arrays_in

LEAST_TOKENS = 64  # fewer are faster to read again than to keep
_OTHER_QUESTION = 8  # tokens: templates take back a few at the end of a prompt, such as <think>
MOST = 32  # conversations: programs that never ask the same twice would fill the memory


@dataclass(frozen=True)
class KeptConversation:
    """tokens: of which the caches held a prefix. target: what its cache held, over `blocks` in exact-verify. drafter,
    drafted: the drafter used last, and what it remembered; None for none. prompt: how many of the tokens were the last
    prompt, all if that is not known."""

    tokens: tuple[int, ...]
    target: Snapshot
    blocks: VerifyBlocks | None = None
    drafter: object = None
    drafted: Snapshot = None
    prompt: int | None = None

    @cached_property
    def nbytes(self) -> int:
        """The bytes of its arrays."""
        return sum(array.nbytes for array in self.arrays())

    def arrays(self) -> list[mx.array]:
        """Returns every array that is kept."""
        return [*arrays_in(self.target), *arrays_in(self.drafted)]


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

    def use(self, prompt: Sequence[int], least: int) -> KeptConversation | None:
        """Returns the conversation that shares the most tokens with `prompt`; None where none shares at least `least`.
        It stays kept, as the one used last, unless `prompt` goes on with it: then it is the caller's."""
        shared = [common_prefix(kept.tokens, prompt) for kept in self._kept]
        most = max(shared, default=0)
        if most < least:
            return None
        found = self._kept.pop(len(shared) - 1 - shared[::-1].index(most))
        if is_another(len(found.tokens), found.prompt, most):
            self._kept.append(found)
        return found

    def find(self, tokens: Sequence[int]) -> KeptConversation | None:
        """Returns the conversation of exactly these tokens, without removing it."""
        return next((kept for kept in reversed(self._kept) if kept.tokens == tuple(tokens)), None)

    def forget_drafters(self) -> None:
        """Drops every conversation's drafter and what it remembered, so that the memory is free for another one; what
        the target remembers stays."""
        self._kept = [replace(kept, drafter=None, drafted=None) for kept in self._kept]

    def clear(self) -> None:
        """Drops everything."""
        self._kept = []

    def _drop_oldest(self) -> None:
        while self._kept and (len(self._kept) > MOST or self.nbytes > self._limit_bytes):
            del self._kept[0]


def is_another(tokens: int, prompt: int | None, shared: int) -> bool:
    """Returns whether a prompt that shares only `shared` tokens with a conversation belongs to another one; else it
    goes on with this one, though without its last reply or thought. tokens, prompt: how many the conversation and its
    last prompt have; None as in KeptConversation."""
    asked = tokens if prompt is None else prompt
    return asked - shared >= _OTHER_QUESTION and tokens - shared >= LEAST_TOKENS


def common_prefix(tokens: Sequence[int], others: Sequence[int]) -> int:
    """Returns how many leading tokens are the same."""
    for i, (token, other) in enumerate(zip(tokens, others, strict=False)):
        if token != other:
            return i
    return min(len(tokens), len(others))
