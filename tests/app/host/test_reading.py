"""Reading lines from a file descriptor, however they arrive."""

import os
import threading
import tracemalloc

from hypothesis import given, settings
from hypothesis import strategies as st

from app.protocol import Malformed, read_lines


def read(pieces: list[bytes], longest: int) -> list[bytes | Malformed]:
    heard, told = os.pipe()

    def write() -> None:
        for piece in pieces:
            left = memoryview(piece)
            while left:
                left = left[os.write(told, left) :]
        os.close(told)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        return list(read_lines(heard, longest))
    finally:
        writer.join()
        os.close(heard)


@settings(max_examples=40)
@given(st.lists(st.sampled_from([b"", b"a", b"bcd", b"\n", b"\n\n", b"efgh\nij", b"\xff\x00"]), max_size=12))
def test_lines_are_the_same_however_they_arrive(pieces: list[bytes]) -> None:
    text = b"".join(pieces)
    *whole, last = text.split(b"\n")
    for found in (read(pieces, 6), read([text], 6), read([bytes([b]) for b in text], 6)):
        assert len(found) == len(whole) + bool(last)
        for mine, line in zip(found, whole, strict=False):
            assert mine == line if len(line) <= 6 else isinstance(mine, Malformed)
            assert isinstance(mine, bytes) or "longer" in mine.reason
        assert not last or isinstance(found[-1], Malformed)


def test_an_endless_line_takes_no_memory_and_the_next_one_is_read() -> None:
    tracemalloc.start()
    found = read([b"x" * (1 << 20)] * 32 + [b"\nnext\n"], 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [type(line) for line in found] == [Malformed, bytes]
    assert found[1] == b"next"
    assert peak < 4 << 20
