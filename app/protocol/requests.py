"""The requests that the app sends to the host."""

from __future__ import annotations

from app.protocol.values import Message, Pair, Struct
from engine.settings import SamplingSettings


class Request(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """The base of all requests. id: chosen by the app; every answer to the request repeats it."""

    id: int


class Load(Request, frozen=True, kw_only=True):
    """Loads this pair in place of the one that is loaded. Loading the pair that is already loaded is quick."""

    pair: Pair


class Reply(Request, frozen=True, kw_only=True):
    """Answers `messages`, the last of which is the user's.

    continuation_ids: the tokens of the reply so far, to continue a reply that was interrupted. Their text is not sent
    again, `max_tokens` counts the new tokens only, and a greedy or coupled reply continues as if it had never been
    interrupted. timed: measure drafting and verification separately, which costs one more synchronisation a round.
    """

    messages: tuple[Message, ...]
    sampling: SamplingSettings
    continuation_ids: tuple[int, ...] = ()
    timed: bool = False


class Stop(Request, frozen=True, kw_only=True):
    """Ends the request with this id at its next round or chunk of the prompt; a reply then ends with ReplyDone, its
    reason "cancelled". A request that is still waiting is answered with Failed, kind "Cancelled". An unknown id, or
    one that is finished, is ignored."""


class Count(Request, frozen=True, kw_only=True):
    """Counts the tokens of the context that `messages` take, the chat template included."""

    messages: tuple[Message, ...]


class Unload(Request, frozen=True, kw_only=True):
    """Unloads the pair to free its memory; the answer is Unloaded."""


class Quit(Request, frozen=True, kw_only=True):
    """Stops the current request and ends the host."""
