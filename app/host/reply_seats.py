"""The seats of replies that are written at once: pairs of the same weights, each with caches and a drafter of its own.

A reply gets a seat once there is memory for it, and once no other reply is reading a prompt that begins as its own
does: what that one has read is copied then. All seats but the first last as long as their reply, whose conversation is
kept afterwards, so that nothing takes memory that is not counted.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from app.inference.loaded_pair import LoadedPair
from app.inference.memory_check import fits_beside
from engine.kept_conversations import KeptConversation, common_prefix
from models.drafters.pair_footprint import pair_footprint
from models.memory.memory_verdict import Footprint, FootprintAt

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
        self._short_of_memory: list[object] = []  # who waits for memory, in the order in which they asked first
        self._want_copy: list[tuple[object, Sequence[int]]] = []  # who waits until another has read, with their prompts

    @cached_property
    def _footprint_at(self) -> FootprintAt:
        drafters = [part.folder for part in self.first.drafter.parts if part.folder is not None]
        return pair_footprint(self.first.target.folder, drafters)

    def _memory_at(self, context: int) -> Footprint:
        """Returns the memory of the pair with a context of this length. A reply alone does not ask, as the files of its
        models may be gone."""
        return self._footprint_at(context)

    def why_wait(self, reply: object, prompt: Sequence[int], context: int) -> str:
        """Returns why a `reply` to `prompt`, with at most `context` tokens of both, cannot begin now; "" if it can. One
        that waits asks again, or leaves (`leave`): nobody begins before those that have waited longer for memory."""
        busy = self._busy
        if busy and self.first.is_shared:
            return MACHINES
        if self._reads_for(prompt):
            self._want_copy = [*(one for one in self._want_copy if one[0] is not reply), (reply, prompt)]
            return SAME_PROMPT
        contexts, kept = [seat.context for seat in busy], self.first.session.kept.nbytes
        is_next = not self._short_of_memory or self._short_of_memory[0] is reply
        if is_next and fits_beside(self._memory_at, contexts, context, kept):
            self.leave(reply)
            return ""
        if reply not in self._short_of_memory:
            self._short_of_memory.append(reply)
        return NO_MEMORY

    def leave(self, reply: object) -> None:
        """Notes that a reply waits no more."""
        self._short_of_memory = [other for other in self._short_of_memory if other is not reply]
        self._want_copy = [one for one in self._want_copy if one[0] is not reply]

    def _reads_for(self, prompt: Sequence[int]) -> bool:
        """Returns whether another reply is reading much of this prompt, and little else, and has it copied then."""
        held = 0 if self._seats[0].context else common_prefix(self.first.session.tokens, prompt)
        for seat in self._busy:
            shared = common_prefix(seat.reads, prompt)
            if shared >= held + WORTH_WAITING and shared >= len(seat.reads) / 2:
                seat.is_awaited = True
                return True
        return False

    @contextmanager
    def taken(self, prompt: Sequence[int], context: int) -> Iterator[Seat]:
        """Lends a seat for such a reply: the first if it is free, else one that is made for it."""
        seat, others = self._seats[0], self._busy
        if seat.context:
            seat = Seat(self.first.for_another_reply())
            self._seats.append(seat)
        seat.context, seat.reads = context, prompt
        # It takes over what was kept for all that waited, and may have read its prompt before they ask again.
        seat.is_awaited = any(common_prefix(prompt, other) >= WORTH_WAITING for _, other in self._want_copy)
        seat.pair.keep_conversations(beside=sum(self._memory_at(one.context).cache for one in others))
        try:
            yield seat
        except BaseException:
            self._give_up(seat)
            raise
        if seat is not self._seats[0]:
            seat.pair.clear()
        self._give_up(seat)

    def _give_up(self, seat: Seat) -> None:
        seat.context, seat.reads, seat.is_awaited = 0, (), False
        self._seats = [one for one in self._seats if one is self._seats[0] or one is not seat]

    def conversation(self, tokens: Sequence[int]) -> KeptConversation | None:
        """Returns the conversation of just these tokens, where it is in the caches of a seat or kept."""
        found = (seat.pair.session.conversation(tokens) for seat in self._seats)
        return next((one for one in found if one is not None), None)

    def reset(self) -> None:
        """Empties the caches of the first seat, unless a reply is in it, as a pass may have gone through some layers
        only."""
        if not self._seats[0].context:
            self.first.reset()

    @property
    def _busy(self) -> list[Seat]:
        return [seat for seat in self._seats if seat.context]
