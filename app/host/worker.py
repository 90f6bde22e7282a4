"""Who answers requests: the engine (`app.host.model_worker`) or a recording (`app.host.recording_player`)."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Protocol

from app.protocol import AnyAnswer, Count, Failed, Load, Pair, Race, Reply, Unload, Verify
from engine.errors import RedlineError


class NotLoaded(RedlineError):
    """There is no model to answer with."""


class Worker(Protocol):
    """Used from one thread, one request at a time. Answers may raise anything: the server reports it to the window."""

    @property
    def pair(self) -> Pair | None:
        """What is loaded."""

    def prepare(self) -> None:
        """Do beforehand what the first request would have to wait for."""

    def load(self, request: Load) -> Iterator[AnyAnswer]:
        """Loading* Loaded"""

    def reply(self, request: Reply, stop: Event) -> Iterator[AnyAnswer]:
        """Measuring? Progress* Told* Ended, with FellBack anywhere among them. Ends soon once `stop` is set."""

    def verify(self, request: Verify, stop: Event) -> Iterator[AnyAnswer]:
        """Progress* Checking* Verified. Ends soon once `stop` is set, with Failed."""

    def race(self, request: Race, stop: Event) -> Iterator[AnyAnswer]:
        """As `app.protocol.race_messages` has it. Ends soon once `stop` is set, with the pairs that are whole."""

    def count(self, request: Count) -> Iterator[AnyAnswer]:
        """Counted"""

    def unload(self, request: Unload) -> Iterator[AnyAnswer]:
        """Unloaded"""

    def recover(self) -> None:
        """Something unexpected was raised while answering: make the state known again. What this raises ends the
        process."""


def failed(number: int, error: BaseException, kept: Pair | None = None) -> Failed:
    """Returns the answer for an error. One that Redline did not raise on purpose is named and called unexpected."""
    message = " ".join(str(error).split())
    if not isinstance(error, RedlineError):
        what = f"{type(error).__name__}: {message}" if message else type(error).__name__
        message = f"something unexpected went wrong in the engine ({what[:300]}): ask again, or load the model again"
    message = message.encode(errors="replace").decode()  # names of files may be no Unicode
    return Failed(id=number, kind=type(error).__name__, message=message, kept_pair=kept)
