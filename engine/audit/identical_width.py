"""Which passes of several tokens have the bits of passes of one token each: measured on this machine, with this model.

A row of a product, of attention or of a norm may be rounded by how many rows there are, and attention by how many keys.
Where no operator does so, exact-verify needs no fixed blocks (`engine.audit.verify_blocks`) and costs nothing. So the
model itself is run over random tokens, one by one and several at once, and what goes into and comes out of each of its
modules is compared bit by bit. Only the first layer of each kind is computed: the others hand on what they are given,
so that the output matrix is read, but no other layer's weights. After a longer text, whose keys and values repeat those
of a short one, only the modules are compared that are called with a cache.

What cannot be compared is not called identical.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import mlx.core as mx
from mlx.utils import tree_flatten

from engine import backend
from engine.audit.verify_blocks import BLOCK_WIDTH, VerifyBlocks
from engine.backend.mlx_lm_imports import KVCache, QuantizedKVCache
from engine.cache.sliding_window import SlidingKVCache
from engine.errors import ModelError
from engine.target.cached_model import CachedModel
from engine.target.model_layout import layers_of, position_limit

WIDEST = 9
_SPAN = 33  # tokens in a row: libraries cut long sums anew every 16 or 32 keys
_LENGTHS = (0, 480, 1100)  # of the text before them
_GPU_LENGTHS = (4200, 16500)  # beyond which GPUs take other kernels for attention
_PREFIX = 16
_CACHES = (KVCache, QuantizedKVCache, SlidingKVCache)
_BITS = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32}


class IdenticalWidth(NamedTuple):
    """The most tokens of a pass that has the bits of single steps. limit: what rounds otherwise in a wider pass, or why
    nothing could be compared; "" where all passes of up to `WIDEST` tokens have them."""

    tokens: int
    limit: str = ""


_measured: WeakKeyDictionary[object, IdenticalWidth] = WeakKeyDictionary()  # by `CachedModel.weights_key`


def identical_width(target: CachedModel) -> IdenticalWidth:
    """Returns what is measured when the weights of a target are first asked about. What is in its cache stays."""
    key = target.weights_key
    if key not in _measured:
        _measured[key] = _measure(target)
    return _measured[key]


def blocks_of(identical: int, prompt: int) -> VerifyBlocks:
    """Returns the blocks of a reply to `prompt` tokens where passes of up to `identical` tokens have the bits of single
    steps: blocks of one token, so many of which a pass reads. Where no pass of several does, blocks of a fixed width.
    """
    return VerifyBlocks.for_prompt(prompt, 1 if identical > 1 else BLOCK_WIDTH, max(1, identical))


def blocks_for(target: CachedModel, prompt: int) -> VerifyBlocks:
    """Returns the blocks of a reply to `prompt` tokens that is made here."""
    return blocks_of(identical_width(target).tokens, prompt)


def _measure(target: CachedModel) -> IdenticalWidth:
    if target.leader is not None:
        return IdenticalWidth(1, "the model is shared by several machines")
    if not all(isinstance(entry, _CACHES) for entry in target.cache.entries):
        return IdenticalWidth(1, f"not compared with a cache of {' and '.join(sorted(target.cache.classes))}")
    try:
        probe = _Probe(target)
    except ModelError as error:
        return IdenticalWidth(1, f"not compared: {error}")
    windows = [entry.max_size for entry in target.cache.entries if isinstance(entry, SlidingKVCache)]
    lengths = sorted({*_LENGTHS, *windows, *(_GPU_LENGTHS if backend.queues() else ())})
    last = position_limit(target.model)
    found = IdenticalWidth(WIDEST)
    with probe.watching():
        if not probe.caches_are_filled:
            return IdenticalWidth(1, "not compared with layers that have no keys and values")
        for length in lengths:
            if last is None or length + _SPAN <= last:
                found = probe.narrowed(found, length)
    return found


class _Call(NamedTuple):
    """What a module was called with and returned."""

    module: Any
    given: tuple[Any, ...]
    returned: Any

    @property
    def reads_cache(self) -> bool:
        return any(isinstance(one, _CACHES) for one in self.given)


class _Probe:
    """A model of which only the first layer of each kind is computed, and what its modules are given and return.

    Raises ModelError for a model whose layers cannot be found.
    """

    def __init__(self, target: CachedModel) -> None:
        self._model, self._cache = target.model, target.new_cache()
        layers = layers_of(self._model)
        entries = [*self._cache.entries, *[None] * len(layers)]  # the last layers may share caches
        kinds = [_kind(layer, entry) for layer, entry in zip(layers, entries, strict=False)]
        count = max(map(kinds.index, kinds)) + 1
        self._computed, self._skipped = layers[:count], layers[count:]
        self._names = {id(part): name for layer in self._computed for name, part in layer.named_modules()}
        self._calls: list[_Call] = []
        self._near_caches: set[int] = set()  # ids of the modules that are called with a cache, and of their parts
        ids = mx.random.randint(0, target.vocabulary, (_PREFIX + _SPAN,), key=mx.random.key(0))
        self._prefix, self._tokens = ids[:_PREFIX], ids[_PREFIX:]

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watches the layers that are computed, and leaves the others out of passes."""
        parts = [part for layer in self._computed for part in layer.modules()]
        classes = [(part, type(part)) for part in (*parts, *self._skipped)]
        for part in parts:
            part.__class__ = _watched(type(part), self._calls.append)
        try:
            self._forward(self._prefix)
            layers = {id(layer) for layer in self._computed}
            inner = [call.module for call in self._calls if call.reads_cache and id(call.module) not in layers]
            self._near_caches = {id(part) for module in inner for part in module.modules()} or set(self._names)
            several = any(isinstance(call.returned, tuple) for call in self._calls if id(call.module) in layers)
            for layer in self._skipped:
                layer.__class__ = _skipped(type(layer), several)
            yield
        finally:
            for part, kind in classes:
                part.__class__ = kind

    def narrowed(self, found: IdenticalWidth, length: int) -> IdenticalWidth:
        """Returns the widest passes that have the bits of single steps after `length` tokens too."""
        if found.tokens == 1:
            return found
        self._fill(length)
        steps = [self._pass(i, 1, length) for i in range(_SPAN)]
        for width in range(2, found.tokens + 1):
            if differs := self._difference(steps, 0, width, length):
                found = IdenticalWidth(width - 1, differs)
                break
        while found.tokens > 1:
            width = found.tokens
            for begin in range(0, _SPAN - width + 1, width - 1):  # so that one of them holds any two that follow
                if differs := self._difference(steps, begin, width, length):
                    found = IdenticalWidth(width - 1, differs)
                    break
            else:
                break
        return found

    def _fill(self, length: int) -> None:
        """Has the caches of the computed layers hold `length` tokens: the keys and values of a few, repeated."""
        self._cache.reset()
        if not length:
            return
        self._forward(self._prefix)
        rows = [self._cache.kv(i) for i in range(self._filled)]
        self._cache.reset()
        for entry, (keys, values, _) in zip(self._cache.entries, rows, strict=False):
            times = -(-length // keys.shape[1])  # a window shows fewer rows than were read
            repeated = [mx.tile(part, (1, times, 1))[None, :, :length] for part in (keys, values)]
            mx.eval(entry.update_and_fetch(*repeated))

    @property
    def caches_are_filled(self) -> bool:
        """Whether the pass before wrote keys and values in every computed layer."""
        return all(entry.keys is not None for entry in self._cache.entries[: self._filled])

    @property
    def _filled(self) -> int:
        return min(len(self._computed), len(self._cache.entries))

    def _pass(self, begin: int, width: int, length: int) -> list[tuple[str, mx.array]]:
        """Runs a pass over `width` of the tokens after `length` and the first `begin` ones; returns the arrays to be
        compared, by the names of modules. The logits come last and are lazy: most are never compared."""
        for entry in self._cache.entries[: self._filled]:
            entry.trim(entry.offset - length - begin)
        logits = self._forward(self._tokens[begin : begin + width])
        seen = []
        for call in self._calls:
            if not length or id(call.module) in self._near_caches:
                name = self._names[id(call.module)] or "a layer"
                both = (call.given[0], call.returned[0] if isinstance(call.returned, tuple) else call.returned)
                seen += [(name, array) for array in both if isinstance(array, mx.array)]
        mx.eval([array for _, array in seen])
        return [*seen, ("the logits", logits)]

    def _forward(self, tokens: mx.array) -> mx.array:
        self._calls.clear()
        logits: mx.array = self._model(tokens[None], cache=self._cache.entries)
        return logits

    def _difference(self, steps: Sequence[list[tuple[str, mx.array]]], begin: int, width: int, length: int) -> str:
        """Returns what has other bits in a pass over `width` tokens than in single steps, "" if nothing."""
        seen, singles = self._pass(begin, width, length), steps[begin : begin + width]
        if any(len(one) != len(seen) for one in singles):
            return f"other modules are called in a pass of {width} tokens"
        if length or begin:
            seen = seen[:-1]
        agree = [_agree(array, [one[i][1] for one in singles]) for i, (_, array) in enumerate(seen)]
        mx.eval([one for one in agree if isinstance(one, mx.array)])
        names = [name for (name, _), one in zip(seen, agree, strict=True) if not bool(one)]
        return f"{names[0]} rounds by the width of a pass of {width} tokens after {length + begin}" if names else ""


def _agree(wide: mx.array, singles: Sequence[mx.array]) -> mx.array | bool:
    """Returns whether an array of a wide pass consists of those of single steps, along whichever axis that is."""
    shapes = zip(wide.shape, singles[0].shape, strict=False)
    axes = [axis for axis, (many, one) in enumerate(shapes) if many != one]
    if wide.ndim != singles[0].ndim or len(axes) > 1:
        return False
    joined = mx.concatenate(list(singles), axes[0]) if axes else singles[0]
    bits = _BITS[wide.dtype.size]
    return joined.shape == wide.shape and mx.array_equal(joined.view(bits), wide.view(bits))


def _kind(layer: Any, entry: Any) -> Any:
    """Returns what is the same for layers that are computed alike: modules, shapes, and what they remember."""
    weights: Any = tree_flatten(layer.parameters())
    shapes = tuple((name, weight.shape, weight.dtype) for name, weight in weights)
    modules = tuple((name, type(part)) for name, part in layer.named_modules())
    return shapes, modules, type(entry), getattr(entry, "max_size", None)


def _watched(kind: type, note: Callable[[_Call], None]) -> type:
    """Returns a subclass of a module's class that notes every call."""

    class Watched(kind):  # type: ignore[misc]
        def __call__(self, *args: Any, **named: Any) -> Any:
            out = super().__call__(*args, **named)
            note(_Call(self, (*args, *named.values()), out))
            return out

    return Watched


def _skipped(kind: type, several: bool) -> type:
    """Returns a subclass of a layer's class that hands on what it is given. several: whether layers return more than
    that, which is never computed either."""

    class Skipped(kind):  # type: ignore[misc]
        def __call__(self, *args: Any, **named: Any) -> Any:
            given = next(iter((*args, *named.values())))
            return (given, *super().__call__(*args, **named)[1:]) if several else given

    return Skipped
