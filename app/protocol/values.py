"""Plain values that requests and answers carry."""

from __future__ import annotations

from typing import Literal

import msgspec

Speculation = Literal["on", "off", "unsupported"]
Acceptance = Literal["rejection", "coupled"]


class Struct(msgspec.Struct, frozen=True, kw_only=True):  # kw_only: a new field may come anywhere
    """Of plain values, frozen."""


class Pair(Struct, frozen=True, kw_only=True):
    """What to load. target: "builtin" or a model folder. drafter: as on the command line: auto, none, lookup, a
    shipped name or a folder. tree: whether a drafter that can branch does. context: tokens, None for what the model
    declares."""

    target: str = "builtin"
    drafter: str = "auto"
    tree: bool = False
    context: int | None = None


class Law(Struct, frozen=True, kw_only=True):
    """How a reply is drawn. draft_length: tokens (nodes of a tree) a round, None for auto, 0 for plain decoding.
    exact: the same arithmetic for every token whatever is drafted; not with trees.
    seed: None lets the host draw one. fresh: whether this one was drawn for this reply alone; then, and where the host
    draws it, draft length auto goes by the clock above temperature 0, and only a coupled reply repeats with its
    seed."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    fresh: bool = False
    acceptance: Acceptance = "rejection"
    draft_length: int | None = None
    exact: bool = False
    max_tokens: int = 2048
    stop: tuple[str, ...] = ()


class Message(Struct, frozen=True, kw_only=True):
    """One turn, as the model's chat template sees it."""

    role: Literal["system", "user", "assistant"]
    content: str
