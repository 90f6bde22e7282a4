"""Hooks on the modules of a model: they note what a module is called with and returns. No model code is copied.

A hooked module gets a subclass of its own class. Parameters, attributes and arithmetic stay as they were, and so does
what `isinstance` says of it.
"""

from functools import cache
from typing import Any, Literal

import mlx.core as mx

from engine.backend.mlx_lm_imports import make_prompt_cache

HookKind = Literal["input", "output", "arguments", "as_linear"]
TRIAL_TOKENS = 2  # so that tokens are told apart from a batch of one


class Hook:
    """What one module was called with, or returned.

    seen: at the latest call, None before any. calls: how many there were since it was last cleared.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forgets what was seen, so that no array is held."""
        self.seen: Any = None
        self.calls = 0

    def note(self, x: Any) -> None:
        """Records one call."""
        self.seen = x
        self.calls += 1


def hook(module: Any, kind: HookKind) -> Hook:
    """Returns the hook on `module`, one for all who ask for the same.

    kind: "input", its first argument; "arguments", a tuple of all of them; "output", what it returns, the first of
    several; "as_linear", what an embedding that serves as the output matrix is called with.
    """
    if "_hooks" not in vars(module):
        kind_of_module: Any = type(module)
        module.__class__ = _hooked(kind_of_module)
    hooks = vars(module).setdefault("_hooks", {})
    found: Hook = hooks.setdefault(kind, Hook())
    return found


def is_hooked(module: Any, kind: HookKind) -> bool:
    """Returns whether there is such a hook on `module`."""
    return kind in vars(module).get("_hooks", {})


def unhook(module: Any, kind: HookKind) -> None:
    """Takes a hook off, so that nothing is held on to."""
    vars(module).get("_hooks", {}).pop(kind, None)


def trial_pass(model: Any) -> mx.array:
    """Returns the logits (1, 2, vocabulary) of a pass over two tokens with caches of its own. Nothing is evaluated."""
    logits: mx.array = model(mx.zeros((1, TRIAL_TOKENS), mx.int32), cache=make_prompt_cache(model))
    return logits


@cache
def _hooked(kind: type) -> type:
    """Returns a subclass of a module's class that notes its inputs and outputs and computes what its parent does."""

    class Hooked(kind):  # type: ignore[misc]
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

        Hooked.as_linear = as_linear
    Hooked.__name__, Hooked.__qualname__, Hooked.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return Hooked


def _note(module: Any, kind: HookKind, x: Any) -> None:
    found = vars(module)["_hooks"].get(kind)
    if found is not None:
        found.note(x)
