"""The weights of a head: put into its network, quantized as its target's are, and measured.

Tensors are compared with the network by name and shape. A tensor that is quantized stands as `weight`, `scales` and, in
affine mode, `biases`, as `mlx.nn.quantize` writes it.
Its bits and group size follow from the shapes, so configs that name each module by another layout's name need not be
read."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine import backend
from engine.errors import ModelError
from engine.target.cached_model import PREFILL_CHUNK
from models.dequantization import dequantize
from models.drafters.head_folder import ANOTHER_DRAFTER, DOES_NOT_MATCH
from models.memory.memory_verdict import Share
from models.parameters import cast, flat_parameters, weights_bytes

_BITS, _GROUPS = (2, 3, 4, 5, 6, 8), (32, 64, 128)  # of affine quantization, as MLX has kernels for
_MODES = {(4, 32): "mxfp4", (4, 16): "nvfp4", (8, 32): "mxfp8"}  # bits and group size of what has no biases
MIN_SHARE = 1 / 40  # of the target's bytes, for a head to be quantized: see `match_precision`
_PACKED = (mx.uint32, mx.uint8)  # quantized weights, and scales of the micro-scaled types
_CACHED = (
    "k_proj.weight",
    "v_proj.weight",
    "kv_a_proj_with_mqa.weight",
    "indexer.wk.weight",
    "query_key_value.weight",  # the queries' rows, which do not, among them
)  # whose rows stand in the head's own cache, one a token
_FUSED = "fc.weight"  # whose columns are the tapped states of a token
_CACHE_STEP = 256  # tokens by which the head's cache grows
_COPIES = 3  # of a chunk's tapped states at the same time: as they came, side by side, and fused


def fill(path: Path, network: nn.Module, tensors: Mapping[str, mx.array]) -> None:
    """Makes `tensors`, by the network's names, the weights of `network`; modules that they hold quantized become so.

    path: of the folder, for messages. Nothing is evaluated. Raises ModelError, naming the first tensor that is missing,
    left over, or of the wrong shape or kind of number.
    """
    nn.quantize(network, class_predicate=lambda name, module: _quantization(path, name, module, tensors))
    wanted = flat_parameters(network)
    for name, value in wanted.items():
        if name not in tensors:
            raise ModelError(f"{path}: lacks the tensor {name!r}; {DOES_NOT_MATCH}")
        found = tensors[name]
        if found.shape != value.shape:
            raise ModelError(f"{path}: the tensor {name!r} is {found.shape}, not {value.shape}; {DOES_NOT_MATCH}")
        if mx.issubdtype(found.dtype, mx.floating) != mx.issubdtype(value.dtype, mx.floating):
            kinds = [str(array.dtype).rpartition(".")[2] for array in (found, value)]
            raise ModelError(f"{path}: the tensor {name!r} is stored as {kinds[0]}, not {kinds[1]}; {DOES_NOT_MATCH}")
    for name in sorted(tensors.keys() - wanted.keys()):
        raise ModelError(f"{path}: unknown tensor {name[:80]!r} for a head of this kind; {ANOTHER_DRAFTER}")
    network.load_weights(list(tensors.items()))


def stored_tensors(head: Any) -> dict[str, mx.array]:
    """Returns what a head's file holds: its weights in 16 bits, and as `d2t` and `t2d` which tokens it knows, if not
    all."""
    weights = {name: value.astype(mx.float16) for name, value in flat_parameters(head).items()}
    ids = head.token_map
    if ids is None:
        return weights
    known = mx.zeros(head.config.vocab_size, mx.bool_)
    known[ids] = True
    return {**weights, "d2t": ids.astype(mx.int64) - mx.arange(ids.size), "t2d": known}


def evaluate_weights(network: nn.Module, dtype: mx.Dtype) -> None:
    """Evaluates the weights in the type that the target computes in, as `cast` does; on CPU quantized modules are
    dequantized, as their kernels are scalar code there."""
    if backend.describe().dequantize:
        network.set_dtype(mx.float32)
        dequantize(network, mx.float32)
    cast(network, dtype)
    mx.eval(flat_parameters(network))


def _quantization(path: Path, name: str, module: Any, tensors: Mapping[str, mx.array]) -> bool | dict[str, object]:
    """How `mlx.nn.quantize` shall quantize a module; False where its tensors are plain."""
    scales = tensors.get(f"{name}.scales")
    if scales is None or not hasattr(module, "to_quantized"):
        return False
    packed = tensors.get(f"{name}.weight")
    width = module.weight.shape[-1]
    if packed is None or packed.dtype != mx.uint32 or not packed.ndim or scales.ndim != packed.ndim or not scales.size:
        raise ModelError(f"{path}: the tensor {name + '.scales'!r} has no quantized weight beside it; {DOES_NOT_MATCH}")
    bits, group = packed.shape[-1] * 32 / width, width / scales.shape[-1]
    affine = f"{name}.biases" in tensors
    if affine and bits in _BITS and group in _GROUPS:
        return {"bits": int(bits), "group_size": int(group)}
    if affine or (bits, group) not in _MODES:
        raise ModelError(
            f"{path}: {name!r} is quantized in an unknown way ({bits:g} bits by {group:g}); {ANOTHER_DRAFTER}"
        )
    return {"bits": int(bits), "group_size": int(group), "mode": _MODES[bits, group]}


# --- precision ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Quantization:
    """How matrices are quantized, as `mlx.nn.quantize` takes it."""

    bits: int
    group_size: int
    mode: str


def quantization_of(network: Any) -> Quantization | None:
    """Returns how most matrices of a network are quantized, None if none is."""
    kinds = Counter(
        Quantization(module.bits, module.group_size, module.mode)
        for module in network.modules()
        if isinstance(module, nn.QuantizedLinear)
    )
    return kinds.most_common(1)[0][0] if kinds else None


def match_precision(head: Any, target: Any) -> str:
    """Gives a head the bits of its target where it has many bytes for the target; returns a note that says so, or "".

    The rule: the matrices of a head are quantized as most of the target's are, unless the target is not quantized (as
    on a CPU, where weights are floats), the head already is, or it has less than 1/40 of the target's bytes
    (`MIN_SHARE`). Decoding reads all weights in every pass, so a step of a head costs about as much of a pass as it has
    of the target's bytes: 18 % for a head in 16 bits beside an 8B target in 4. A draft of three at 1/40 costs 7.5 % of
    a pass, of which 4 bits save three quarters: about the 5 % that 4 bits may cost in acceptance. Above that more is
    saved than can be lost, below it less.
    """
    wanted = quantization_of(target)
    if wanted is None or quantization_of(head) is not None or share_of(head, target) < MIN_SHARE:
        return ""
    quantize(head, wanted)
    return f"quantized to {wanted.bits} bits like the target"


def quantize(network: Any, wanted: Quantization) -> None:
    """Quantizes the matrices of a head, its output matrix included, but for embeddings, which are only looked up."""

    def fits(_: str, module: nn.Module) -> bool:
        return _is_matrix(module) and module["weight"].shape[-1] % wanted.group_size == 0

    nn.quantize(network, wanted.group_size, wanted.bits, mode=wanted.mode, class_predicate=fits)
    mx.eval(flat_parameters(network))


def share_of(head: Any, target: Any, more_bytes: float = 0) -> float:
    """Returns the bytes of a head's matrices, and `more_bytes`, as a share of all of its target's."""
    read = sum(module["weight"].nbytes for module in head.modules() if _is_matrix(module))
    return float((read + more_bytes) / weights_bytes(target))


def _is_matrix(module: Any) -> bool:
    """Whether a step reads all of a module's weight: an embedding is only looked up."""
    matrix = module.get("weight")
    found = hasattr(module, "to_quantized") and not isinstance(module, nn.Embedding)
    return found and isinstance(matrix, mx.array) and matrix.ndim >= 2


