"""The plain values that requests and answers carry."""

from __future__ import annotations

from typing import Literal

import msgspec

Speculation = Literal["on", "off", "unsupported"]


class Struct(msgspec.Struct, frozen=True, kw_only=True):  # kw_only: a new field may come anywhere
    """A frozen record of plain values."""


class Pair(Struct, frozen=True, kw_only=True):
    """The models to load.

    target: "builtin" or a model folder. drafter: as on the command line: auto, none, lookup, the name of a shipped
    drafter or a folder. tree: whether a drafter that can draft trees does so. context: tokens of prompt and reply, None
    for what the model declares.
    """

    target: str = "builtin"
    drafter: str = "auto"
    tree: bool = False
    context: int | None = None


class Message(Struct, frozen=True, kw_only=True):
    """One turn of a conversation, as the model's chat template sees it."""

    role: Literal["system", "user", "assistant"]
    content: str
