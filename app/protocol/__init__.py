"""What the window and the engine's host say to each other: one JSON object a line, UTF-8, in both directions.

    window -> host   Load  Reply  Stop  Count  Unload  Quit            a request carries the `id` its answers repeat
    host -> window   Ready                                             once, first
                     Loading* (Loaded | Failed)                        to Load
                     Measuring? Progress* Told* (Ended | Failed)       to Reply, with FellBack anywhere among them
                     Counted | Failed                                  to Count
                     Unloaded                                          to Unload
                     see app/protocol/racing                           to Race
                     Progress* Checking* (Verified | Failed)           to Verify
                     Malformed                                         to a line that is none of these

A request that cannot be obeyed is answered with Failed. Its kind is the class of an error, or "Cancelled" (stopped, or
the host leaves, before its turn came), "Busy" (too much waits already) or "NotLoaded".

Both sides decode with this module, so a line is checked wherever it arrives: the `type` must be known and every field
of the right type; unknown fields are ignored, so that a newer side may say more. A line longer than LONGEST_LINE bytes
is malformed. A side that hears another VERSION in Ready says so and stops.

Times are seconds since the host began to answer, on its monotonic clock: waiting behind other requests and measuring
are not in them. The engine's records travel as they are.
"""

from app.protocol.answers import (
    Answer,
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
from app.protocol.lines import (
    LONGEST_LINE,
    Answers,
    MalformedError,
    Requests,
    read_answer,
    read_request,
    to_line,
)
from app.protocol.racing import Compared, LinedUp, Race, Raced, Racing, Ran
from app.protocol.receipts import Checking, Said, Verified, Verify
from app.protocol.requests import Count, Load, Quit, Reply, Request, Stop, Unload
from app.protocol.values import Acceptance, Law, Message, Pair, Speculation, Struct

VERSION = 1

__all__ = [
    "LONGEST_LINE",
    "VERSION",
    "Acceptance",
    "Answer",
    "Answers",
    "Checking",
    "Compared",
    "Count",
    "Counted",
    "Ended",
    "Failed",
    "FellBack",
    "Law",
    "LinedUp",
    "Load",
    "Loaded",
    "Loading",
    "Malformed",
    "MalformedError",
    "Measuring",
    "Message",
    "Pair",
    "Progress",
    "Quit",
    "Race",
    "Raced",
    "Racing",
    "Ran",
    "Ready",
    "Reply",
    "Request",
    "Requests",
    "Said",
    "Speculation",
    "Stop",
    "Struct",
    "Told",
    "Unload",
    "Unloaded",
    "Verified",
    "Verify",
    "read_answer",
    "read_request",
    "to_line",
]
