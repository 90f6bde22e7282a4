"""Hidden states of a target as it runs, for drafters that read them.

Which layer an index means: point i is the residual stream at the INPUT of layer i, that is the output
of layer i - 1 (the sense of SafeAILab's EAGLE-3 and of vLLM's aux hidden states). Point n, for n layers,
is the output of the last one. NORMED is what the output matrix reads.

Invariants
----------
1. Row j of the log is the state at the j-th token of the sequence.
2. The log is one contiguous stretch [start, end).
3. Rows are handles on arrays of the pass that made them until a few more narrow passes have come behind; then those
   are copied into one array. To keep the handles of a long plain stretch slows its steps (engine/NOTES.md).
4. A point is a plain stream, one vector a token, passed once a pass. A model that has several streams, or goes
   over its layers more than once, is refused when a reader is made: its states have no such meaning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

import mlx.core as mx

from engine.anatomy import layers_of, output_of
from engine.errors import ModelError
from engine.probes import TRIAL_TOKENS, Probe, trial, unwatch, watch

NORMED = -1
JOINED = 8  # passes, and the rows that make one of its own worth an array
IN_FLIGHT = 2  # passes that may not have been launched yet


class Features:
    """The log of one reader. points: what to note, see above. width: of a row, all points side by side.

    last_only: keep the latest pass alone and the row before it, for readers that look at one position.
    Raises ModelError for a model whose states cannot be read, ValueError for a point it does not have.
    """

    def __init__(self, model: Any, points: Sequence[int], last_only: bool = False) -> None:
        self.points = tuple(points)
        self._last_only = last_only
        self._probes = [_probe(model, point) for point in self.points]
        self._stretches: list[tuple[int, mx.array]] = []
        self.width = _measure(model, self.points, self._probes)

    @property
    def start(self) -> int:
        return self._stretches[0][0] if self._stretches else 0

    @property
    def end(self) -> int:
        if not self._stretches:
            return 0
        first, rows = self._stretches[-1]
        return first + rows.shape[0]

    def record(self, start: int) -> None:
        """Note what the pass that has just been built gave to the tokens from `start` on."""
        rows = [probe.seen[0] for probe in self._probes]
        for probe in self._probes:
            probe.clear()
        self.cut(start)
        if self.end != start:
            self._stretches = []
        elif self._last_only and self._stretches:
            self._stretches = [(start - 1, self._stretches[-1][1][-1:])]
        self._stretches.append((start, mx.concatenate(rows, -1) if len(rows) > 1 else rows[0]))
        self._join()

    def _join(self) -> None:
        """Make one array of the latest narrow stretches, once there are enough of them."""
        narrow = [*takewhile(lambda stretch: stretch[1].shape[0] < JOINED, reversed(self._stretches))]
        if len(narrow) >= JOINED + IN_FLIGHT:
            at = slice(-len(narrow), -IN_FLIGHT)
            loose = self._stretches[at]
            joined = mx.concatenate([rows for _, rows in loose])
            mx.async_eval(joined)
            self._stretches[at] = [(loose[0][0], joined)]

    def cut(self, length: int) -> None:
        """Only the first `length` tokens of the sequence still stand, whatever of them a cache still holds."""
        if self.end <= length:
            return
        kept = [(first, rows) for first, rows in self._stretches if first < length]
        if kept and self.end > length:
            first, rows = kept[-1]
            kept[-1] = (first, rows[: length - first])
        self._stretches = kept

    def select(self, start: int, places: Sequence[int]) -> None:
        """Of the rows from `start` on, which one pass made, keep those at `places` (relative), in this order."""
        first, rows = self._stretches[-1]
        kept = [*range(start - first), *(start - first + place for place in places)]
        self._stretches[-1] = (first, rows[mx.array(kept, mx.int32)])

    def take(self, start: int, end: int) -> mx.array:
        """Rows of tokens [start, end), (end - start, width), and forget what lies before `start`."""
        if not self.start <= start < end <= self.end:
            raise ValueError(f"features of tokens {start} to {end} are wanted, {self.start} to {self.end} are held")
        self._stretches = [(first, rows) for first, rows in self._stretches if first + rows.shape[0] > start]
        parts = [rows[max(start - first, 0) : end - first] for first, rows in self._stretches if first < end]
        return mx.concatenate(parts) if len(parts) > 1 else parts[0]

    def drop(self) -> None:
        """Forget everything."""
        self._stretches = []

    def arrays(self) -> list[mx.array]:
        """Every array to evaluate after a prefill chunk; none where all but the last chunk go unread."""
        return [] if self._last_only else [rows for _, rows in self._stretches]


def _probe(model: Any, point: int) -> Probe:
    """A probe at `point`, shared by all who read there."""
    if point == NORMED:
        return watch(*output_of(model))
    layers = layers_of(model)
    if not 0 <= point <= len(layers):
        raise ValueError(f"point {point} of a model with {len(layers)} layers: give 0 to {len(layers)}, or NORMED")
    return watch(layers[point - 1], "output") if point else watch(layers[0], "input")


def _measure(model: Any, points: Sequence[int], probes: Sequence[Probe]) -> int:
    """Width of a row, from a pass that is never evaluated. Raises ModelError where a probe sees no plain stream."""
    layers = layers_of(model)
    behind = {point: layers[point] for point in points if 0 < point < len(layers)}
    takers = {point: watch(layer, "arguments") for point, layer in behind.items()}
    for probe in probes:
        probe.clear()
    try:
        trial(model)
        if not all(_plain(probe, takers.get(point)) for point, probe in zip(points, probes, strict=True)):
            raise ModelError(
                "the model's layers do not hand on one vector a token, once a pass, so its hidden states "
                "cannot be read: choose another drafter"
            )
        return sum(probe.seen.shape[2] for probe in probes)
    finally:
        for probe in probes:
            probe.clear()
        for layer in behind.values():
            unwatch(layer, "arguments")


def _plain(probe: Probe, taker: Probe | None) -> bool:
    """Whether a probe saw one vector a token, once, and the layer behind it, if there is one, was handed just that."""
    shape = probe.seen.shape if isinstance(probe.seen, mx.array) else ()
    once = probe.calls == 1 and len(shape) == 3 and shape[:2] == (1, TRIAL_TOKENS)
    return once and (taker is None or any(argument is probe.seen for argument in taker.seen or ()))
