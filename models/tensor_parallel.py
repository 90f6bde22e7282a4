"""Splits a network over the ranks of a group by mlx-lm's own `shard`, or says why that cannot be."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.errors import ModelError


def shard(network: Any, group: mx.distributed.Group) -> None:
    """Leaves of a network what this rank computes. Its weights may still be on the disk.

    The output matrix stays whole on every rank: a drafter reads it too, and the logits of a pass need not travel.
    Raises ModelError for an architecture that mlx-lm does not split, or a shape that so many ranks do not divide.
    """
    kind, ranks = type(network).__module__.rpartition(".")[2], group.size()
    if not hasattr(network, "shard"):
        raise ModelError(f"mlx-lm cannot split {kind} models over several machines: use one machine or another model")
    holder = getattr(network, "language_model", network)
    output, before = holder.get("lm_head"), _counts(network)
    try:
        network.shard(group)
    except (AssertionError, ValueError) as error:
        raise ModelError(
            f"this {kind} model cannot be split evenly over {ranks} machines ({error}): use another number"
        ) from error
    if isinstance(output, nn.Module) and holder.lm_head is not output:
        holder.lm_head, holder.sharding_group = output, None
    after = _counts(network)
    for name, count in before.items():
        if count % ranks and after.get(name) == count // ranks:
            raise ModelError(
                f"this {kind} model has {name} {count}, which {ranks} machines do not divide: use a number that does"
            )


def _counts(network: Any) -> dict[str, int]:
    """Returns every whole number that a module keeps, such as its attention heads, by the module's name."""
    return {
        f"{path}.{name}": value
        for path, module in network.named_modules()
        for name, value in vars(module).items()
        if type(value) is int and not name.startswith("_")
    }
