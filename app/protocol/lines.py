"""A line each: written, and checked where it arrives."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from app.protocol.answers import (
    Counted,
    Ended,
    Failed,
    FellBack,
    Loaded,
    Loading,
    Malformed,
    Measuring,
    Progress,
    Ready,
    Told,
    Unloaded,
)
from app.protocol.racing import Compared, LinedUp, Race, Raced, Racing, Ran
from app.protocol.receipts import Checking, Verified, Verify
from app.protocol.requests import Count, Load, Quit, Reply, Stop, Unload

LONGEST_LINE = 8 * 1024 * 1024

Requests = Load | Reply | Stop | Count | Quit | Race | Verify | Unload
Answers = (
    Ready | Loading | Loaded | Measuring | Progress | Told | FellBack | Ended | Counted | Failed | Malformed
    | Racing | LinedUp | Ran | Compared | Raced | Checking | Verified | Unloaded
)  # fmt: skip


class MalformedError(ValueError):
    """A line that is not of this protocol; says why."""


T = TypeVar("T")
_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[Requests] = msgspec.json.Decoder(Requests)
_answers: msgspec.json.Decoder[Answers] = msgspec.json.Decoder(Answers)


def to_line(said: Requests | Answers) -> bytes:
    """One line, its end included."""
    return _encoder.encode(said) + b"\n"


def read_request(line: bytes) -> Requests:
    """Raises MalformedError."""
    return _read(line, _requests)


def read_answer(line: bytes) -> Answers:
    """Raises MalformedError."""
    return _read(line, _answers)


def _read(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    if len(line) > LONGEST_LINE:
        raise MalformedError(f"the line has {len(line)} bytes, the protocol allows {LONGEST_LINE}")
    try:
        read: T = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)) from error
    return read
