"""The events of a reply in the app: the engine's, and two of its own. Imports no model code."""

from __future__ import annotations

from dataclasses import dataclass

from engine.events import Event


@dataclass(frozen=True)
class Measuring:
    """The costs of passes are about to be measured, which takes seconds. message: text for the user."""

    message: str


@dataclass(frozen=True)
class FellBack:
    """The drafter failed, and the reply continues by plain decoding. reason: what failed."""

    reason: str


ReplyEvent = Event | Measuring | FellBack
ShownEvent = Event | FellBack  # what a conversation yields; that costs are measured goes to its notice
