"""What a drafter may read of the target: its embedding, its output matrix, its layers' states, and keys and values.

The view is read-only and valid at the committed length: when a drafter is asked for a draft, or to catch up, every row
that it reads here belongs to a committed token. What it reads of a token that is refused later is the target's to take
back, and the drafter's in `rewind`.
"""

from collections.abc import Callable, Sequence
from functools import cached_property

import mlx.core as mx

from engine.cache.model_cache import LayerKV
from engine.errors import ModelError
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import RowsPass
from engine.target.model_layout import embed, layers_of, leading_layers_with_kv, unembed
from engine.together import run


class TargetView:
    """A view of `model`, the target.

    taps: points at which hidden states will be read, and latest_only: whether of the latest pass alone (see
    `engine.target.layer_taps`). kv_layers: layers whose keys and values will be read. Raises ModelError, or its kind
    UnsupportedCache, for a target that cannot show them, ValueError for a layer that it does not have.
    """

    def __init__(
        self, model: CachedModel, taps: Sequence[int] = (), latest_only: bool = False, kv_layers: Sequence[int] = ()
    ) -> None:
        self.model = model
        if kv_layers and model.leader is not None:
            raise ModelError("it reads keys and values, which are split over several machines: choose another drafter")
        if taps:
            model.layer_taps(tuple(taps), latest_only)
        for layer in kv_layers:
            self._check_layer(layer)
            model.cache.check_kv(layer)

    def embed(self, tokens: mx.array) -> mx.array:
        """Returns the embedding of ids (n,), (n, hidden), as the first layer sees it before any scaling."""
        return self._embed(tokens)

    def unembed(self, hidden: mx.array) -> mx.array:
        """Returns what the output matrix makes of states (n, hidden): logits (n, vocabulary)."""
        return run(RowsPass(self._unembed, [hidden], weights=(id(self.model.model), "output")))

    @property
    def shares_passes(self) -> bool:
        """Whether passes of the target are joined with those of other replies, and so those of layers like its own."""
        return self.model.shares_passes

    @property
    def length(self) -> int:
        """How many tokens of the sequence the target has seen."""
        return self.model.length

    @property
    def recorded(self) -> tuple[int, int]:
        """The stretch [start, end) of tokens whose hidden states can be read now."""
        taps = self.model.taps
        return (taps.start, taps.end) if taps is not None else (0, 0)

    def hidden(self, taps: Sequence[int], start: int, end: int) -> mx.array:
        """Returns the states at `taps` of tokens [start, end), side by side: (end - start, width), lazy.

        Point i is the stream at the input of layer i, point n, for n layers, the stream before the final norm, and
        `engine.target.layer_taps.NORMED` the one after it. A drafter reads forward: states before `start` are released.
        Raises ValueError for tokens or points that are not recorded.
        """
        if self.model.taps is None:
            raise ValueError("no hidden states are recorded: the drafter's needs name no layer taps")
        return self.model.taps.take(start, end, taps)

    def kv(self, layer: int) -> LayerKV:
        """Returns the keys and values of a layer, oldest token first; those of a sliding window go back as far as the
        layer still sees. Raises UnsupportedCache for a layer without any, ValueError for one that does not exist."""
        self._check_layer(layer)
        return self.model.cache.kv(layer)

    def _check_layer(self, layer: int) -> None:
        count = len(layers_of(self.model.model))
        if not 0 <= layer < count:
            raise ValueError(f"layer {layer} of a model with {count} layers: give 0 to {count - 1}")
        caches = len(self.model.cache.entries)
        if caches != count and not (layer < caches and leading_layers_with_kv(self.model.model) == caches):
            raise ModelError("the model's layers share their caches, so keys and values of one cannot be told apart")

    @cached_property
    def _embed(self) -> Callable[[mx.array], mx.array]:
        return embed(self.model.model)

    @cached_property
    def _unembed(self) -> Callable[[mx.array], mx.array]:
        return unembed(self.model.model)
