"""One pass of a model, or of a head, over the rows of several replies, each of which keeps its own cache.

All rows lie side by side, (1, rows, hidden), as those of a tree do: products, norms and experts see all of them and
read the weights once. Positions go row by row (`engine.tree.rotary_positions`). In each layer the keys and values of
each reply go to its own cache, and attention runs reply by reply. Nothing is padded and nothing is shared, so what a
cache does (windows, quantization, trees, rewinding) stays as it is.

Where a model's attention computes with keys itself (latent attention that absorbs its matrices, or with caps on its
scores), that whole module runs reply by reply; the others still see all rows.

    rows    reply a: 5 6 | reply b: 40 | reply c: 7 8 9      numbers are positions
    keys    each row sees those of its own reply's cache
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cache, wraps
from inspect import signature
from itertools import accumulate
from typing import Any

import mlx.core as mx

from engine.backend import raise_if_machine_lost
from engine.backend.mlx_lm_imports import KVCache, QuantizedKVCache
from engine.cache.model_cache import ModelCache
from engine.cache.sliding_window import SlidingKVCache
from engine.errors import RedlineError
from engine.rotary_embedding import RotationByLength
from engine.tree.rotary_positions import enable_row_positions

_SPLIT_BY_REPLY = (KVCache, QuantizedKVCache, SlidingKVCache)
_TRIAL_TEXTS = (([5, 2, 7], [3]), ([6, 4, 1, 2, 5], [7, 3, 4]))  # what is read before, and the rows of the pass
_TOLERANCE = {mx.float32: 1e-3, mx.float16: 0.05, mx.bfloat16: 0.2}  # of the spread of the logits
_ATTENTION = "scaled_dot_product_attention"  # what mlx-lm's model files import and call


@dataclass(frozen=True, eq=False)
class JointPass:
    """A pass that one reply wants of `model`, whose layers take caches, and which others may share: an
    `engine.together.Pass`.

    inputs: token ids, or what a head reads, each (n, ...); may be lazy. entries: the reply's caches, one a layer.
    positions: (n,). rotation: by which frequencies its text is rotated. record: called once the pass is built, with the
    rows of it that are this reply's. size_bytes: of the model's weights; 0 for a head, whose passes come first. reads:
    whether it only fills the caches, so that no round waits until the prompts of others are read.
    """

    model: Any
    inputs: Sequence[mx.array]
    entries: Sequence[Any]
    positions: mx.array
    rotation: RotationByLength = field(default_factory=RotationByLength)
    record: Callable[[slice], None] = lambda _: None
    size_bytes: int = 0
    reads: bool = False

    @property
    def group(self) -> Hashable:
        return id(self.model), self.rotation.is_long, self.reads

    def run(self) -> mx.array:
        self.rotation.apply()
        out: mx.array = self.model(*(rows[None] for rows in self.inputs), cache=self.entries).squeeze(0)
        self.record(slice(None))
        return out

    def run_with(self, others: Sequence[JointPass]) -> list[mx.array]:
        self.rotation.apply()
        passes = [self, *others]
        counts = [one.positions.size for one in passes]
        out = mx.split(_run_rows(self.model, passes, counts), _cuts(counts))
        for one, end in zip(passes, accumulate(counts), strict=True):
            one.record(slice(end - one.positions.size, end))
        return list(out)


Attend = Callable[[mx.array, mx.array, mx.array], mx.array]
"""`attend(queries, keys, values)` comes from the caller, who knows cache and positions: arrays (1, heads, n, head_dim)
before rotation, to the attended values in the queries' shape."""


@dataclass(frozen=True, eq=False)
class RowsPass:
    """A pass of a head, which computes each row by itself, but for attention.

    network: called with `inputs`, each (1, n, width), then with what attends in each layer, or keeps its keys and
    values; returns (1, n, out). attends: of one reply, which knows its cache. weights: equal where the network has the
    same weights; None where it is the same network.
    """

    network: Callable[..., mx.array]
    inputs: Sequence[mx.array]
    attends: Sequence[Callable[..., mx.array]] = ()
    weights: Hashable = None
    size_bytes = 0  # passes of heads come first
    reads = False

    @property
    def group(self) -> Hashable:
        return self.weights or self.network

    def run(self) -> mx.array:
        return self.network(*(rows[None] for rows in self.inputs), *self.attends).squeeze(0)

    def run_with(self, others: Sequence[RowsPass]) -> list[mx.array]:
        passes = [self, *others]
        cuts = _cuts([len(one.inputs[0]) for one in passes])
        inputs = [mx.concatenate([*rows]) for rows in zip(*(one.inputs for one in passes), strict=True)]
        layers = [_in_turn(layer, cuts) for layer in zip(*(one.attends for one in passes), strict=True)]
        return list(mx.split(RowsPass(self.network, inputs, layers).run(), cuts))


