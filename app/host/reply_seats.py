"""The seats of replies that are written at once: pairs of the same weights, each with caches and a drafter of its own.

A reply gets a seat once there is memory for it, and once no other reply is reading a prompt that begins as its own
does: what that one has read is copied then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from app.inference.loaded_pair import LoadedPair
from app.inference.memory_check import fits_beside
from engine.kept_conversations import KeptConversation, common_prefix
from models.drafters.pair_footprint import pair_footprint
from models.memory.memory_verdict import FootprintAt

WORTH_WAITING = 256  # tokens that another reply is reading: fewer are read again
NO_MEMORY = "there is not enough memory for another reply now: this one begins when another ends"
SAME_PROMPT = "another reply is reading the same prompt, which need not be read twice"
MACHINES = "a model on several machines writes one reply at a time: this one begins when the other ends"


@dataclass(eq=False)
class Seat:
    """pair: of one reply. context: the most tokens of its prompt and reply together, 0 while it has none. reads: its
    prompt, until that is read. is_awaited: whether another reply waits for that."""

    pair: LoadedPair
    context: int = 0
    reads: Sequence[int] = ()
    is_awaited: bool = False

    def end_reading(self) -> None:
        """Notes that the prompt has been read, before the first round, and keeps a copy for the reply that waits for
        it."""
        if self.is_awaited:
            self.pair.session.keep_copy()
        self.reads, self.is_awaited = (), False


class ReplySeats:
    """The seats of the pair `first` and of more pairs of its weights, which are made when they are needed."""

    def __init__(self, first: LoadedPair) -> None:
        self.first = first
        self._seats = [Seat(first)]

    @cached_property
    def _memory_at(self) -> FootprintAt:
        """The memory of the pair by the length of the context. A reply alone does not ask, as its files may be gone."""
        drafters = [part.folder for part in self.first.drafter.parts if part.folder is not None]
        return pair_footprint(self.first.target.folder, drafters)

    def why_wait(self, prompt: Sequence[int], context: int) -> str:
        """Returns why a reply to `prompt`, with at most `context` tokens of both, cannot begin now; "" if it can."""
        first, busy = self.first, self._busy
        if busy and first.is_shared:
            return MACHINES
        held = max((self._held(seat, prompt) for seat in self._idle), default=0)
        for seat in busy:
            if common_prefix(seat.reads, prompt) >= held + WORTH_WAITING:
                seat.is_awaited = True
                return SAME_PROMPT
        if not busy:
            return ""
        contexts = [seat.context for seat in busy]
        return "" if fits_beside(self._memory_at, contexts, context, first.session.kept.nbytes) else NO_MEMORY

    @contextmanager
    def taken(self, prompt: Sequence[int], context: int) -> Iterator[Seat]:
        """Lends a seat for such a reply: the idle one whose caches share most with the prompt."""
        if not (idle := self._idle):
            idle = [Seat(self.first.for_another_reply())]
            self._seats += idle
        seat = max(idle, key=lambda one: (self._held(one, prompt), -len(one.pair.session.tokens)))
        others, seat.context, seat.reads = self._busy, context, prompt
        seat.pair.keep_conversations(beside=sum(self._memory_at(one.context).cache for one in others))
        try:
            yield seat
        finally:
            seat.context, seat.reads, seat.is_awaited = 0, (), False

    def conversation(self, tokens: Sequence[int]) -> KeptConversation | None:
        """Returns the conversation of just these tokens, where it is in the caches of a seat or kept."""
        found = (seat.pair.session.conversation(tokens) for seat in self._seats)
        return next((one for one in found if one is not None), None)

    def leave_one(self) -> None:
        """Gives up all seats but the first, while no reply is written. Their conversations are kept if there is
        room."""
        for seat in self._seats[1:]:
            seat.pair.clear()
        del self._seats[1:]

    def give_back_memory(self) -> None:
        """Gives back what no reply uses: conversations that are kept, and those of idle seats but the first."""
        for seat in self._idle:
            if seat is not self._seats[0]:
                seat.pair.session.forget()
        self.first.give_back_memory()

    def reset(self) -> None:
        """Empties the caches of all idle seats, as a pass may have gone through some layers only."""
        for seat in self._idle:
            seat.pair.reset()

    @property
    def _busy(self) -> list[Seat]:
        return [seat for seat in self._seats if seat.context]

    @property
    def _idle(self) -> list[Seat]:
        return [seat for seat in self._seats if not seat.context]

    def _held(self, seat: Seat, prompt: Sequence[int]) -> int:
        return common_prefix(seat.pair.session.tokens, prompt)
