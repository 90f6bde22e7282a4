"""What the window asks the host."""

from __future__ import annotations

from app.protocol.values import Law, Message, Pair, Struct


class Request(Struct, frozen=True, kw_only=True, tag=True, tag_field="type"):
    """id: chosen by the window, repeated by every answer."""

    id: int


class Load(Request, frozen=True, kw_only=True):
    """Have this pair ready; what was loaded before goes first. Loading what is loaded already is quick."""

    pair: Pair


class Reply(Request, frozen=True, kw_only=True):
    """Answer `messages`, whose last is the user's. said: ids of the reply so far, to go on from: their text is not told
    again, max_tokens is of what is new, and greedy or coupled text is what it would have been without the break.
    timed: measure draft and verify apart, which costs one more synchronisation a round."""

    messages: tuple[Message, ...]
    law: Law
    said: tuple[int, ...] = ()
    timed: bool = False


class Stop(Request, frozen=True, kw_only=True):
    """End the Reply of this id at its next round or chunk of the prompt: it comes to Ended, its reason "cancelled". A
    request that still waits comes to Failed, its kind "Cancelled"; one that is over, or unknown, is nothing."""


class Count(Request, frozen=True, kw_only=True):
    """How many tokens of the context `messages` take, chat template included."""

    messages: tuple[Message, ...]


class Unload(Request, frozen=True, kw_only=True):
    """Let go of what is loaded, for its memory; comes to Unloaded. The next Load brings it back."""


class Quit(Request, frozen=True, kw_only=True):
    """Stop what goes on, and leave."""
