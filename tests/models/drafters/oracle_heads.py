"""The heads of `oracles`, what their reference implementations found, and how near ours must come."""

from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np

from engine.drafters.head_layers import DraftVocabularyHead
from models.drafters import kind_of
from models.drafters.head_files import HeadFiles
from models.drafters.head_folder import open_head, read_ids
from models.drafters.head_weights import evaluate_weights
from models.drafters.mtp import FILES as MTP_FILES
from models.drafters.target_match import TargetShape
from models.durable_files import read_json_object

ORACLES = Path(__file__).parent / "oracles"
CLOSE = 1e-5  # of the larger of 1 and the largest number expected, in float32

GEMMA: dict[str, Any] = {
    "model_type": "gemma4",
    "text_config": {
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 2,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
    },
}

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
    of_target = GEMMA if folder.name.startswith("gemma4") else config
    shape = TargetShape("target", rows, layers, hidden, lambda points: hidden * len(points), {}, of_target)
    files = kind_of(folder).files if not folder.name.startswith(("qwen", "nextn")) else MTP_FILES
    assert isinstance(files, HeadFiles)
    head = files.build(folder, shape)
    if isinstance(head, DraftVocabularyHead):
        head.set_draft_vocabulary(read_ids(open_head(folder), head.ids.size, rows))
    evaluate_weights(head, mx.float32)
    return head


def far(ours: mx.array, theirs: np.ndarray) -> float:
    """The largest difference, in units of the larger of 1 and the largest number expected. Tokens that have no
    probability here have the least logit there."""
    found, expected = np.array(ours), theirs.reshape(ours.shape)
    possible = np.isfinite(found)
    return float(np.abs(found - expected)[possible].max() / max(np.abs(expected[possible]).max(), 1))
