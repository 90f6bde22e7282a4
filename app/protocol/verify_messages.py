"""The messages of a check: a finished reply is decoded again by the loaded target alone and compared with what was
sent.

    app -> host    Verify                              a Stop with its id ends it
    host -> app    PrefillProgress* VerifyProgress* (VerifyDone | Failed)

A Verify that was stopped is answered with Failed, kind "Cancelled". If the prompt is no longer the one that the reply
answered, or the model has other weights, the kind is "OtherPromptError" or "OtherModelError".
"""

from __future__ import annotations

from collections.abc import Iterable

from app.protocol.answers import Answer
from app.protocol.requests import Request
from app.protocol.values import Message, Struct
from engine.audit.receipt import Receipt
from engine.events import Round
from engine.settings import SamplingSettings


class RoundTokens(Struct, frozen=True, kw_only=True, array_like=True):
    """The tokens of one round and the verify pass that they came from: the fields of a `Round` that a check needs."""

    tokens: tuple[int, ...]
    drafted: tuple[int, ...] = ()
    parents: tuple[int, ...] | None = None
    path: tuple[int, ...] = ()
    fingerprints: tuple[int, ...] = ()

    @classmethod
    def of(cls, rounds: Iterable[Round]) -> tuple[RoundTokens, ...]:
        """Returns the same of each round. One line holds about a hundred thousand rounds."""
        names = cls.__struct_fields__
        return tuple(cls(**{name: getattr(round_, name) for name in names}) for round_ in rounds)


class Verify(Request, frozen=True, kw_only=True):
    """Checks the reply to `messages` that consists of `rounds`, every part of a continued reply included. The drafter
    takes no part.

    sampling: the settings that the reply was sampled with, its seed included. complete: whether it ended by itself or
    at the longest that the settings or the context allow. prompt_digest: as in ReplyDone, "" if unknown. prompt_tokens:
    how many tokens the prompt had, None if unknown.
    """

    messages: tuple[Message, ...]
    sampling: SamplingSettings
    rounds: tuple[RoundTokens, ...]
    complete: bool = False
    prompt_digest: str = ""
    prompt_tokens: int | None = None


class VerifyProgress(Answer, frozen=True, kw_only=True):
    """`done` of `total` tokens of the reply have been checked."""

    id: int
    done: int
    total: int


class VerifyDone(Answer, frozen=True, kw_only=True):
    """The reply has been checked. The differences in the receipt have the texts of their tokens."""

    id: int
    receipt: Receipt
