"""Loads a model folder: checked, loaded by mlx-lm, and made fit for the backend."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx import nn

from engine import backend
from engine.backend import memory
from engine.backend.mlx_lm_imports import load_model, why_unsound_type
from engine.errors import ModelError, RedlineError
from engine.target.cached_model import CachedModel
from models import tokenizer_process
from models.corrections import corrected_classes
from models.dequantization import dequantize
from models.model_config import for_mlx_lm
from models.model_folder import ModelFolder, check_folder
from models.parallel import split
from models.parameters import flat_parameters
from models.paths import name_of
from models.quantization_methods import WHAT_TO_DO, method_of
from models.tokenizer import FolderTokenizer


@dataclass(frozen=True)
class Loaded:
    """A model ready to run, with its folder and tokenizer. network: mlx-lm's own model, inside `model`."""

    folder: ModelFolder
    network: Any
    model: CachedModel
    tokenizer: FolderTokenizer

    @property
    def name(self) -> str:
        return name_of(self.folder.path)


def load(path: Path, kv_bits: int | None = None, group: mx.distributed.Group | None = None) -> Loaded:
    """Loads the model folder at `path`, or of it what this rank of a `group` computes.

    On CPU the weights become float32 (its quantized and 16-bit kernels are scalar code); on Metal
    they stay as they are. Raises ModelError for anything wrong with the folder.
    """
    folder = check_folder(path)
    tokenizer_process.shared().start()  # which takes a second or two, while the weights are read
    network = assemble(folder, group)
    memory.hold_weights()
    read_weights(network, group)
    tokenizer = FolderTokenizer(folder.path, folder.eos_token_ids, _rows(folder, network))
    with not_loading(folder.path):
        model = CachedModel(network, kv_bits)
    return Loaded(folder, network, model, tokenizer)


def load_part(path: Path, kv_bits: int | None, group: mx.distributed.Group) -> CachedModel:
    """Returns what this rank of a `group` computes of the model at `path`, with no tokenizer. Raises as `load`."""
    network = assemble(check_folder(path), group)
    memory.hold_weights()
    read_weights(network, group)
    with not_loading(path):
        return CachedModel(network, kv_bits)


def read_weights(network: Any, group: mx.distributed.Group | None) -> None:
    """Reads the weights of a network. Of one that is split, one array after the other: each is read whole and then cut,
    and together they need not fit into memory."""
    if group is None:
        mx.eval(network.parameters())
        return
    for array in flat_parameters(network).values():
        mx.eval(array)


def _rows(folder: ModelFolder, network: Any) -> int | None:
    """Returns how many tokens the embedding has, None if neither the network nor the config says. Of several embeddings
    the largest is that of tokens; that of positions is small."""
    found = [m.weight.shape[0] for m in network.modules() if isinstance(m, nn.Embedding | nn.QuantizedEmbedding)]
    return min((rows for rows in (max(found, default=None), folder.rows) if rows), default=None)


def assemble(folder: ModelFolder, group: mx.distributed.Group | None = None) -> Any:
    """Returns the network of a checked folder as it will compute, its weights still on the disk; what this rank of a
    `group` computes of it. Raises ModelError."""
    if reason := why_unsound_type(folder.model_type):
        raise ModelError(
            f"{folder.path}: {folder.model_type} models cannot be decoded exactly ({reason}); choose another model"
        )
    with not_loading(folder.path):
        return _whole(folder) if group is None else split(lambda: _whole(folder), group)


def _whole(folder: ModelFolder) -> Any:
    in_32_bits = backend.describe().dequantize
    network, _ = load_network(folder, in_32_bits)
    return in_float32(network) if in_32_bits else network


def load_network(folder: ModelFolder, in_32_bits: bool = False) -> tuple[Any, dict[str, Any]]:
    """Returns the network of a checked folder, corrected, its weights still on the disk, and the configuration that it
    was built from. in_32_bits: see `corrected_classes`."""
    config = for_mlx_lm(folder.config)
    changes = {key: value for key, value in config.items() if folder.config.get(key, ...) != value}
    with not_loading(folder.path, method_of(folder.config)):
        network, config = load_model(
            folder.path,
            lazy=True,
            trust_remote_code=False,
            model_config=changes,
            get_model_classes=partial(corrected_classes, in_float32=in_32_bits, without=folder.head_tensors),
        )
    return network, config


@contextmanager
def not_loading(path: Path, method: str | None = None) -> Iterator[None]:
    """Turns what mlx-lm raises for a config or weights that it cannot use into a ModelError about `path`.

    method: how another program quantized the weights.
    """
    try:
        yield
    except RedlineError:
        raise
    except (Exception, SystemExit) as error:  # broad: mlx-lm has a hundred models' code, which trusts their files
        backend.raise_if_machine_lost(error)
        reason = " ".join(str(error).split())[:300]
        raise ModelError(
            f"{path} does not load ({type(error).__name__}: {reason}): {_advice(reason, method)}"
        ) from error


def _advice(reason: str, method: str | None) -> str:
    """Returns what is wrong with a model, and what to do. reason: what mlx-lm says."""
    if method is not None:
        return (
            f"its weights were quantized with {method}, which mlx-lm does not read for this architecture; {WHAT_TO_DO}"
        )
    if reason.startswith("Model type") and reason.endswith("not supported."):
        return "mlx-lm does not have this architecture; choose another model"
    if reason.startswith("Received"):
        return (
            "it has tensors that mlx-lm's network of this architecture lacks, so they would not be computed; "
            "choose another version of the model"
        )
    return (
        "the files do not belong together, or mlx-lm does not know this variant of the architecture; download it again"
    )


def in_float32(network: Any) -> Any:
    """Returns the network with every float in 32 bits and every quantized layer dequantized: in that order, or the
    16-bit scales round every weight (0.11 instead of 0.00008 off in the built-in model's logits)."""
    network.set_dtype(mx.float32)
    return dequantize(network, mx.float32)
