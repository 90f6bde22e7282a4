"""The draft vocabulary of a draft model or an MTP head: a file beside its weights, which other programs pass over.

`draft_vocabulary.safetensors` holds `d2t` as an EAGLE-3 head's weights do (`models.drafters.head_folder.read_ids`):
the tokens that the model drafts from (FR-Spec; Zhao 2025, arXiv 2502.14856). It still knows all the others, so that the
folder is an ordinary model folder to mlx-lm.
"""

from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.draft_vocabulary import shorten_output
from engine.errors import ModelError
from models.drafters.head_folder import open_head, read_ids
from models.loader import Loaded
from models.safetensors_file import read_entries, write_tensors

NAME = "draft_vocabulary.safetensors"


def apply_draft_vocabulary(drafter: Loaded, shared: int) -> mx.array | None:
    """Has a draft model compute only the tokens of its draft vocabulary; returns their ids, (n,) int32, increasing, or
    None if it has none. shared: the ids below which the target has the same tokens.

    Raises ModelError for a file that is damaged or names no shared token.
    """
    ids = read_draft_vocabulary(drafter.folder.path, drafter.model.vocabulary)
    if ids is None:
        return None
    below: Any = mx.sum(ids < shared).item()
    usable = int(below)
    if not usable:
        raise ModelError(f"{drafter.folder.path}: {NAME} names no token of the target; remove that file")
    shorten_output(drafter.network, ids[:usable])
    return ids[:usable]


def read_draft_vocabulary(path: Path, vocabulary: int) -> mx.array | None:
    """Returns the ids of the draft vocabulary, (n,) int32, increasing, below `vocabulary`; None without one. Raises
    ModelError for a damaged file."""
    if not (path / NAME).is_file():
        return None
    return read_ids(open_head(path, (NAME,)), vocabulary_size(path) or vocabulary, vocabulary)


def vocabulary_size(path: Path) -> int:
    """Returns how many tokens the draft vocabulary of the folder `path` has, 0 without one. Raises ModelError for a
    damaged file."""
    entry = read_entries(path / NAME).get("d2t") if (path / NAME).is_file() else None
    return entry.shape[0] if entry is not None and entry.shape else 0


def write_draft_vocabulary(path: Path, ids: mx.array, vocabulary: int) -> None:
    """Writes the draft vocabulary `ids`; nothing if they are the whole `vocabulary`. Raises OSError."""
    if ids.size < vocabulary:
        offsets = ids.astype(mx.int32) - mx.arange(ids.size, dtype=mx.int32)
        write_tensors(path / NAME, {"d2t": offsets})
