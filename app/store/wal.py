"""Did SQLite lose commits of its write-ahead log? It stops at the first damaged frame without a word; here it is said.

File format: sqlite.org/fileformat2.html#the_write_ahead_log. A header of 32 bytes, then frames of 24 bytes and a page;
a frame whose salts are the header's belongs to this log, and one with a size in its second word ends a commit.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

_HEADER = struct.Struct(">8I")
_FRAME = struct.Struct(">4I")
_FRAME_BYTES = 24
_MAGICS = {0x377F0682: "<6I", 0x377F0683: ">6I"}


class Log(NamedTuple):
    """commit: number of the last frame that ends a commit, from 1; 0 without any. whole: whether the header is."""

    commit: int
    whole: bool


NO_LOG = Log(0, True)


def log_of(path: Path) -> Path:
    """The log beside a database."""
    return path.with_name(path.name + "-wal")


def read_log(path: Path) -> Log:
    """Of the database at `path`, before anything opens it. Frames are told by their salts, not checked."""
    try:
        with log_of(path).open("rb") as file:
            head = file.read(_HEADER.size)
            if len(head) < _HEADER.size:
                return Log(0, not head)
            _, _, page_bytes, _, *salts = _HEADER.unpack(head)[:6]
            if not _is_whole(head):
                return Log(0, False)
            frames = (log_of(path).stat().st_size - _HEADER.size) // (_FRAME_BYTES + page_bytes)
            commit = 0
            for number in range(1, frames + 1):
                _, size, *frame_salts = _FRAME.unpack(file.read(_FRAME.size))
                if size and frame_salts == salts:
                    commit = number
                file.seek(_FRAME_BYTES - _FRAME.size + page_bytes, 1)
            return Log(commit, True)
    except OSError:
        return NO_LOG


def _is_whole(head: bytes) -> bool:
    """Whether the header's checksum is right: two sums that feed each other, over words in the order of its magic."""
    magic, *_, first, second = _HEADER.unpack(head)
    if magic not in _MAGICS:
        return False
    a = b = 0
    words = struct.unpack(_MAGICS[magic], head[:24])
    for even, odd in zip(words[::2], words[1::2], strict=True):
        a = (a + even + b) & 0xFFFFFFFF
        b = (b + odd + a) & 0xFFFFFFFF
    return (a, b) == (first, second)
