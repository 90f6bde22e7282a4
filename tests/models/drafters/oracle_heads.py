"""The heads of `oracles`, what their reference implementations found, and how near ours must come."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from models.drafters import dflash_folder, eagle3_folder, gemma4_assistant_folder, mtp_folder
from models.drafters.head_folder import open_head, read_ids
from models.drafters.head_weights import settle
from models.drafters.target_match import TargetShape
from models.durable_files import read_json_object

ORACLES = Path(__file__).parent / "oracles"
CLOSE = 1e-5  # of the larger of 1 and the largest number expected, in float32

Arrays = dict[str, np.ndarray]


def recorded(folder: Path, names: tuple[str, ...] = ("expected.npz", "rounds.npz")) -> Arrays:
    """What the reference was given and found, in one run and in rounds."""
    files = [folder / name for name in names if (folder / name).is_file()]
    return {name: value for file in files for name, value in np.load(file).items()}


def embedding_of(folder: Path, want: Arrays) -> mx.array:
    """The embedding (vocabulary, hidden) of the target that the head was run with."""
    if "emb" in want:
        return mx.array(want["emb"])
    tensors: Any = mx.load(str(folder / "model.safetensors"))
    name = "embed_tokens.weight" if "embed_tokens.weight" in tensors else "model.embed_tokens.weight"
    embedding: mx.array = tensors[name]
    return embedding


def head_of(folder: Path) -> Any:
    """The head in `folder`, in float32."""
    embedding = embedding_of(folder, recorded(folder))
    config = read_json_object(folder / "config.json")
    (rows, hidden), layers = embedding.shape, config.get("num_target_layers", config.get("num_hidden_layers", 8))
    assert isinstance(layers, int)
    shape = TargetShape("target", rows, layers, hidden, lambda points: hidden * len(points), {})
    if folder.name.startswith(("qwen", "nextn")):
        head: Any = mtp_folder._filled(mtp_folder._open(folder, config), shape)
    elif folder.name.startswith(("dflash", "dspark")):
        opened = open_head(folder, ("model",))
        head = dflash_folder._filled(opened, dflash_folder._tensors(opened), shape)
    elif folder.name.startswith("gemma4"):
        head = gemma4_assistant_folder._filled(open_head(folder, ("model",)), shape)
    else:
        head = _eagle(folder, shape)
    settle(head, mx.float32)
    return head


def _eagle(folder: Path, shape: TargetShape) -> Any:
    opened = open_head(folder, ("model",))
    tensors = eagle3_folder._tensors(opened)
    if opened.config.get("speculators_model_type") == "eagle3":
        del tensors["embed_tokens.weight"]  # the target's
    head = eagle3_folder._filled(opened, tensors, shape)
    head.set_draft_vocabulary(read_ids(opened, opened.load(), head.config.draft_vocab_size, shape.rows))
    return head


def far(ours: mx.array, theirs: np.ndarray) -> float:
    """The largest difference, in units of the larger of 1 and the largest number expected. Tokens that have no
    probability here have the least logit there."""
    found, expected = np.array(ours), theirs.reshape(ours.shape)
    possible = np.isfinite(found)
    return float(np.abs(found - expected)[possible].max() / max(np.abs(expected[possible]).max(), 1))
