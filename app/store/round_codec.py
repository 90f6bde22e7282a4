"""The rounds of a reply as bytes: compact, written a chunk at a time, joined without being decoded.

A chunk is a list of RoundDone as MessagePack, deflated against PRIMER; what a reply consists of is a list of chunks.
Fields go by name, so that a record may grow; zlib's checksum detects a damaged chunk.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable

import msgspec

from app.protocol import RoundDone
from app.store.database import DamageError

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
# What most chunks contain, so that the small ones of a slow reply compress as well. Part of the format: never edit it.
PRIMER = msgspec.msgpack.encode([{"type": "Told", "id": 1, "round": _ROUND, "drafted_texts": [" the", " and", " of"]}])

_decoder = msgspec.msgpack.Decoder(list[RoundDone])
_list_decoder = msgspec.msgpack.Decoder(list[bytes])


def pack(rounds: list[RoundDone]) -> bytes:
    """Returns one chunk. Raises OverflowError for an integer of more than 64 bits."""
    deflate = zlib.compressobj(6, zdict=PRIMER)
    return deflate.compress(msgspec.msgpack.encode(rounds)) + deflate.flush()


def unpack(chunk: bytes) -> list[RoundDone]:
    """Returns the rounds of a chunk. Raises DamageError."""
    try:
        inflate = zlib.decompressobj(zdict=PRIMER)
        data = inflate.decompress(chunk)
        if not inflate.eof:
            raise DamageError("a chunk of rounds is cut short")
        return _decoder.decode(data)
    except (zlib.error, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamageError(f"a chunk of rounds cannot be read ({error})") from error


def join_chunks(blob: bytes | None, chunks: Iterable[bytes]) -> bytes:
    """Returns one blob: the chunks of the old one, then these. Raises DamageError."""
    return msgspec.msgpack.encode([*split_chunks(blob), *chunks])


def split_chunks(blob: bytes | None) -> list[bytes]:
    """Returns the chunks of a blob, none of None. Raises DamageError."""
    try:
        return _list_decoder.decode(blob) if blob is not None else []
    except msgspec.DecodeError as error:
        raise DamageError(f"the list of rounds cannot be read ({error})") from error


def text_of(rounds: Iterable[RoundDone]) -> str:
    """Returns the text that these rounds completed."""
    return "".join(text for one in rounds for text in one.round.texts)
