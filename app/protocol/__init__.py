"""The protocol between the app and the engine's host process: one JSON object a line, UTF-8, in both directions.

    app -> host    Load  Reply  Stop  Count  Unload  Quit      every request has an `id`, which its answers repeat
    host -> app    Ready                                       once, first
                   Loading* (Loaded | Failed)                  to Load
                   Measuring? PrefillProgress* RoundDone* (ReplyDone | Failed)
                                                               to Reply, with FellBack anywhere among them
                   Counted | Failed                            to Count
                   Unloaded                                    to Unload
                   see race_messages                           to Race
                   see verify_messages                         to Verify
                   Malformed                                   to a line that is none of these

A request that cannot be carried out is answered with Failed. Its kind is the class of an error, or "Cancelled" (stopped
before its turn, or the host is ending), "Busy" (too many requests are waiting) or "NotLoaded".

Both sides decode with `line_codec`, which bounds the length of a line. A side that receives another VERSION in Ready
says so and stops.

Times are seconds on the host's monotonic clock since it began to answer the request: waiting for other requests and
measuring step times are not included. The engine's events travel as they are.
"""

from app.protocol.answers import (
    Answer,
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
from app.protocol.line_codec import (
    LONGEST_LINE,
    AnyAnswer,
    AnyRequest,
    MalformedError,
    decode_answer,
    decode_request,
    encode_line,
)
from app.protocol.race_messages import PairCompared, Race, RaceDone, RaceProgress, RaceReady, RunPart
from app.protocol.requests import Count, Load, Quit, Reply, Request, Stop, Unload
from app.protocol.values import Message, Pair, Speculation, Struct
from app.protocol.verify_messages import RoundTokens, Verify, VerifyDone, VerifyProgress
from engine.settings import AcceptanceRule, SamplingSettings

VERSION = 2

__all__ = [
    "LONGEST_LINE",
    "VERSION",
    "AcceptanceRule",
    "Answer",
    "AnyAnswer",
    "AnyRequest",
    "Count",
    "Counted",
    "Failed",
    "FellBack",
    "Load",
    "Loaded",
    "Loading",
    "Malformed",
    "MalformedError",
    "Measuring",
    "Message",
    "Pair",
    "PairCompared",
    "PrefillProgress",
    "Quit",
    "Race",
    "RaceDone",
    "RaceProgress",
    "RaceReady",
    "Ready",
    "Reply",
    "ReplyDone",
    "Request",
    "RoundDone",
    "RoundTokens",
    "RunPart",
    "SamplingSettings",
    "Speculation",
    "Stop",
    "Struct",
    "Unload",
    "Unloaded",
    "Verify",
    "VerifyDone",
    "VerifyProgress",
    "decode_answer",
    "decode_request",
    "encode_line",
]
