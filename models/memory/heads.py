"""What a head that reads the target's states takes, from the shapes in its files."""

from __future__ import annotations

import math
from pathlib import Path

from engine.target import PREFILL_CHUNK
from models.folder import folder_names
from models.memory.footprint import Share
from models.safetensors_file import Entry, read_entries

_LEFT_ON_DISK = ("embed_tokens.weight", "verifier_lm_head.weight", "verifier_norm.weight", "d2t", "t2d")
_KEPT = ("k_proj.weight", "v_proj.weight")  # whose rows stand in the head's own cache, one a token
_FUSED = "fc.weight"  # whose columns are the features of a token
_STEP = 256  # tokens by which its cache grows
_COPIES = 3  # of a chunk's features at the same time: as they came, side by side, and fused


def share_of_head(path: Path, item_bytes: int, context: int) -> Share:
    """item_bytes: of a number of the target, which a head computes in. Raises ModelError for damaged files."""
    files = [path / name for name in folder_names(path) if name.endswith(".safetensors")]
    entries = [entry for file in files for entry in read_entries(file).values() if not _is_beside(entry)]
    numbers = sum(math.prod(entry.shape) for entry in entries)
    rows = sum(entry.shape[0] for entry in entries if entry.name.endswith(_KEPT))
    wide = sum(entry.shape[1] for entry in entries if entry.name.endswith(_FUSED))
    held = -(-context // _STEP) * _STEP
    stored = sum(entry.size_bytes for entry in entries)
    return Share(
        weights=numbers * item_bytes,
        loading=stored if stored != numbers * item_bytes else 0,
        cache=held * rows * item_bytes,
        working=_COPIES * min(PREFILL_CHUNK, context) * wide * item_bytes,
    )


def _is_beside(entry: Entry) -> bool:
    return entry.name in _LEFT_ON_DISK
