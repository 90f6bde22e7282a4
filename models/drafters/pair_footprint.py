"""The memory that a target and its drafters take together, from their folders."""

from collections.abc import Sequence
from pathlib import Path

import mlx.core as mx

from engine.backend.memory import kept_bytes
from models.drafters import kind_of
from models.loader import not_loading
from models.memory.memory_verdict import Footprint, FootprintAt, Share
from models.memory.model_size import measure
from models.model_folder import ModelFolder


def pair_footprint(
    target: ModelFolder,
    drafters: Sequence[Path] = (),
    kv_bits: int | None = None,
    group: mx.distributed.Group | None = None,
) -> FootprintAt:
    """Returns the memory by the length of the context, for a target with all these drafters loaded.

    kv_bits: of the target's keys and values. group: over which the target is split; this rank's memory is returned.
    Raises ModelError if a folder would not load.
    """
    measured = measure(target, kv_bits, group)
    shares = []
    for path in drafters:
        with not_loading(path):
            shares.append(kind_of(path, target.path).files.footprint(path, measured.item_bytes))

    def at(context: int) -> Footprint:
        drafter = Share.together([share(context) for share in shares])
        return Footprint(context, measured.share(context), drafter, kept_bytes())

    return at
