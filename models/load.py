"""From a model folder to something that computes: checked, loaded by mlx-lm, fitted to the backend."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx_lm.utils import dequantize_model, load_model

from engine import backend
from engine.errors import ModelError
from engine.target import CachedModel
from models.folder import ModelFolder, check_folder
from models.tokenizer import FolderTokenizer


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, and what is known of it. context: tokens."""

    folder: ModelFolder
    network: Any
    model: CachedModel
    tokenizer: FolderTokenizer

    @property
    def name(self) -> str:
        return self.folder.path.name


def load(path: Path, kv_bits: int | None = None) -> Loaded:
    """Load the model folder at `path`.

    On CPU the weights become float32 (its quantized and 16-bit kernels are scalar code); on Metal
    they stay as they are. Raises ModelError for anything wrong with the folder.
    """
    folder = check_folder(path)
    network = _load_network(folder)
    if backend.describe().dequantize:
        network = in_float32(network)
    backend.wire()
    mx.eval(network.parameters())
    tokenizer = FolderTokenizer(folder.path, folder.eos_token_ids)
    return Loaded(folder, network, CachedModel(network, kv_bits), tokenizer)


def _load_network(folder: ModelFolder) -> Any:
    try:
        network, _ = load_model(folder.path, lazy=True, trust_remote_code=False)
    except (ValueError, KeyError, TypeError, AttributeError, RuntimeError, OSError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{folder.path} does not load ({type(error).__name__}: {reason}): "
            "the files do not belong together or mlx-lm does not know this model; download it again"
        ) from error
    return network


def in_float32(network: Any) -> Any:
    """The same network with every float in 32 bits and every quantized layer dequantized: in that order,
    or the 16-bit scales round every weight (0.11 instead of 0.00008 off in the built-in's logits)."""
    network.set_dtype(mx.float32)
    return dequantize_model(network)
