"""Splits a network over the ranks of a group, by mlx-lm's own `shard` within its layers, else by its `pipeline` between
them, or says why that cannot be."""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.cache.model_cache import ModelCache
from engine.errors import ModelError
from engine.target.model_layout import pipeline_of


def split(make: Callable[[], Any], group: mx.distributed.Group) -> Any:
    """Returns what this rank computes of the network that `make` returns anew at each call: a part of every layer, or,
    where that cannot be, some of the layers. Raises ModelError where neither can be, with the reason of the last."""
    network = make()
    try:
        shard(network, group)
    except ModelError:
        network = make()  # of the first some layers may be split
        if pipeline_of(network) is None:
            raise
        pipeline(network, group)
    return network


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


def pipeline(network: Any, group: mx.distributed.Group) -> None:
    """Leaves of a network's layers what this rank computes; rank 0 has the last ones. Its embedding and its output
    matrix stay whole. Raises ModelError where mlx-lm cannot, or where ranks could not rewind alike."""
    kind, ranks = type(network).__module__.rpartition(".")[2], group.size()
    stage, before = pipeline_of(network), ModelCache(network).classes
    if stage is None:
        raise ModelError(f"mlx-lm has no pipeline for {kind} models: use one machine or another model")
    try:
        stage.pipeline(group)
    except ValueError as error:
        raise ModelError(
            f"the layers of this {kind} model cannot be divided over {ranks} machines ({error}): use fewer"
        ) from error
    if ModelCache(network).classes != before:
        raise ModelError(
            f"this {kind} model has too few layers of each kind ({', '.join(sorted(before))}) for {ranks} machines: "
            "use fewer"
        )


def _counts(network: Any) -> dict[str, int]:
    """Returns every whole number that a module keeps, such as its attention heads, by the module's name."""
    return {
        f"{path}.{name}": value
        for path, module in network.named_modules()
        for name, value in vars(module).items()
        if type(value) is int and not name.startswith("_")
    }
