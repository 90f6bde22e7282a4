"""What Redline computes of a reference's folder whose configuration was changed: for `config_fields`."""

from __future__ import annotations

from pathlib import Path

import mlx.core as mx
import numpy as np
from tokenizers import Tokenizer, models

from engine.backend.mlx_lm_imports import why_unsound_type
from engine.target.cached_model import CachedModel
from models.loader import load_network
from models.model_folder import check_folder


def logits_or_reason(folder: Path, tokens: np.ndarray) -> np.ndarray | str:
    """Returns float32 logits (n, vocabulary), or why the folder is refused."""
    Tokenizer(models.WordLevel({f"w{number}": number for number in range(64)}, unk_token="w0")).save(
        str(folder / "tokenizer.json")
    )
    try:
        if reason := why_unsound_type(folder.name):  # one of these files ends the process
            return reason
        network, _ = load_network(check_folder(folder), in_32_bits=True)
        network.set_dtype(mx.float32)
        model = CachedModel(network)
        model.read_as(len(tokens))
        return np.array(model.forward(mx.array(tokens)).astype(mx.float32))
    except Exception as error:  # noqa: BLE001  broad: a hundred networks with values that nobody trained with
        return f"{type(error).__name__}: {error}".replace(str(folder), "")
