"""Hidden states of a target as it runs, recorded for drafters that read them.

What an index means: point i is the residual stream at the INPUT of layer i, that is the output of layer i - 1
(the sense of SafeAILab's EAGLE-3 and of vLLM's aux hidden states). Point n, for n layers, is the output of the last
one, before the final norm. NORMED is the stream after it, which the output matrix reads.

Invariants
----------
1. Row j of the record is the state at the j-th token of the sequence.
2. The record is one contiguous stretch [start, end).
3. Rows are handles on arrays of the pass that made them until a few more narrow passes have followed; then those are
   copied into one array. Keeping the handles of a long plain stretch slows down its steps (engine/NOTES.md).
4. A point is a plain stream, one vector per token, seen once per pass. A model that has several streams, or runs its
   layers more than once, is refused when the taps are made: its states have no such meaning.
"""

from collections.abc import Collection, Sequence
from itertools import accumulate, takewhile
from typing import Any

import mlx.core as mx

from engine.cache.snapshot import Snapshot
from engine.errors import ModelError
from engine.target.hooks import TRIAL_TOKENS, Hook, HookKind, hook, trial_pass, unhook
from engine.target.model_layout import check_states, layers_of, output_of

NORMED = -1
JOINED = 8  # passes copied at a time; a pass with as many rows keeps its own array
IN_FLIGHT = 2  # passes that may not have been submitted yet


class LayerTaps:
    """The record of the states at `points`. width: of a row, all points side by side.

    latest_only: keep only the latest pass and the row before it, for a drafter that reads at one position.
    Raises ModelError for a model whose states cannot be read, ValueError for a point it does not have.
    """

    def __init__(self, model: Any, points: Sequence[int], latest_only: bool = False) -> None:
        check_states(model)
        self.points = tuple(points)
        self._model, self.latest_only = model, latest_only
        self._hooks = [_hook(model, point) for point in self.points]
        self._stretches: list[tuple[int, mx.array]] = []
        self._widths = _measure(model, self.points, self._hooks)
        self.width = sum(self._widths)

    @property
    def reaches_output(self) -> bool:
        """Whether a state behind the last layer is recorded, which the caches of a pass do not need."""
        return any(point == NORMED or point >= len(layers_of(self._model)) for point in self.points)

    @property
    def start(self) -> int:
        return self._stretches[0][0] if self._stretches else 0

    @property
    def end(self) -> int:
        if not self._stretches:
            return 0
        first, rows = self._stretches[-1]
        return first + rows.shape[0]

    def record(self, start: int, place: slice | None = None) -> None:
        """Records what the pass that has just been built computed for the tokens from `start` on. place: which of its
        rows are theirs, where other replies share the pass; they read the same hooks."""
        rows = [hook_.seen.squeeze(0) if place is None else hook_.seen[0, place] for hook_ in self._hooks]
        for hook_ in self._hooks if place is None else ():
            hook_.clear()
        self.cut(start)
        if self.end != start:
            self._stretches = []
        elif self.latest_only and self._stretches:
            self._stretches = [(start - 1, self._stretches[-1][1][-1:])]
        self._stretches.append((start, mx.concatenate(rows, -1) if len(rows) > 1 else rows[0]))
        self._join()

    def _join(self) -> None:
        """Makes one array of the latest narrow stretches, once there are enough of them."""
        narrow = [*takewhile(lambda stretch: stretch[1].shape[0] < JOINED, reversed(self._stretches))]
        if len(narrow) >= JOINED + IN_FLIGHT:
            at = slice(-len(narrow), -IN_FLIGHT)
            loose = self._stretches[at]
            joined = mx.concatenate([rows for _, rows in loose])
            mx.async_eval(joined)
            self._stretches[at] = [(loose[0][0], joined)]

    def cut(self, length: int) -> None:
        """Drops the rows of all but the first `length` tokens, whatever of those a cache still holds."""
        if self.end <= length:
            return
        kept = [(first, rows) for first, rows in self._stretches if first < length]
        if kept and self.end > length:
            first, rows = kept[-1]
            kept[-1] = (first, rows[: length - first])
        self._stretches = kept

    def select(self, start: int, places: Sequence[int]) -> None:
        """Keeps of the rows from `start` on, which one pass made, those at `places` (relative to it), in this order."""
        first, rows = self._stretches[-1]
        kept = [*range(start - first), *(start - first + place for place in places)]
        self._stretches[-1] = (first, rows[mx.array(kept, mx.int32)])

    def take(self, start: int, end: int, points: Sequence[int] | None = None) -> mx.array:
        """Returns the rows of tokens [start, end), (end - start, width), and releases those before `start`.

        points: of those recorded, which to return, side by side in this order; None for all. Raises ValueError for
        tokens or points that are not recorded.
        """
        if not self.start <= start < end <= self.end:
            raise ValueError(
                f"hidden states of tokens {start} to {end} are requested, {self.start} to {self.end} are recorded"
            )
        self._stretches = [(first, rows) for first, rows in self._stretches if first + rows.shape[0] > start]
        parts = [rows[max(start - first, 0) : end - first] for first, rows in self._stretches if first < end]
        rows = mx.concatenate(parts) if len(parts) > 1 else parts[0]
        return rows if points is None or tuple(points) == self.points else self._columns(rows, points)

    def _columns(self, rows: mx.array, points: Sequence[int]) -> mx.array:
        missing = [point for point in points if point not in self.points]
        if missing or not points:
            raise ValueError(f"hidden states at points {list(points)} are requested, {list(self.points)} are recorded")
        ends = list(accumulate(self._widths))
        places = [self.points.index(point) for point in points]
        return mx.concatenate([rows[:, ends[i] - self._widths[i] : ends[i]] for i in places], -1)

    def drop(self) -> None:
        """Forgets everything."""
        self._stretches = []

    def snapshot(self) -> Snapshot:
        """Returns what is recorded."""
        return list(self._stretches)

    def restore(self, snapshot: Snapshot) -> None:
        """Holds what was recorded at the same points when the snapshot was taken."""
        self._stretches = list(snapshot)

    def unhook(self, kept: Collection[int]) -> None:
        """Takes the hooks off, but for those at the points `kept`, and forgets everything."""
        self.drop()
        for point in self.points:
            if point not in kept:
                unhook(*_place(self._model, point))

    def arrays(self) -> list[mx.array]:
        """Returns every array to evaluate after a prefill chunk; none where all but the last chunk go unread."""
        return [] if self.latest_only else [rows for _, rows in self._stretches]


