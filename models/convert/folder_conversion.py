"""Converts a Hugging Face folder to an MLX model folder, with mlx-lm's own loading, quantization and saving.

The new folder appears whole or not at all. A conversion that is stopped starts again from the beginning: it takes
minutes, and mlx-lm's writer cannot continue. Files for the tokenizer are copied as they are, and only those
named here, so never code.
"""

import contextlib
import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.backend.mlx_lm_imports import (
    quantize_model,
    save_config,
    save_model,
    why_unsound_type,
)
from engine.errors import ModelError
from models.convert.atomic_folder import (
    FolderSource,
    ImportProgress,
    OnProgress,
    build_folder,
    check_space,
    ignore_progress,
)
from models.convert.stored_head import stored_head
from models.dequantization import dequantize
from models.drafters.mtp import write_mtp
from models.loader import load_network, not_loading
from models.model_config import config_parts
from models.model_folder import TOKENIZER_FILES, ModelFolder, check_folder, copy_tokenizer
from models.parameters import cast, weights_bytes
from models.storage_options import FLOAT_TYPES, StorageOptions
from models.tokenizer import FolderTokenizer

_QUANTIZED = ("quantization", "quantization_config")


def convert_folder(
    source: Path,
    folder: Path,
    options: StorageOptions | None = None,
    on_progress: OnProgress = ignore_progress,
    replace: bool = True,
) -> Path:
    """Makes the MLX model folder `folder` from the Hugging Face folder `source`, or reuses it if it is current.

    Returns `folder`. Raises ModelError: the source is damaged, needs code of its own, is already quantized or of an
    architecture that mlx-lm does not know; `folder` was not made by an import; the disk refuses.
    """
    options = options or StorageOptions()
    checked = check_folder(source)
    if reason := why_unsound_type(checked.model_type):
        raise ModelError(
            f"{source}: {checked.model_type} models cannot be decoded exactly ({reason}); choose another model"
        )
    if options.quantizes and set(_QUANTIZED) & checked.config.keys():
        raise ModelError(f"{source}: is already quantized; import it as it is, or convert the model it was made from")
    files = tuple(path for name in ("config.json", *TOKENIZER_FILES) if (path := source / name).is_file())
    origin = FolderSource(source.resolve().name, (*files, *checked.weights), asdict(options))
    build_folder(folder, origin, lambda work: _fill(checked, options, work, folder, on_progress), replace)
    return folder


def _fill(source: ModelFolder, options: StorageOptions, work: Path, folder: Path, on_progress: OnProgress) -> None:
    """Writes all files of the model folder, config.json last."""
    FolderTokenizer(source.path)  # a tokenizer that cannot be read is refused before the long work
    network, config = _converted(source, options)
    head = stored_head(source.path, options)
    total_bytes = sum(map(weights_bytes, (network, head) if head is not None else (network,)))
    check_space(folder, total_bytes)
    copy_tokenizer(source.path, work)
    on_progress(ImportProgress("weights", 0, total_bytes))
    with not_loading(source.path):
        save_model(work, network, donate_model=True)  # evaluates and writes a file of at most 5 GB at a time
    if head is not None:
        write_mtp(head, work)
    on_progress(ImportProgress("weights", total_bytes, total_bytes))
    save_config(config, work / "config.json")
    check_folder(work)


def _converted(source: ModelFolder, options: StorageOptions) -> tuple[Any, dict[str, Any]]:
    """Returns the network to be saved, not evaluated yet, and its config."""
    with not_loading(source.path):
        network, config = load_network(source)
        _cast(network, options, config)
        if options.bits == 16 and set(_QUANTIZED) & config.keys():
            network = dequantize(network)
            config = {key: value for key, value in config.items() if key not in _QUANTIZED}
            _cast(network, options, config)  # weights without scales of a float type come out as bfloat16
        if options.dtype is not None:
            config = {**config, "dtype" if "dtype" in config else "torch_dtype": options.dtype}
        if options.quantizes:
            with contextlib.redirect_stdout(io.StringIO()):  # it prints the bits per weight
                network, config = quantize_model(network, config, options.group, options.bits)
    return network, config


def _cast(network: Any, options: StorageOptions, config: dict[str, Any]) -> None:
    """Casts floats to the requested type, else to the config's, where the model allows it, as mlx-lm's convert does."""
    declared = [part.get(key) for part in config_parts(config) for key in ("torch_dtype", "dtype")]
    name = options.dtype or next((one for one in declared if one in FLOAT_TYPES), None)
    if name is not None:
        cast(network, getattr(mx, name))
