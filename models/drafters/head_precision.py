"""Gives a head the bits of its target, where its drafts are accepted as often with them.

Heads come in 16 bits. Beside a target of 4 bits each of their steps then reads four times as much as a layer of the
target, about 18 % of a pass of an 8B model. Whether drafts stay as good depends on the head, so it is tried on this
machine, once, and remembered. On a CPU targets are not quantized, and neither are heads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mlx.core as mx
import mlx.nn as nn

from models.drafters.drafter_kind import join_notes
from models.drafters.variant_trial import Variant, rates_of_trial
from models.parameters import flat_parameters

if TYPE_CHECKING:
    from models.drafters.drafter_kind import LoadedDrafter
    from models.loader import Loaded

HOLDS = 0.05  # by how much less of the drafts may be accepted: as much as a trial of 64 tokens can tell


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


def match_precision(
    found: LoadedDrafter,
    load: Callable[[], LoadedDrafter],
    folder: Path,
    target: Loaded,
    cache_root: Path | None = None,
) -> LoadedDrafter:
    """Returns `found`, a head for `target`, with matrices of the target's bits, and says so; or as it is stored, where
    the target is not quantized, the head is already, or fewer of its drafts are accepted in a trial.

    load: loads the same head again, as it is stored. folder: of the head. The trial empties the target's cache.
    """
    wanted, network = quantization_of(target.network), network_of(found.drafter)
    if wanted is None or network is None or quantization_of(network) is not None:
        return found
    spare = load()
    quantize(network_of(spare.drafter), wanted)
    variants = (Variant("as stored", lambda: found.drafter), Variant("quantized", lambda: spare.drafter))
    rates = rates_of_trial(variants, folder, target, str(wanted))
    if rates is None:
        return found
    stored, quantized = (f"{rate:.0%}" for rate in rates)
    if rates[1] < rates[0] - HOLDS:
        note = (
            f"left at full precision; in a trial {stored} of its drafted tokens were accepted, {quantized} in "
            f"{wanted.bits} bits"
        )
        return replace(found, note=join_notes(found.note, note))
    note = (
        f"quantized to {wanted.bits} bits like the target; in a trial {quantized} of its drafted tokens were accepted, "
        f"{stored} at full precision"
    )
    return replace(found, drafter=spare.drafter, note=join_notes(found.note, note))


def network_of(drafter: object) -> Any:
    """Returns the network of a head, None for a drafter that has none of its own."""
    network = getattr(drafter, "head", None) or getattr(drafter, "heads", None)
    return network if isinstance(network, nn.Module) else None


def quantize(network: Any, wanted: Quantization) -> None:
    """Quantizes the matrices of a head, its output matrix included, but for embeddings, which are only looked up."""

    def fits(_: str, module: nn.Module) -> bool:
        matrix = module.get("weight")
        return (
            hasattr(module, "to_quantized")
            and not isinstance(module, nn.Embedding)
            and isinstance(matrix, mx.array)
            and matrix.ndim >= 2
            and matrix.shape[-1] % wanted.group_size == 0
        )

    nn.quantize(network, wanted.group_size, wanted.bits, mode=wanted.mode, class_predicate=fits)
    mx.eval(flat_parameters(network))
