"""The sizes of a model, from its files: it is assembled as for loading, but nothing is evaluated.

MLX knows the shape and type of an array that was never computed, so weights (dequantized or not), and the cache that a
pass would fill, can be added up for any architecture without reading a weight.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine import backend
from engine.cache.model_cache import CacheGrowth, ModelCache
from engine.errors import ModelError, UnsupportedCache
from engine.target.cached_model import PREFILL_CHUNK
from engine.target.model_layout import layers_of
from engine.target.recurrence_replay import RecurrenceReplay
from models.loader import assemble, not_loading
from models.memory.memory_verdict import TOKEN_BYTES, Share
from models.model_config import first_count
from models.model_folder import ModelFolder
from models.parameters import flat_parameters, weights_bytes
from models.paths import name_of

_REMEMBERED = 8  # models
FUSED_HEADS = (64, 80, 128)  # head sizes for which MLX's Metal kernels keep no scores
VERIFY_ROWS = 9
_LOGITS_COPIES = 6  # arrays as large as the logits at the same time: logits, probabilities, noise, what is drawn
_INNER, _HIDDEN = 3, 5  # arrays of either width at the same time, on the way through a layer
_HEADS = ("num_attention_heads", "n_heads", "n_head", "num_heads")


@dataclass(frozen=True)
class ModelSize:
    """The sizes of a model. weights_bytes, loading_bytes: see `Share`. item_bytes: of an activation. inner: the widest
    activation in a layer. scores: attention heads whose scores are kept during a pass, 0 where none are. growth: of
    each layer's cache. recorded: bytes that recurrent layers keep of every row of a verify pass, until the next."""

    weights_bytes: int
    loading_bytes: int
    item_bytes: int
    hidden: int
    inner: int
    scores: int
    vocabulary: int
    growth: tuple[CacheGrowth, ...]
    recorded: int = 0

    def share(self, context: int) -> Share:
        """Returns the memory that the model takes at `context` tokens."""
        rows = min(PREFILL_CHUNK, context)
        activations = rows * (_INNER * self.inner + _HIDDEN * self.hidden) * self.item_bytes
        scores = rows * context * self.scores * self.item_bytes
        sampling = VERIFY_ROWS * self.vocabulary * _LOGITS_COPIES * 4
        layers = [(layer.bytes_at(context, PREFILL_CHUNK), layer.marked_bytes(PREFILL_CHUNK)) for layer in self.growth]
        cache = sum(held + marked for held, marked in layers) + VERIFY_ROWS * self.recorded
        working = max(activations + scores, sampling)
        return Share(self.weights_bytes, self.loading_bytes, cache, working, self.vocabulary * TOKEN_BYTES)


def measure(folder: ModelFolder, kv_bits: int | None = None, group: mx.distributed.Group | None = None) -> ModelSize:
    """Returns the sizes of the model in a checked folder, or of what this rank of a `group` computes of it. They are
    remembered while its files stay as they are.

    Raises ModelError if it would not load, UnsupportedCache if its keys and values cannot have so many bits.
    """
    files = [*sorted(folder.path.glob("*.safetensors")), folder.path / "config.json"]
    try:
        stats = [(str(path), path.stat()) for path in files]
    except OSError as error:
        what = f"{folder.path}: its files were removed or changed after it was opened ({error.strerror})"
        raise ModelError(f"{what}; put them back, or load another model") from error
    key = tuple((path, stat.st_size, stat.st_mtime_ns) for path, stat in stats), kv_bits, group.size() if group else 1
    if key not in _remembered:
        while len(_remembered) >= _REMEMBERED:
            del _remembered[next(iter(_remembered))]
        _remembered[key] = _measure(folder, kv_bits, group)
    return _remembered[key]


def _measure(folder: ModelFolder, kv_bits: int | None, group: mx.distributed.Group | None) -> ModelSize:
    network = assemble(folder, group)
    cache = ModelCache(network, kv_bits)
    recurrence = RecurrenceReplay(network, cache)
    recurrence.record_next()
    with recurrence.pass_over(1):
        logits = _first_pass(network, cache, folder, kv_bits)
    config = folder.config
    weights = weights_bytes(network)
    hidden = first_count(config, "hidden_size", "n_embd", "d_model", "dim") or inner_width(network)
    return ModelSize(
        weights_bytes=weights,
        loading_bytes=_loading_bytes(folder, weights, group),
        item_bytes=logits.dtype.size,
        hidden=hidden,
        inner=inner_width(network),
        scores=_scores(config, hidden),
        vocabulary=logits.shape[-1],
        growth=tuple(cache.growth()),
        recorded=recurrence.nbytes,
    )


def _loading_bytes(folder: ModelFolder, weights: int, group: mx.distributed.Group | None) -> int:
    """Returns what loading takes beside the weights: all that is stored where it is converted; of a model that is split
    the largest array, whole and in the type that it is computed in, as one is read after the other."""
    if group is not None:
        return 2 * max(array.nbytes for array in flat_parameters(assemble(folder)).values())
    return folder.weights_bytes if weights != folder.weights_bytes else 0


def _first_pass(network: Any, cache: ModelCache, folder: ModelFolder, kv_bits: int | None) -> mx.array:
    """Returns logits (1, 1, vocabulary) that are never evaluated; `cache` then holds a token."""
    with not_loading(folder.path):
        try:
            logits: mx.array = network(mx.zeros((1, 1), mx.int32), cache=cache.entries)
        except ValueError as error:
            if kv_bits is None:
                raise
            raise UnsupportedCache(
                f"{name_of(folder.path)} does not support {kv_bits}-bit keys and values ({error}): leave out --kv-bits"
            ) from error
    return logits


def inner_width(network: Any) -> int:
    """Returns the widest output of a linear map in a layer."""
    found = [1]
    for layer in layers_of(network)[:1] + layers_of(network)[-1:]:
        for _, module in layer.named_modules():
            if isinstance(module, nn.Module) and "weight" in module and module.weight.ndim >= 2:
                found.append(int(module.weight.shape[-2]))
    return max(found)


def _scores(config: Mapping[str, Any], hidden: int) -> int:
    """Returns how many heads keep their scores in memory, one number for each query and key."""
    heads = first_count(config, *_HEADS) or max(1, hidden // 64)
    size = first_count(config, "head_dim") or hidden // heads
    return 0 if backend.describe().device == "gpu" and size in FUSED_HEADS else heads


_remembered: dict[tuple[tuple[tuple[str, int, int], ...], int | None, int], ModelSize] = {}