def _in_turn(attends: Sequence[Callable[..., mx.array]], cuts: Sequence[int]) -> Callable[..., mx.array]:
    """Returns what attends for the rows of all replies, as each of them does; see `_cuts`."""

    def attend(*rows: mx.array) -> mx.array:
        split = zip(*(mx.split(each, cuts, 2) for each in rows), strict=True)
        return mx.concatenate([one(*parts) for one, parts in zip(attends, split, strict=True)], 2)

    return attend


def why_not_joint(model: Any, make_cache: Callable[[], ModelCache]) -> str | None:
    """Returns why passes of this model cannot be joined, None if they can: tried with two short texts, of which one has
    a draft. Before this was tried, no pass of it is."""
    if reason := _unknown_caches(make_cache()):
        return reason
    enable_row_positions(model)
    _enable_joint_attention(model)
    reason = _why_not_as_it_is(model, make_cache)
    if reason is not None and _run_attention_by_reply(model):
        reason = _why_not_as_it_is(model, make_cache)
    return reason


def join_as(head: Any, model: Any) -> None:
    """Lets passes of a head be joined whose layers are of the same kind as those of `model`, as that one's are."""
    enable_row_positions(head)
    _enable_joint_attention(head)
    if any(hasattr(module, "runs_by_reply") for module in model.modules()):
        _run_attention_by_reply(head)


def _why_not_as_it_is(model: Any, make_cache: Callable[[], ModelCache]) -> str | None:
    try:
        together = _trial(model, make_cache, joint=True)
        alone = _trial(model, make_cache, joint=False)
    except (RedlineError, AttributeError, TypeError, ValueError, RuntimeError) as error:  # from a hundred models' code
        raise_if_machine_lost(error)
        return f"mlx-lm's code for it handles only one text per pass ({type(error).__name__})"
    if not all(map(equal_logits, together, alone)):
        return "a pass over two texts gives different logits from a pass over each"
    return None


def _unknown_caches(memory: ModelCache) -> str | None:
    kinds = sorted({type(entry).__name__ for entry in memory.entries if type(entry) not in _SPLIT_BY_REPLY})
    return f"its memory ({', '.join(kinds)}) follows one text at a time" if kinds else None


def _trial(model: Any, make_cache: Callable[[], ModelCache], joint: bool) -> list[mx.array]:
    """Returns the logits of the last passes over two short texts."""
    caches, passes = [make_cache(), make_cache()], []
    for memory, (read, rows) in zip(caches, _TRIAL_TEXTS, strict=True):
        model(mx.array([read]), cache=memory.entries)
        positions = mx.arange(len(read), len(read) + len(rows))
        passes.append(JointPass(model, [mx.array(rows)], memory.entries, positions))
    logits = passes[0].run_with(passes[1:]) if joint else [one.run() for one in passes]
    mx.eval(logits)
    return logits


