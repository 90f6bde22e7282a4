"""The draft vocabulary of a draft model: a file beside its weights, which other programs pass over.

`draft_vocabulary.safetensors` holds `d2t` as an EAGLE-3 head's weights do (`models.heads.folder.read_ids`): the tokens
that the model is asked for when it drafts (FR-Spec; Zhao 2025, arXiv 2502.14856). It knows all the others still, so
that the folder is an ordinary model folder to mlx-lm.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.errors import ModelError
from engine.shortlist import shorten_output
from models.heads.folder import open_head, read_ids
from models.load import Loaded
from models.tensors import write_tensors

NAME = "draft_vocabulary.safetensors"


def take_shortlist(drafter: Loaded, shared: int) -> mx.array | None:
    """Let a draft model compute the tokens of its draft vocabulary alone, and return their ids, (n,) int32, increasing;
    None without one. shared: the ids below which the target has the same tokens.

    Raises ModelError for a file that is damaged or names nothing that is shared.
    """
    ids = read_shortlist(drafter.folder.path, drafter.model.vocabulary)
    if ids is None:
        return None
    below: Any = mx.sum(ids < shared).item()
    usable = int(below)
    if not usable:
        raise ModelError(f"{drafter.folder.path}: {NAME} names no token that the target has; remove that file")
    shorten_output(drafter.network, ids[:usable])
    return ids[:usable]


def read_shortlist(path: Path, vocabulary: int) -> mx.array | None:
    """Ids of the draft vocabulary, (n,) int32, increasing, below `vocabulary`; None without one. Raises ModelError."""
    if not (path / NAME).is_file():
        return None
    folder = open_head(path, (NAME,))
    entry = folder.tensors.get("d2t")
    return read_ids(folder, folder.load(), entry.shape[0] if entry and entry.shape else vocabulary, vocabulary)


def write_shortlist(path: Path, ids: mx.array, vocabulary: int) -> None:
    """Raises OSError; writes nothing for the whole `vocabulary`."""
    if ids.size < vocabulary:
        offsets = ids.astype(mx.int32) - mx.arange(ids.size, dtype=mx.int32)
        write_tensors(path / NAME, {"d2t": offsets})
