"""What the API, as a process of the window, writes to it: requests of other programs, and that it listens.

    api -> window    Listening  Reply  Stop  Count      and nothing else: programs load and unload nothing
    window -> api    Loaded with the id 0               whenever other models serve
                     the answers to each request        as a host gives them

The window passes the texts of a request on as they are, unread: those of the longest would hold it up. What a Reply
says of files of the window it drops.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from app.protocol.messages import Request, Stop


class Listening(Request, frozen=True, kw_only=True):
    """Programs are answered from now on. id: 0. port: of loopback."""

    port: int


class PassedReply(Request, frozen=True, kw_only=True, tag="Reply"):
    """A Reply to be passed on."""

    messages: Raw
    sampling: Raw
    prompt: Raw = Raw(b"null")
    prediction: Raw = Raw(b'""')
    opening: Raw = Raw(b'""')
    tools: Raw = Raw(b"null")
    target: str = ""


class PassedCount(Request, frozen=True, kw_only=True, tag="Count"):
    """A Count to be passed on."""

    messages: Raw
    sampling: Raw = Raw(b"{}")
    tools: Raw = Raw(b"null")
    target: str = ""


ApiLine = PassedReply | PassedCount | Stop | Listening
api_lines: msgspec.json.Decoder[ApiLine] = msgspec.json.Decoder(ApiLine)
