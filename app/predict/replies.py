"""The text that predictions are made from: the target's own replies, written plainly once and kept.

It has to be the target's own, drawn from the very law that is asked about: acceptance is a property of the places
that the target gets to, and text by somebody else stands in others. No drafter has part in it, so that one set of
replies serves all of them, and a second prediction writes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from app import calibration
from app.predict.kept import Kept
from engine import backend
from engine.events import Finished, Round
from engine.session import Session
from engine.settings import Settings
from models.load import Loaded
from models.predict.reading import Text


class _Reply(msgspec.Struct, frozen=True):
    """tokens: ids of the reply alone. limit: tokens that it could have had."""

    tokens: tuple[int, ...]
    limit: int


class Replies:
    """Of one target under one law. root: of the cache, None for the user's."""

    def __init__(self, target: Loaded, session: Session, settings: Settings, root: Path | None = None) -> None:
        self._session = session
        self._settings = replace(settings, rule="coupled", stop=())  # plain decoding knows no difference
        found = backend.describe()
        weights = calibration.files_of(target.folder.path)
        facts = (found.device, found.library, found.dtype, weights, repr(self._settings), str(session.context))
        self._kept = Kept(root, ("replies", *facts), _Reply)

    def has(self, prompt: Sequence[int]) -> bool:
        """Whether the reply to `prompt` is there already."""
        return self._of(prompt) is not None

    def text(self, prompt: Sequence[int]) -> Text:
        """The reply to `prompt`, kept or written now. Raises ContextError where the prompt leaves no room."""
        reply = self._of(prompt)
        if reply is None:
            reply = self._write(prompt)
            self._kept.put(_name(prompt), reply)
        return Text((*prompt, *reply.tokens), len(prompt), reply.limit)

    def _of(self, prompt: Sequence[int]) -> _Reply | None:
        """A kept reply, unless it is none that this target could have given."""
        reply, vocabulary = self._kept.get(_name(prompt)), self._session.target.vocabulary
        sound = reply is not None and 0 < len(reply.tokens) <= reply.limit
        return reply if sound and reply and all(0 <= token < vocabulary for token in reply.tokens) else None

    def _write(self, prompt: Sequence[int]) -> _Reply:
        self._session.forget()
        events = list(self._session.continue_tokens(prompt, self._settings))
        assert isinstance(events[-1], Finished)
        tokens = tuple(token for event in events if isinstance(event, Round) for token in event.tokens)
        self._session.forget()
        return _Reply(tokens, min(self._settings.max_tokens, self._session.context - len(prompt)))


def _name(prompt: Sequence[int]) -> str:
    return hashlib.sha256(" ".join(map(str, prompt)).encode()).hexdigest()[:24]
