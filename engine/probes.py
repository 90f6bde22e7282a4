"""Notes what the modules of a model are called with and give; no model code is copied.

A watched module gets a subclass of its own class. Parameters, attributes and arithmetic stay as they were, and so
does what `isinstance` says of it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

import mlx.core as mx

from engine.upstream import make_prompt_cache

Kind = Literal["input", "output", "arguments", "as_linear"]
TRIAL_TOKENS = 2  # told apart from a batch of one


class Probe:
    """seen: what was noted at the latest call, None before. calls: how many there were since it was last cleared."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.seen: Any = None
        self.calls = 0

    def note(self, x: Any) -> None:
        self.seen = x
        self.calls += 1


def watch(module: Any, kind: Kind) -> Probe:
    """A probe of what `module` is called with first ("input"), of all of that ("arguments", a tuple), of what it gives
    ("output", the first of several), or of what an embedding that serves as the output matrix is called with
    ("as_linear"). One for all who ask for the same."""
    if "_probes" not in vars(module):
        kind_of_module: Any = type(module)
        module.__class__ = _probed(kind_of_module)
    probes = vars(module).setdefault("_probes", {})
    found: Probe = probes.setdefault(kind, Probe())
    return found


def unwatch(module: Any, kind: Kind) -> None:
    """Note this no more, so that nothing is held on to."""
    vars(module).get("_probes", {}).pop(kind, None)


def trial(model: Any) -> mx.array:
    """Logits (1, 2, vocabulary) of a pass over two tokens with caches of its own, which nobody need evaluate."""
    logits: mx.array = model(mx.zeros((1, TRIAL_TOKENS), mx.int32), cache=make_prompt_cache(model))
    return logits


@cache
def _probed(kind: type) -> type:
    """A subclass of a module's class that notes its inputs and outputs and computes what its parent does."""

    class Probed(kind):  # type: ignore[misc]
        def __call__(self, *args: Any, **named: Any) -> Any:
            out = super().__call__(*args, **named)
            _note(self, "input", next(iter((*args, *named.values())), None))
            _note(self, "arguments", (*args, *named.values()))
            _note(self, "output", out[0] if isinstance(out, tuple) else out)
            return out

    if hasattr(kind, "as_linear"):

        def as_linear(self: Any, x: Any) -> Any:
            _note(self, "as_linear", x)
            return kind.as_linear(self, x)

        Probed.as_linear = as_linear
    Probed.__name__, Probed.__qualname__, Probed.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Probed


def _note(module: Any, kind: Kind, x: Any) -> None:
    probe = vars(module)["_probes"].get(kind)
    if probe is not None:
        probe.note(x)
