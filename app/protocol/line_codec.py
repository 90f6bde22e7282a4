"""The line codec of the protocol: encodes messages as lines of JSON, reads lines from a stream, and decodes them.

A line is at most LONGEST_LINE bytes, and a message is checked when it is decoded: its type must be known and every
field must have the right type. Fields that are unknown are ignored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from app.protocol import messages, race_messages
from app.protocol.messages import Malformed

LONGEST_LINE = 8 * 1024 * 1024  # bytes
_EXCERPT_BYTES = 200  # of a bad line, in a Malformed

AnyRequest = (
    messages.Load | messages.Reply | messages.Stop | messages.Count | messages.Quit | messages.Verify | messages.Unload
    | race_messages.Race
)  # fmt: skip
AnyAnswer = (
    messages.Ready | messages.Loading | messages.Loaded | messages.Unloaded | messages.Measuring
    | messages.PrefillProgress | messages.RoundDone | messages.FellBack | messages.ReplyDone | messages.Counted
    | messages.Failed | messages.Malformed | messages.VerifyProgress | messages.VerifyDone | race_messages.RaceProgress
    | race_messages.RaceReady | race_messages.RunPart | race_messages.PairCompared | race_messages.RaceDone
)  # fmt: skip

T = TypeVar("T")
_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_answers: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


class MalformedError(ValueError):
    """A line is not a message of this protocol; the text says why."""


def encode_line(message: AnyRequest | AnyAnswer) -> bytes:
    """Returns the message as one line, the line end included."""
    return _encoder.encode(message) + b"\n"


def decode_request(line: bytes) -> AnyRequest:
    """Returns the request in a line. Raises MalformedError."""
    return decode(line, _requests)


def decode_answer(line: bytes) -> AnyAnswer:
    """Returns the answer in a line. Raises MalformedError."""
    return decode(line, _answers)


def decode(line: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    """Returns what `decoder` finds in a line. Raises MalformedError."""
    if len(line) > LONGEST_LINE:
        raise MalformedError(f"the line has {len(line)} bytes, and the protocol allows {LONGEST_LINE}")
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)) from error


def read_lines(fd: int, longest: int = LONGEST_LINE) -> Iterator[bytes | Malformed]:
    """Yields every line of a file descriptor until the end of its input, without the line end.

    In place of a line longer than `longest` bytes, or of one that the input ends within, yields the answer to it. No
    more than one line at its longest is held in memory: the rest of a line that is too long is read and dropped.
    """
    skipping = False
    with os.fdopen(fd, "rb", closefd=False) as stream:
        while piece := stream.readline(longest + 1):
            whole = piece.endswith(b"\n")
            if not skipping:
                yield piece[:-1] if whole else _malformed_piece(piece, longest)
            skipping = not whole


def malformed(reason: str, line: bytes) -> Malformed:
    """Returns the answer to a line that is not a request."""
    return Malformed(reason=reason, line=line[:_EXCERPT_BYTES].decode(errors="replace"))


def _malformed_piece(piece: bytes, longest: int) -> Malformed:
    too_long = f"the line is longer than {longest} bytes, the most that the protocol allows"
    return malformed(too_long if len(piece) > longest else "the input ends within this line", piece)
