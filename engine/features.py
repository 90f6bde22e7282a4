"""Hidden states of a target as it runs, for drafters that read them; no model code is copied.

The modules whose inputs are wanted get a subclass of their own class that notes what it was called
with. Parameters, attributes and arithmetic stay as they were.

Which layer an index means: point i is the residual stream at the INPUT of layer i, that is the output
of layer i - 1 (the sense of SafeAILab's EAGLE-3 and of vLLM's aux hidden states). Point n, for n layers,
is the output of the last one. NORMED is what the output matrix reads.

Invariants
----------
1. Row j of the log is the state at the j-th token of the sequence the target's cache holds.
2. The log is one contiguous stretch [start, end), end <= the target's length.
3. Rows are handles on arrays of the pass that made them; nothing is copied until taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import mlx.core as mx

from engine.anatomy import embedding_of, layers_of, output_of

NORMED = -1


class Features:
    """The log of one reader. points: what to note, see above.

    last_only: keep the latest pass alone, for readers that look at one position.
    """

    def __init__(self, model: Any, points: Sequence[int], last_only: bool = False) -> None:
        self.points = tuple(points)
        self._last_only = last_only
        self._probes = [_probe(model, point) for point in self.points]
        self._stretches: list[tuple[int, mx.array]] = []

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
            probe.seen = None
        self.cut(start)
        if self._last_only or self.end != start:
            self._stretches = []
        self._stretches.append((start, mx.concatenate(rows, -1) if len(rows) > 1 else rows[0]))

    def cut(self, length: int) -> None:
        """Only the first `length` tokens of the sequence still stand."""
        kept = [(first, rows) for first, rows in self._stretches if first < length]
        if kept:
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
        """Every array held, for evaluation after a prefill chunk."""
        return [rows for _, rows in self._stretches]


class _Probe:
    """What one module was called with last. seen: (1, rows, width)."""

    def __init__(self) -> None:
        self.seen: Any = None


def _probe(model: Any, point: int) -> _Probe:
    """A probe at `point`, shared by all who read there."""
    layers = layers_of(model)
    if point == NORMED:
        head = output_of(model)
        module, kind = (head, "input") if head is not None else (embedding_of(model), "as_linear")
    elif 0 <= point < len(layers):
        module, kind = layers[point], "input"
    elif point == len(layers):
        module, kind = layers[-1], "output"
    else:
        raise ValueError(f"point {point} of a model with {len(layers)} layers: give 0 to {len(layers)}, or NORMED")
    probes = vars(module).setdefault("_probes", {})
    if not probes:
        module.__class__ = _probed(type(module))
    found: _Probe = probes.setdefault(kind, _Probe())
    return found


@cache
def _probed(kind: type) -> type:
    """A subclass of a layer's class that notes its inputs and outputs and computes what its parent does."""

    class Probed(kind):  # type: ignore[misc]
        def __call__(self, x: Any, *args: Any, **named: Any) -> Any:
            out = super().__call__(x, *args, **named)
            _note(self, "input", x)
            _note(self, "output", out[0] if isinstance(out, tuple) else out)
            return out

        def as_linear(self, x: Any) -> Any:
            _note(self, "as_linear", x)
            return super().as_linear(x)

    Probed.__name__, Probed.__qualname__, Probed.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Probed


def _note(module: Any, kind: str, x: mx.array) -> None:
    probe = vars(module)["_probes"].get(kind)
    if probe is not None:
        probe.seen = x
