"""Gives each rank of a group some of a network's layers, by mlx-lm's own `pipeline`, where no layer can be split."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx

from engine.cache.model_cache import ModelCache
from engine.errors import ModelError
from engine.target.model_layout import pipeline_of
from models.tensor_parallel import shard


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
