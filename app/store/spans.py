"""The rounds of a reply as bytes: compact, written a chunk at a time, joined without being decoded.

A chunk is a list of Told as MessagePack, deflated against PRIMER; what a reply consists of is a list of chunks.
Fields go by name, so that a record may grow; zlib's checksum tells a damaged chunk.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec

from app.protocol import Told
from app.store.errors import DamagedError

_ROUND = {
    "index": 12,
    "tokens": [284, 253, 3],
    "drafted": [284, 253, 17],
    "accepted": 2,
    "p": [0.5, 0.25, 1.0],
    "q": [1.0, 1.0, 1.0],
    "width": 4,
    "time_s": 1.0,
    "reason": "",
    "texts": [" the", " and", "."],
    "parents": None,
    "path": [],
    "draft_s": None,
    "verify_s": None,
}
# What most chunks contain, so that the small ones of a slow reply deflate too. Part of the format: never edit it.
PRIMER = msgspec.msgpack.encode([{"type": "Told", "id": 1, "round": _ROUND, "drafted_texts": [" the", " and", " of"]}])

_decoder = msgspec.msgpack.Decoder(list[Told])
_list_decoder = msgspec.msgpack.Decoder(list[bytes])


def pack(told: list[Told]) -> bytes:
    """One chunk. Raises OverflowError: an integer of more than 64 bits."""
    deflate = zlib.compressobj(6, zdict=PRIMER)
    return deflate.compress(msgspec.msgpack.encode(told)) + deflate.flush()


def unpack(chunk: bytes) -> list[Told]:
    """Raises DamagedError."""
    try:
        inflate = zlib.decompressobj(zdict=PRIMER)
        data = inflate.decompress(chunk)
        if not inflate.eof:
            raise DamagedError("a chunk of rounds is cut short")
        return _decoder.decode(data)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamagedError(f"a chunk of rounds cannot be read ({error})") from error


def join(joined: bytes | None, chunks: Iterable[bytes]) -> bytes:
    """Chunks as one, behind those `joined` before. Raises DamagedError."""
    return msgspec.msgpack.encode([*split(joined), *chunks])


def split(joined: bytes | None) -> list[bytes]:
    """The chunks again. Raises DamagedError."""
    try:
        return _list_decoder.decode(joined) if joined is not None else []
    except msgspec.DecodeError as error:
        raise DamagedError(f"the list of rounds cannot be read ({error})") from error


def text_of(told: Iterable[Told]) -> str:
    """What these rounds said."""
    return "".join(text for one in told for text in one.round.texts)
