"""What a cache takes of memory as a conversation grows."""

from __future__ import annotations

from dataclasses import dataclass

from engine.sliding import SLACK


@dataclass(frozen=True)
class Growth:
    """Of one layer's cache: `step_bytes` for every `rows` tokens begun; a state that has one size has no rows.

    window: tokens that are seen, where older ones are dropped; None where all are kept.
    """

    step_bytes: int
    rows: int = 0
    window: int | None = None

    def bytes_at(self, tokens: int, chunk: int) -> int:
        """With `tokens` tokens in it, read in passes of up to `chunk` tokens."""
        if not self.rows:
            return self.step_bytes
        held = self._whole(tokens)
        if self.window is not None:
            held = min(held, self.window + SLACK + self._whole(chunk))
        return self.step_bytes * held // self.rows

    def _whole(self, tokens: int) -> int:
        return -(-tokens // self.rows) * self.rows
