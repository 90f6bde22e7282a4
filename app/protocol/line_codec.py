"""The line codec of the protocol: encodes messages as lines of JSON, reads lines from a stream, and decodes them.

A line is at most LONGEST_LINE bytes, and a message is checked when it is decoded: its type must be known and every
field must have the right type. Fields that are unknown are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from app.protocol.answers import (
    Counted,
    Failed,
    FellBack,
    Loaded,
    Loading,
    Malformed,
    Measuring,
    PrefillProgress,
    Ready,
    ReplyDone,
    RoundDone,
    Unloaded,
)
from app.protocol.race_messages import PairCompared, Race, RaceDone, RaceProgress, RaceReady, RunPart
from app.protocol.requests import Count, Load, Quit, Reply, Stop, Unload
from app.protocol.verify_messages import Verify, VerifyDone, VerifyProgress

LONGEST_LINE = 8 * 1024 * 1024  # bytes
EXCERPT = 200  # bytes of a bad line that are reported
_CHUNK_BYTES = 1 << 16

AnyRequest = Load | Reply | Stop | Count | Quit | Race | Verify | Unload
AnyAnswer = (
    Ready | Loading | Loaded | Unloaded | Measuring | PrefillProgress | RoundDone | FellBack | ReplyDone | Counted
    | Failed | Malformed | RaceProgress | RaceReady | RunPart | PairCompared | RaceDone | VerifyProgress | VerifyDone
)  # fmt: skip

T = TypeVar("T")
_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_answers: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


class MalformedError(ValueError):
    """A line is not a message of this protocol; the text says why."""


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be read, whatever it says. reason: why. start: how the line begins."""

    reason: str
    start: bytes


def encode_line(message: AnyRequest | AnyAnswer) -> bytes:
    """Returns the message as one line, the line end included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    """Returns the request in a line. Raises MalformedError."""
    return _decode(line, _requests)


def decode_answer(line: bytes) -> AnyAnswer:
    """Returns the answer in a line. Raises MalformedError."""
    return _decode(line, _answers)


def _decode(line: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    if len(line) > LONGEST_LINE:
        raise MalformedError(f"the line has {len(line)} bytes, and the protocol allows {LONGEST_LINE}")
    try:
        message: T = decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)) from error
    return message


def read_lines(fd: int, longest: int = LONGEST_LINE) -> Iterator[bytes | BadLine]:
    """Yields every line of a file descriptor until the end of its input, without the line end.

    A line longer than `longest` bytes, or one that the input ends within, is a BadLine. Never more than one line at its
    longest is held in memory: the rest of a line that is too long is read and dropped.
    """
    held = bytearray()
    skipping = False
    while chunk := os.read(fd, _CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for part in ends:
            if not skipping:
                held += part
                yield _too_long(held) if len(held) > longest else bytes(held)
            held.clear()
            skipping = False
        if not skipping:
            held += rest
        if len(held) > longest:
            yield _too_long(held)
            held.clear()
            skipping = True
    if held:
        yield BadLine("the input ends within this line", bytes(held[:EXCERPT]))


def _too_long(line: bytearray) -> BadLine:
    reason = f"the line is longer than {LONGEST_LINE} bytes, the most that the protocol allows"
    return BadLine(reason, bytes(line[:EXCERPT]))
