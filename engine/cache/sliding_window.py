"""A sliding-window KV cache that can be rewound past the window's edge.

mlx-lm's RotatingKVCache overwrites the oldest entry as soon as the window is full, so what a
refused draft pushed out is gone. This one shows the same entries but holds SLACK more, in
temporal order, and moves the survivors to the front of its buffer when that is full. Growing
writes go in place; the move happens once in STEP tokens.

    buffer   [ . . . slack . . . | . . . window - 1 . . . | new tokens ]   free
    index    start                                                    end
"""

from typing import Any

import mlx.core as mx

from engine.backend.mlx_lm_imports import RotatingKVCache, create_causal_mask
from engine.errors import UnsupportedCache

SLACK = 64
STEP = 256


class SlidingKVCache(RotatingKVCache):  # type: ignore[misc]  # mlx-lm is untyped
    """Shows the last `max_size` tokens, keeps at least SLACK more. A RotatingKVCache to the models.

    keys, values: (batch, heads, capacity, head_dim) or None. `offset` tokens have been seen in
    all; rows [0, offset - start) of the buffer are filled, row 0 being token `start`.
    """

    def __init__(self, max_size: int, keep: int = 0) -> None:
        if keep:
            raise UnsupportedCache(
                f"the model pins its first {keep} tokens in a rotating cache, which Redline cannot rewind exactly"
            )
        super().__init__(max_size)
        self.keys: Any = None
        self.values: Any = None
        self.offset: int = 0
        self.max_size: int = max_size
        self.start = 0
        self._shown = 0

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Appends (batch, heads, n, head_dim); returns what the n queries may look at, oldest first."""
        n = keys.shape[2]
        before = min(self.offset, self.max_size - 1)
        self._make_room(keys, values)
        end = self.offset - self.start
        self.keys[..., end : end + n, :] = keys
        self.values[..., end : end + n, :] = values
        self.offset += n
        self._shown = before + n
        shown: tuple[mx.array, mx.array] = self.keys_and_values()
        return shown

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """Returns what the latest update showed: (batch, heads, shown, head_dim) twice."""
        end = self.offset - self.start
        window = slice(end - self._shown, end)
        return self.keys[..., window, :], self.values[..., window, :]

    def _make_room(self, keys: mx.array, values: mx.array) -> None:
        n, end = keys.shape[2], self.offset - self.start
        if self.keys is not None and end + n <= self.keys.shape[2]:
            return
        kept = min(end, self.max_size - 1 + SLACK)
        room = (n + STEP - 1) // STEP * STEP
        self.keys = _moved(self.keys, end - kept, end, keys, room)
        self.values = _moved(self.values, end - kept, end, values, room)
        self.start = self.offset - kept

    @property
    def least_length(self) -> int:
        """The fewest tokens that dropping may leave, so that every token the window shows then is still held."""
        return self.start + self.max_size - 1 if self.start else 0

    def trim(self, n: int) -> int:
        """Drops the newest n tokens, as far as they are held; returns how many."""
        n = min(self.offset - self.start, n)
        self.offset -= n
        self._shown = min(self.offset, self.max_size)
        return n

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> mx.array | str | None:
        """Returns which of the shown keys each of N new queries may see; as RotatingKVCache, in temporal order.

        A window wider than the cache (plamo3 asks for one token more) is cut to it: the first query
        of a pass never sees more, so no other may, or a wide pass would differ from single steps.
        """
        before = min(self.offset, self.max_size - 1)
        if N > 1:
            window = min(window_size or self.max_size, self.max_size)
            if before + N > window or return_array:
                mask: mx.array = create_causal_mask(N, before, window_size=window)
                return mask
            return "causal"
        if window_size is None or before + 1 <= window_size:
            return None
        return mx.arange(before + 1) >= before + 1 - window_size


def _moved(held: mx.array | None, first: int, end: int, new: mx.array, room: int) -> mx.array:
    """Returns rows [first, end) of `held` in front of `room` empty rows shaped like `new`."""
    empty = mx.zeros((*new.shape[:2], room, new.shape[3]), new.dtype)
    return empty if held is None else mx.concatenate([held[..., first:end, :], empty], axis=2)
