"""Values kept on disk under what they are of: a file of JSON lines, which only grows and is cheap to lose.

Each value is one line, written at once, so that Ctrl-C or a kill costs the one that was being written and no other. A
line that is no good is passed over; a folder that cannot be written costs the work again next time and nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from models.paths import cache_dir

FORMAT = 1
MOST = 100  # files kept; the oldest go
Value = TypeVar("Value")


class Kept(Generic[Value]):
    """kind: of the values; key: what all of them depend on. root: of the cache, None for the user's."""

    def __init__(self, root: Path | None, key: Sequence[str], kind: type[Value]) -> None:
        name = hashlib.sha256(chr(0).join([str(FORMAT), *key]).encode()).hexdigest()[:24]
        self.path = cache_dir(root) / "predict" / f"{name}.jsonl"
        self._kind = kind
        self._values = dict(self._lines())

    def get(self, name: str) -> Value | None:
        return self._values.get(name)

    def put(self, name: str, value: Value) -> None:
        """Keep a value, in memory and, where the disk lets, for the next time."""
        self._values[name] = value
        line = msgspec.json.encode((name, value)) + b"\n"
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            new = not self.path.exists()
            with self.path.open("ab") as file:
                # A line that a kill has cut must not spoil the next one, so each begins on a line of its own.
                os.write(file.fileno(), line if new else b"\n" + line)
            if new:
                self._clear_away()

    def _lines(self) -> list[tuple[str, Value]]:
        found: list[tuple[str, Value]] = []
        try:
            text = self.path.read_bytes()
        except OSError:
            return found
        for line in filter(None, text.split(b"\n")):
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                found.append(msgspec.json.decode(line, type=tuple[str, self._kind]))  # type: ignore[name-defined]
        return found

    def _clear_away(self) -> None:
        files = sorted(self.path.parent.glob("*.jsonl"), key=lambda file: file.stat().st_mtime)
        for old in files[:-MOST]:
            old.unlink()
