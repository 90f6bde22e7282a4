"""The events of a reply in the app: the engine's, and one of its own. Imports no model code."""

from dataclasses import dataclass

from engine.events import Event


@dataclass(frozen=True)
class FellBack:
    """The drafter failed, and the reply continues by plain decoding. reason: what failed."""

    reason: str


ReplyEvent = Event | FellBack