# --- memory ------------------------------------------------------------------------------------


def head_footprint(tensors: Mapping[str, mx.array], item_bytes: int) -> Callable[[int], Share]:
    """Returns the memory that a head takes, by the length of the context, from the types and shapes of its tensors.

    item_bytes: of a number of the target, which a head computes in. Quantized tensors stay as they are where the
    backend keeps quantized weights.
    """
    packed_bytes = sum(value.nbytes for value in tensors.values() if value.dtype in _PACKED)
    numbers = sum(value.size for value in tensors.values() if value.dtype not in _PACKED)
    if backend.describe().dequantize:  # a packed one is taken to have 4 bits a number, the least that is usual
        packed_bytes *= 2 * item_bytes
    weights = packed_bytes + numbers * item_bytes
    rows = sum(value.shape[0] for name, value in tensors.items() if name.endswith(_CACHED) and value.ndim)
    tapped = sum(value.shape[1] for name, value in tensors.items() if name.endswith(_FUSED) and value.ndim == 2)
    stored = sum(value.nbytes for value in tensors.values())

    def at(context: int) -> Share:
        return Share(
            weights=weights,
            loading=stored if stored != weights else 0,
            cache=-(-context // _CACHE_STEP) * _CACHE_STEP * rows * item_bytes,
            working=_COPIES * min(PREFILL_CHUNK, context) * tapped * item_bytes,
        )

    return at
