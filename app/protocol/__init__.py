"""The protocol between the app and the engine's host process: one JSON object a line, UTF-8, in both directions.

    app -> host    Load  Reply  Stop  Count  Unload  Quit      every request has an `id`, which its answers repeat
    host -> app    Ready                                       once, first
                   Loading* (Loaded | Failed)                  to Load
                   Measuring? PrefillProgress* RoundDone* (ReplyDone | Failed)
                                                               to Reply, with FellBack anywhere among them
                   Counted | Failed                            to Count
                   Unloaded                                    to Unload
                   see race_messages                           to Race
                   PrefillProgress* VerifyProgress* (VerifyDone | Failed)
                                                               to Verify
                   Malformed                                   to a line that is none of these

A request that cannot be carried out is answered with Failed. Its kind is the class of an error, or "Cancelled" (stopped
before its turn, or the host is ending), "Busy" (too many requests are waiting) or "NotLoaded".

Both sides decode with `line_codec`, which bounds the length of a line. A side that receives another VERSION in Ready
says so and stops.

Times are seconds on the host's monotonic clock since it began to answer the request: waiting for other requests and
measuring step times are not included. The engine's events travel as they are.
"""

from app.protocol.line_codec import *  # noqa: F403  the package is its messages and their codec
from app.protocol.messages import *  # noqa: F403  as above
from app.protocol.race_messages import *  # noqa: F403  as above
from engine.settings import AcceptanceRule as AcceptanceRule
from engine.settings import SamplingSettings as SamplingSettings

VERSION = 2
