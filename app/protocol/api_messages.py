"""What the API, as a process of the window, writes to it: requests of other programs, and that it listens.

api -> window    Listening  Reply  Stop  Count      and nothing else: programs load and unload nothing
window -> api    Loaded with the id 0               whenever other models serve
                 the answers to each request        as a host gives them
"""

from __future__ import annotations

import msgspec

from app.protocol.messages import Count, Reply, Request, Stop


class Listening(Request, frozen=True, kw_only=True):
    """Programs are answered from now on. id: 0. port: of loopback."""

    port: int


def listening_line(port: int) -> bytes:
    """Returns a Listening as one line."""
    return msgspec.json.encode(Listening(id=0, port=port)) + b"\n"


ApiLine = Reply | Count | Stop | Listening
api_lines: msgspec.json.Decoder[ApiLine] = msgspec.json.Decoder(ApiLine)
