"""Bytes from a file descriptor as lines, never holding more than one line at its longest."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from app.protocol import LONGEST_LINE

_CHUNK_BYTES = 1 << 16
SHOWN = 200  # bytes of a bad line that are told back


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be read, whatever is in it. said: why. start: how it begins."""

    said: str
    start: bytes


def lines_of(fd: int, longest: int = LONGEST_LINE) -> Iterator[bytes | BadLine]:
    """Every line until the end of input, without its end. What is longer than `longest` bytes, or has no end, is a
    BadLine; the rest of a line that is too long is read and thrown away."""
    held = bytearray()
    skipping = False
    while chunk := os.read(fd, _CHUNK_BYTES):
        *ends, rest = chunk.split(b"\n")
        for part in ends:
            if not skipping:
                held += part
                yield _too_long(held) if len(held) > longest else bytes(held)
            held.clear()
            skipping = False
        if not skipping:
            held += rest
        if len(held) > longest:
            yield _too_long(held)
            held.clear()
            skipping = True
    if held:
        yield BadLine("the input ends within this line", bytes(held[:SHOWN]))


def _too_long(line: bytearray) -> BadLine:
    return BadLine(
        f"the line is longer than {LONGEST_LINE} bytes, the most that the protocol allows", bytes(line[:SHOWN])
    )