class _Parts:
    """Keys, values or masks, one for each reply. A model that computes with them raises: only attention takes them."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self.parts = parts

    @property
    def dtype(self) -> Any:
        return self.parts[0].dtype


class _Keys(_Parts):
    """Keys, with the caches that they come from, and where the rows of all replies but the first begin."""

    def __init__(self, parts: Sequence[Any], entries: Sequence[Any], cuts: Sequence[int]) -> None:
        super().__init__(parts)
        self.entries, self.cuts = entries, cuts


class JointEntry:
    """The caches of one layer for several replies in one pass. offset: (rows,), a position for each row."""

    def __init__(self, entries: Sequence[Any], counts: Sequence[int], positions: mx.array) -> None:
        self.entries, self._counts = entries, counts
        self.cuts, self.rows = _cuts(counts), sum(counts)
        self.offset = positions

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[_Keys, _Parts]:
        """Gives each reply's cache its rows of (1, heads, rows, width); returns what each reply's queries may see."""
        split = zip(self.entries, mx.split(keys, self.cuts, 2), mx.split(values, self.cuts, 2), strict=True)
        seen = [entry.update_and_fetch(*rows) for entry, *rows in split]
        return _Keys([k for k, _ in seen], self.entries, self.cuts), _Parts([v for _, v in seen])

    def keys_and_values(self) -> tuple[_Keys, _Parts]:
        """Returns what the latest update showed, for layers that share it."""
        seen = [entry.keys_and_values() for entry in self.entries]
        return _Keys([k for k, _ in seen], self.entries, self.cuts), _Parts([v for _, v in seen])

    def make_mask(self, N: int, window_size: int | None = None, return_array: bool = False) -> _Parts:
        """Returns the masks, each as its cache makes it."""
        made = zip(self.entries, self._counts, strict=True)
        return _Parts([e.make_mask(n, window_size=window_size, return_array=return_array) for e, n in made])

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a pass of several replies does not know a cache's {name}")


def _run_rows(model: Any, passes: Sequence[JointPass], counts: Sequence[int]) -> mx.array:
    """Returns what the model makes of the rows of all these passes, side by side: (rows, width), lazy."""
    positions = mx.concatenate([one.positions.astype(mx.int32) for one in passes])
    layers = zip(*(one.entries for one in passes), strict=True)
    entries = [JointEntry(layer, counts, positions) for layer in layers]
    inputs = [mx.concatenate([*rows]) for rows in zip(*(one.inputs for one in passes), strict=True)]
    out: mx.array = model(*(rows[None] for rows in inputs), cache=entries).squeeze(0)
    return out


def equal_logits(logits: mx.array, others: mx.array) -> bool:
    """Returns whether logits (rows, vocabulary) of two ways to compute them differ by no more than rounding does."""
    first, second = logits.astype(mx.float32), others.astype(mx.float32)
    spread = mx.maximum(mx.std(second), 1e-6)
    return bool((mx.max(mx.abs(first - second)) / spread < _TOLERANCE.get(logits.dtype, 1e-3)).item())


def _cuts(counts: Sequence[int]) -> list[int]:
    """Returns where the rows of all replies but the first begin."""
    return list(accumulate(counts[:-1]))


def _enable_joint_attention(model: Any) -> None:
    """Has the attention of the files that the modules of `model` come from take the parts of a joint entry."""
    for file in {sys.modules[type(module).__module__] for module in model.modules()}:
        attend = getattr(file, _ATTENTION, None)
        if attend is not None and not hasattr(attend, "takes_parts"):
            setattr(file, _ATTENTION, _by_reply(attend))


def _by_reply(attend: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """Returns `attend`, which also takes what a joint entry returns, and then attends reply by reply."""

    @wraps(attend)
    def attend_by_reply(
        queries: mx.array, keys: Any, values: Any, cache: Any, scale: float, mask: Any, **named: Any
    ) -> mx.array:
        if not isinstance(keys, _Keys):
            return attend(queries, keys, values, cache, scale, mask, **named)
        masks = [None] * len(keys.parts) if mask is None else mask.parts
        rows = mx.split(queries, keys.cuts, 2)
        replies = zip(rows, keys.parts, values.parts, keys.entries, masks, strict=True)
        return mx.concatenate([attend(q, k, v, cache, scale, mask, **named) for q, k, v, cache, mask in replies], 2)

    attend_by_reply.takes_parts = True  # type: ignore[attr-defined]
    return attend_by_reply


def _run_attention_by_reply(model: Any) -> bool:
    """Has the innermost modules of `model` that take a cache run reply by reply where they are given a joint entry.
    Returns whether there are any."""
    innermost = [one for one in model.modules() if [*filter(_takes_cache, one.modules())] == [one]]
    for module in innermost:
        kind: Any = type(module)
        if not hasattr(module, "runs_by_reply"):
            module.__class__ = _running_by_reply(kind)
    return bool(innermost)


def _takes_cache(module: Any) -> bool:
    return hasattr(module, "runs_by_reply") or "cache" in signature(type(module).__call__).parameters


@cache
def _running_by_reply(kind: type) -> type:
    class RunningByReply(kind):  # type: ignore[misc]
        runs_by_reply = True

        def __call__(self, *given: Any, **named: Any) -> Any:
            call, entry = super().__call__, next((one for one in (*given, *named.values()) if _is_joint(one)), None)
            if entry is None:
                return call(*given, **named)
            ours = [_by_reply_of(argument, entry) for argument in given]
            theirs = {name: _by_reply_of(argument, entry) for name, argument in named.items()}
            replies = range(len(entry.entries))
            return mx.concatenate(
                [call(*(one[i] for one in ours), **{name: one[i] for name, one in theirs.items()}) for i in replies], 1
            )

    for name in ("__name__", "__qualname__", "__module__"):
        setattr(RunningByReply, name, getattr(kind, name))
    return RunningByReply


def _is_joint(argument: Any) -> bool:
    return isinstance(argument, JointEntry)


def _by_reply_of(argument: Any, entry: JointEntry) -> Sequence[Any]:
    """Returns what each of the replies has of an argument of attention."""
    if _is_joint(argument):
        return list(argument.entries)
    if isinstance(argument, _Parts):
        return argument.parts
    if isinstance(argument, mx.array) and argument.ndim == 3 and argument.shape[1] == entry.rows:
        return list(mx.split(argument, entry.cuts, 1))
    return [argument] * len(entry.entries)
