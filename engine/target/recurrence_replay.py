"""Recurrent layers after a refusal: only their recurrence is computed again, from the products of the verify pass.

A recurrent state cannot drop tokens. It is put back to where the verify pass began, and the accepted rows are brought
in again by calling the layer on them, with the output of every matrix product inside taken from the pass. So no weight
of a product is read, nothing is fed to the model again, and the next pass is no wider. What the layer returns is not
used and never computed: what remains is lazy, belongs to the next pass, and needs no wait. For a gated delta rule that
is a slice, a depthwise convolution of the accepted rows and one run of the recurrence. No model code is copied.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn

from engine.cache.model_cache import ModelCache

# Layers of mlx_lm.models whose states follow from their arguments, row by row. Proven by
# `python -m tests.programs.sweep`. Not here: kimi_k3, which compiles a step with its modules
# as constants; longcat_flash_ngram and baichuan_m1, which keep states outside of such a layer.
_LAYERS = frozenset(
    {
        "bailing_hybrid.LinearAttention",
        "bailing_moe_linear.LinearAttention",
        "bailing_moe_v3.BailingKDA",
        "falcon_h1.FalconH1Mixer",
        "gear.ConvKVGatedMixer",
        "granitemoehybrid.GraniteMoeHybridMamba2Mixer",
        "jamba.JambaMambaMixer",
        "kimi_linear.KimiDeltaAttention",
        "lfm2.ShortConv",
        "lfm2_moe.ShortConv",
        "mamba.MambaBlock",
        "mamba2.Mamba2Block",
        "nemotron_h.NemotronHMamba2Mixer",
        "olmo_hybrid.GatedDeltaNet",
        "plamo2.Mamba",
        "qwen3_5.GatedDeltaNet",
        "qwen3_next.Qwen3NextGatedDeltaNet",
        "recurrent_gemma.RecurrentBlock",
        "rwkv7.Rwkv7ChannelMixing",
        "rwkv7.Rwkv7TimeMixing",
    }
)


_PRODUCTS = (
    *(nn.Linear, nn.QuantizedLinear),
    *(nn.AllToShardedLinear, nn.QuantizedAllToShardedLinear, nn.ShardedToAllLinear, nn.QuantizedShardedToAllLinear),
)


class _StandIn:
    """Is called in place of a module that `parent` holds by `name`, and has its attributes."""

    def __init__(self, parent: nn.Module, name: str) -> None:
        self.parent, self.name, self.module = parent, name, parent[name]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.module, name)


class _Product(_StandIn):
    """Notes what a matrix product returns, or returns the first rows of that again. Some layers call theirs token by
    token, on (1, width)."""

    def __init__(self, parent: nn.Module, name: str) -> None:
        super().__init__(parent, name)
        self.outputs: list[mx.array] = []
        self.replayed: Iterator[mx.array] | None = None

    def __call__(self, x: mx.array) -> mx.array:
        if self.replayed is not None:
            return next(self.replayed)
        out: mx.array = self.module(x)
        self.outputs.append(out)
        return out


class _Layer(_StandIn):
    """Notes what a recurrent layer is called with."""

    arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.arguments = args, named
        return self.module(*args, **named)


class _Pass(NamedTuple):
    """A pass over `rows` rows that began with `start` tokens in the cache."""

    start: int
    rows: int


class RecurrenceReplay:
    """The recurrent layers of one model, and what they were given in the latest pass that was recorded.

    Memory: the arguments and products of these layers for the rows of one pass, until the next.
    """

    def __init__(self, model: nn.Module, cache: ModelCache) -> None:
        self._cache = cache
        self._layers = [_Layer(*place) for place in _places(model, _is_recurrent)] if cache.replays else []
        inside = [place for layer in self._layers for place in _places(layer.module, _is_product)]
        self._products = [_Product(*place) for place in inside]
        self._recorded: _Pass | None = None
        self._records_next = False

    @property
    def nbytes(self) -> int:
        """The bytes of the arguments and products that are held."""
        arguments = [a for layer in self._layers for a in _values(layer.arguments) if isinstance(a, mx.array)]
        outputs = [out for product in self._products for out in product.outputs]
        return sum(array.nbytes for array in [*arguments, *outputs])

    def forget(self) -> None:
        """Lets go of the recorded pass."""
        if self._recorded is None:
            return
        self._recorded = None
        for layer in self._layers:
            layer.arguments = None
        for product in self._products:
            product.outputs.clear()

    def record_next(self) -> None:
        """Has the next pass recorded."""
        self._records_next = True

    @contextmanager
    def pass_over(self, rows: int) -> Iterator[None]:
        """Forgets the pass before, and records the one inside, over `rows` rows, if that was asked for and every
        recurrent state belongs to a known layer."""
        records, self._records_next = self._records_next, False
        self.forget()
        if not (records and self._layers):
            yield
            return
        self._recorded = _Pass(self._cache.length, rows)
        with _in_place([*self._layers, *self._products]):
            yield
        known = {id(leaf) for layer in self._layers for leaf in _values(layer.arguments)}
        if not all(id(leaf) in known for leaf in self._cache.states()):
            self.forget()

    def rewind(self, length: int) -> bool:
        """Takes the cache back to `length` tokens, if they end within the recorded pass; else returns False and changes
        nothing."""
        recorded = self._recorded
        if recorded is None or not recorded.start < length < min(self._cache.length, recorded.start + recorded.rows):
            return False  # also for what was taken back already: its rows were refused
        if not self._cache.restore_states(recorded.start, length):
            return False
        kept = length - recorded.start
        with _in_place(self._products):
            for product in self._products:
                product.replayed = iter([out if out.ndim == 2 else out[:, :kept] for out in product.outputs])
            for layer in self._layers:
                args, named = layer.arguments or ((), {})
                layer.module(
                    *(_first_rows(a, recorded.rows, kept) for a in args),
                    **{name: _first_rows(a, recorded.rows, kept) for name, a in named.items()},
                )
            for product in self._products:
                product.replayed = None
        return True


def _is_recurrent(module: Any) -> bool:
    return f"{type(module).__module__.rsplit('.', 1)[-1]}.{type(module).__name__}" in _LAYERS


def _is_product(module: Any) -> bool:
    return isinstance(module, _PRODUCTS)


def _places(root: Any, fits: Callable[[Any], bool]) -> list[tuple[nn.Module, str]]:
    """Returns where modules that fit are held: the module that holds each, and its name there."""
    return [(parent, name) for parent in root.modules() for name, child in parent.items() if fits(child)]


@contextmanager
def _in_place(stand_ins: Sequence[_StandIn]) -> Iterator[None]:
    """Has these called in place of their modules, inside."""
    for stand_in in stand_ins:
        stand_in.module = stand_in.parent[stand_in.name]
        dict.__setitem__(stand_in.parent, stand_in.name, stand_in)
    try:
        yield
    finally:
        for stand_in in stand_ins:
            dict.__setitem__(stand_in.parent, stand_in.name, stand_in.module)


def _values(arguments: tuple[tuple[Any, ...], dict[str, Any]] | None) -> list[Any]:
    args, named = arguments or ((), {})
    return [*args, *named.values()]


def _first_rows(argument: Any, rows: int, kept: int) -> Any:
    """Returns the first rows of an array (1, rows, ...), and anything else as it is."""
    if isinstance(argument, mx.array) and argument.ndim > 1 and argument.shape[1] == rows:
        return argument[:, :kept]
    return argument
