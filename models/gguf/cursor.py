"""A cursor over the bytes of a GGUF file that cannot step outside them.

It reads, and maps nothing: a file that another program cuts while it is mapped kills the process that looks at it.
"""

import struct
from pathlib import Path
from typing import BinaryIO

from engine.errors import ModelError
from models.gguf.tensor_types import ARRAY, BOOL, NUMBER_FORMATS, STRING

Value = int | float | bool | str | tuple["Value", ...]

# Far above any real file; they keep a hostile one of many gigabytes from filling the memory with Python objects.
MAX_ITEMS = 1 << 22
LARGEST_HEADER_BYTES = 1 << 26
_LONGEST_STRING_BYTES = 1 << 24
_DEEPEST_ARRAY = 4
_SMALLEST_STRING_BYTES = 8
_SMALLEST_ARRAY_BYTES = 4 + 8


class Cursor:
    """Reads little-endian values in order. Every method raises ModelError rather than pass the end of the file.

    path: for messages. file: at its beginning, of `size_bytes`.
    """

    def __init__(self, path: Path, file: BinaryIO, size_bytes: int) -> None:
        self.path = path
        self.position = 0
        self.size_bytes = size_bytes
        self._file = file

    @property
    def left_bytes(self) -> int:
        return self.size_bytes - self.position

    def damaged(self, what: str) -> ModelError:
        """The error to raise for `what` is wrong with the file."""
        return ModelError(f"{self.path}: {what}; the file is damaged, download it again")

    def take(self, count_bytes: int, what: str) -> bytes:
        if count_bytes > self.left_bytes:
            raise self.damaged(f"cut short in {what}, {count_bytes} bytes wanted and {self.left_bytes} left")
        if self.position + count_bytes > LARGEST_HEADER_BYTES:
            raise self.damaged(f"its metadata go on past {LARGEST_HEADER_BYTES >> 20} MiB, more than any model has")
        raw = self._file.read(count_bytes)
        if len(raw) != count_bytes:
            raise self.damaged(f"cut short in {what} while it was read")
        self.position += count_bytes
        return raw

    def u32(self, what: str) -> int:
        return int.from_bytes(self.take(4, what), "little")

    def u64(self, what: str) -> int:
        return int.from_bytes(self.take(8, what), "little")

    def text(self, what: str) -> str:
        length_bytes = self.u64(what)
        if length_bytes > _LONGEST_STRING_BYTES:
            raise self.damaged(f"{what} claims {length_bytes} bytes, too many for a text")
        raw = self.take(length_bytes, what)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise self.damaged(f"{what} is not UTF-8") from error

    def value(self, code: int, key: str, depth: int = 0) -> Value:
        """One metadata value of type `code`; `key` is only for messages."""
        shown = f"the value of {key[:60]!r}"
        if code == STRING:
            return self.text(shown)
        if code == BOOL:
            return self._bools(1, shown)[0]
        if code == ARRAY:
            return self._array(key, depth)
        return self._numbers(code, 1, shown)[0]

    def _array(self, key: str, depth: int) -> tuple[Value, ...]:
        shown = f"the list {key[:60]!r}"
        if depth >= _DEEPEST_ARRAY:
            raise self.damaged(f"{shown} is nested too deeply")
        code, count = self.u32(shown), self.u64(shown)
        if count > MAX_ITEMS:
            raise self.damaged(f"{shown} claims {count} items, more than any model has")
        if code == BOOL:
            return self._bools(count, shown)
        if code not in (STRING, ARRAY):
            return self._numbers(code, count, shown)
        smallest = _SMALLEST_STRING_BYTES if code == STRING else _SMALLEST_ARRAY_BYTES
        if count * smallest > self.left_bytes:
            raise self.damaged(f"{shown} claims {count} items, too many for the file")
        if code == STRING:
            return tuple(self.text(shown) for _ in range(count))
        return tuple(self._array(key, depth + 1) for _ in range(count))

    def _numbers(self, code: int, count: int, what: str) -> tuple[int | float, ...]:
        if code not in NUMBER_FORMATS:
            raise self.damaged(f"{what} has an unknown type {code}")
        size_bytes = struct.calcsize(f"<{NUMBER_FORMATS[code]}")
        raw = self.take(count * size_bytes, what)
        return struct.unpack(f"<{count}{NUMBER_FORMATS[code]}", raw)

    def _bools(self, count: int, what: str) -> tuple[bool, ...]:
        raw = self.take(count, what)
        if raw.strip(b"\x00\x01"):
            raise self.damaged(f"{what} is neither true nor false")
        return tuple(byte == 1 for byte in raw)
