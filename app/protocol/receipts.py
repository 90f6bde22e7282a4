"""A reply checked afterwards: decoded plainly again on the loaded target, and held against what was told.

    window -> host   Verify                            Stop of its id ends it
    host -> window   Progress* Checking* (Verified | Failed)

A Verify that was stopped comes to Failed, its kind "Cancelled". So does one whose prompt reads otherwise now than when
the reply was written, or whose model has other weights, its kind "OtherPromptError" or "OtherModelError": nothing could
be learnt from another state.
"""

from __future__ import annotations

from collections.abc import Iterable

from app.protocol.answers import Answer
from app.protocol.requests import Request
from app.protocol.values import Law, Message, Struct
from engine.events import Round
from engine.receipt import Receipt


class Said(Struct, frozen=True, kw_only=True, array_like=True):
    """What one round said, and the pass that it came from: fields of a `Round`."""

    tokens: tuple[int, ...]
    drafted: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None
    path: tuple[int, ...] = ()
    fingerprints: tuple[int, ...] = ()

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> tuple[Said, ...]:
        """All that a check needs of them: a line holds a hundred thousand."""
        names = cls.__struct_fields__
        return tuple(cls(**{name: getattr(round_, name) for name in names}) for round_ in rounds)


class Verify(Request, frozen=True, kw_only=True):
    """Check the reply to `messages` that `rounds` told under `law`, its seed included, on the loaded target; a drafter
    has no part in it. Every part of a reply that was gone on with is in `rounds`.

    whole: it ended by itself, or at the longest that the law or the context allows. prompt: as its Ended said, "" where
    nobody knows; prompt_tokens: how many it had, None likewise.
    """

    messages: tuple[Message, ...]
    law: Law
    rounds: tuple[Said, ...]
    whole: bool = False
    prompt: str = ""
    prompt_tokens: int | None = None


class Checking(Answer, frozen=True, kw_only=True):
    """`done` of `total` tokens of the reply are checked."""

    id: int
    done: int
    total: int


class Verified(Answer, frozen=True, kw_only=True):
    """The reply has been checked. Its differences name their tokens with their texts."""

    id: int
    receipt: Receipt
