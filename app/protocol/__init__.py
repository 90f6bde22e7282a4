"""The protocol between the app and the engine's host process: one JSON object a line, UTF-8, in both directions.

    app -> host    Load  Reply  Stop  Count  Unload  Serve  Parallel  Quit
                                                               every request has an `id`, which its answers repeat
    host -> app    Ready                                       once, first
                   Loading* (Loaded | Failed)                  to Load
                   Waiting* PrefillProgress* (RoundDone Called?)* (ReplyDone | Failed)
                                                               to Reply, with FellBack anywhere among them
                   Counted | Failed                            to Count
                   Unloaded                                    to Unload
                   see race_messages                           to Race
                   PrefillProgress* VerifyProgress* (VerifyDone | Failed)
                                                               to Verify
                   Malformed                                   to a line that is none of these
                   Working                                     anywhere, while nothing else is to be answered
                   Serving                                     anywhere, after Serve
                   MemoryShort                                 at most once, anywhere

Replies are written at once, as many as Parallel says, and their answers come mixed; anything else is carried out alone,
in its turn. A request that cannot be carried out is answered with Failed. Its kind is the class of an error, or
"Cancelled" (stopped before its turn, or the host is ending), "Busy" (too many requests are waiting) or "NotLoaded".

A line is at most LONGEST_LINE bytes. A message is checked when it is decoded: its type must be known and every field
must have the right type; unknown fields are ignored. A side that receives another VERSION in Ready says so and stops.

Times are seconds on the host's monotonic clock since it began to answer the request: waiting for other requests is
not included. The engine's events travel as they are.
"""

import os
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from app.protocol import messages, race_messages
from app.protocol.messages import *  # noqa: F403  the package is its messages and their codec
from app.protocol.race_messages import *  # noqa: F403  as above
from engine.settings import AcceptanceRule as AcceptanceRule
from engine.settings import SamplingSettings as SamplingSettings

VERSION = 2
LONGEST_LINE = 8 * 1024 * 1024  # bytes
_EXCERPT_BYTES = 200  # of a bad line, in a Malformed

AnyRequest = (
    messages.Load | messages.Reply | messages.Stop | messages.Count | messages.Quit | messages.Verify | messages.Unload
    | messages.Serve | messages.Parallel | race_messages.Race
)  # fmt: skip
AnyAnswer = (
    messages.Ready | messages.Loading | messages.Loaded | messages.Unloaded | messages.Working | messages.Waiting
    | messages.PrefillProgress | messages.RoundDone | messages.Called | messages.FellBack
    | messages.ReplyDone | messages.Counted | messages.Failed | messages.Malformed | messages.VerifyProgress
    | messages.VerifyDone | messages.MemoryShort | messages.Serving | race_messages.RaceProgress
    | race_messages.RaceReady | race_messages.RunPart | race_messages.PairCompared | race_messages.RaceDone
)  # fmt: skip
LastAnswer = (
    messages.Loaded | messages.Unloaded | messages.ReplyDone | messages.Counted | messages.Failed
    | messages.VerifyDone | race_messages.RaceDone
)  # fmt: skip

T = TypeVar("T")
_encoder = msgspec.json.Encoder()
_requests: msgspec.json.Decoder[AnyRequest] = msgspec.json.Decoder(AnyRequest)
_answers: msgspec.json.Decoder[AnyAnswer] = msgspec.json.Decoder(AnyAnswer)


class MalformedError(ValueError):
    """A line is not a message of this protocol; the text says why."""


def encode_line(message: messages.Request | messages.Answer) -> bytes:
    """Returns the message as one line, the line end included."""
    return _encoder.encode(message) + b"\n"


def encode_request(request: messages.Request) -> bytes | None:
    """Returns the request as one line; None where the protocol does not allow so long a line. A conversation whose
    texts alone are longer is not encoded: it may be many times as long, and a window would stand still meanwhile."""
    if isinstance(request, messages.Reply | messages.Count | messages.Verify):
        texts = (text for message in request.messages for text in (message.content, message.thought))
        if sum(len(text.encode(errors="replace")) for text in texts) > LONGEST_LINE:
            return None
    line = encode_line(request)
    return line if len(line) <= LONGEST_LINE else None


def decode_request(line: bytes) -> AnyRequest:
    """Returns the request in a line. Raises MalformedError."""
    return decode_line(line, _requests)


def decode_answer(line: bytes) -> AnyAnswer:
    """Returns the answer in a line. Raises MalformedError."""
    return decode_line(line, _answers)


def decode_line(line: bytes | str, decoder: msgspec.json.Decoder[T]) -> T:
    """Returns what `decoder` finds in a line. Raises MalformedError."""
    if len(line) > LONGEST_LINE:
        raise MalformedError(f"the line has {len(line)} bytes, and the protocol allows {LONGEST_LINE}")
    try:
        return decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError(str(error)) from error


def read_lines(fd: int, longest: int = LONGEST_LINE) -> Iterator[bytes | messages.Malformed]:
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


def malformed(reason: str, line: bytes) -> messages.Malformed:
    """Returns the answer to a line that is not a request."""
    return messages.Malformed(reason=reason, line=line[:_EXCERPT_BYTES].decode(errors="replace"))


def _malformed_piece(piece: bytes, longest: int) -> messages.Malformed:
    too_long = f"the line is longer than {longest} bytes, the most that the protocol allows"
    return malformed(too_long if len(piece) > longest else "the input ends within this line", piece)