def _hook(model: Any, point: int) -> Hook:
    """Returns the hook at `point`, shared by all who read there."""
    return hook(*_place(model, point))


def _place(model: Any, point: int) -> tuple[Any, HookKind]:
    """Returns the module that is hooked for `point`, and how."""
    if point == NORMED:
        return output_of(model)
    layers = layers_of(model)
    if not 0 <= point <= len(layers):
        raise ValueError(f"point {point} of a model with {len(layers)} layers: give 0 to {len(layers)}, or NORMED")
    return (layers[point - 1], "output") if point else (layers[0], "input")


def _measure(model: Any, points: Sequence[int], hooks: Sequence[Hook]) -> list[int]:
    """Returns the width of each point, from a pass that is never evaluated. Raises ModelError where a hook sees no
    plain stream."""
    layers = layers_of(model)
    following = {point: layers[point] for point in points if 0 < point < len(layers)}
    arguments = {point: hook(layer, "arguments") for point, layer in following.items()}
    for one in hooks:
        one.clear()
    try:
        trial_pass(model)
        if not all(_plain(one, arguments.get(point)) for point, one in zip(points, hooks, strict=True)):
            raise ModelError(
                "the model's layers do not hand on one vector a token, once a pass, so its hidden states "
                "cannot be read: choose another drafter"
            )
        return [int(one.seen.shape[2]) for one in hooks]
    finally:
        for one in hooks:
            one.clear()
        for layer in following.values():
            unhook(layer, "arguments")


def _plain(one: Hook, arguments: Hook | None) -> bool:
    """Whether a hook saw one vector a token, once, and the layer after it, if there is one, was handed just that."""
    shape = one.seen.shape if isinstance(one.seen, mx.array) else ()
    once = one.calls == 1 and len(shape) == 3 and shape[:2] == (1, TRIAL_TOKENS)
    return once and (arguments is None or any(argument is one.seen for argument in arguments.seen or ()))
