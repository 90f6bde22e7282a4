"""A Hugging Face folder becomes an MLX model folder: read, put in order and quantized by mlx-lm, written by us.

mlx-lm's own `convert` holds up to 5 GB of finished weights at once and writes in place; here one tensor at a time is
computed, the folder appears whole or not at all, and a conversion that was stopped or killed goes on where it was
(models.convert.resuming). Files that transformers reads are copied as they are; of them only those named here, so never
code.
"""

import contextlib
import io
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten, tree_map

from engine.errors import ModelError
from engine.upstream import dequantize_model, load_model, quantize_model, save_config, unsound_type
from models.convert.making import Source, check_space, make_folder
from models.convert.progress import Tell, say_nothing
from models.convert.resuming import write_tensors
from models.folder import ModelFolder, check_folder
from models.gguf.affine import Array
from models.gguf.tensors import Wish
from models.load import not_loading
from models.safetensors_file import Entry
from models.tokenizer import FolderTokenizer

_COPIED = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "tokenizer.model"),
    *("vocab.json", "merges.txt", "generation_config.json", "chat_template.jinja", "chat_template.json"),
)
_DTYPES = {mx.float32: "F32", mx.float16: "F16", mx.bfloat16: "BF16", mx.uint32: "U32", mx.uint8: "U8"}
_COMPUTED_BY = ("mlx", "mlx-lm")  # another version may round otherwise, so that half a file of each would be neither
_QUANTIZED = ("quantization", "quantization_config")
_DTYPES |= {mx.int32: "I32", mx.int64: "I64", mx.int8: "I8", mx.bool_: "BOOL"}


def convert_folder(
    source: Path, folder: Path, wish: Wish | None = None, tell: Tell = say_nothing, replace: bool = True
) -> Path:
    """Make the MLX model folder `folder` from the Hugging Face folder `source`, or reuse it if it is there and whole.

    Returns `folder`. Raises ModelError: the source is damaged, needs code of its own, is quantized already or not known
    to mlx-lm; `folder` is something else's; the disk refuses.
    """
    wish = Wish() if wish is None else wish
    checked = check_folder(source)
    if reason := unsound_type(checked.model_type):
        what = f"{checked.model_type} models cannot be decoded exactly ({reason})"
        raise ModelError(f"{source}: {what}; choose another model")
    if wish.bits not in (None, 16) and set(_QUANTIZED) & checked.config.keys():
        raise ModelError(f"{source}: is quantized already; import it as it is, or take the model it was made of")
    files = tuple(path for name in ("config.json", *_COPIED) if (path := source / name).is_file())
    options = {"bits": wish.bits, "group": wish.group, "dtype": wish.dtype}
    origin = Source(source.resolve().name, (*files, *checked.weights), options, hashed=False)
    make_folder(folder, origin, lambda work: _fill(checked, wish, work, folder, tell), replace, resume=True)
    return folder


def _fill(source: ModelFolder, wish: Wish, work: Path, folder: Path, tell: Tell) -> None:
    """All files of the model folder, config.json last."""
    FolderTokenizer(source.path)  # a folder whose tokenizer cannot be read is refused before the long work
    arrays, config = _planned(source, wish)
    entries = [_entry(source.path, name, array) for name, array in arrays.items()]
    weights = work / "model.safetensors"
    there_bytes = weights.stat().st_size if weights.exists() else 0
    check_space(folder, sum(entry.size_bytes for entry in entries) - there_bytes)
    for name in _COPIED:
        if (source.path / name).is_file():
            shutil.copyfile(source.path / name, work / name)

    def compute(name: str) -> Array:
        with not_loading(source.path):
            array = arrays.pop(name)  # computed when it is asked for, and forgotten with the next one
            numbers: Array = np.asarray(array.view(mx.uint16) if array.dtype == mx.bfloat16 else array)
        mx.clear_cache()
        return numbers

    write_tensors(weights, entries, compute, {name: version(name) for name in _COMPUTED_BY}, tell)
    save_config(config, work / "config.json")
    check_folder(work)


def _planned(source: ModelFolder, wish: Wish) -> tuple[dict[str, mx.array], dict[str, Any]]:
    """Every tensor of the model to be, not computed yet, and its config."""
    with not_loading(source.path):
        network, config = load_model(source.path, lazy=True, trust_remote_code=False)
        _cast(network, wish, config)
        if wish.bits == 16 and set(_QUANTIZED) & config.keys():
            network = dequantize_model(network)
            config = {key: value for key, value in config.items() if key not in _QUANTIZED}
            _cast(network, wish, config)  # what has no scales of a float type comes out as bf16
        if wish.dtype is not None:
            config = {**config, "dtype" if "dtype" in config else "torch_dtype": wish.dtype}
        if wish.bits not in (None, 16):
            with contextlib.redirect_stdout(io.StringIO()):  # it says the bits per weight
                network, config = quantize_model(network, config, wish.group, wish.bits)
        arrays = dict(tree_flatten(network.parameters()))
        network.update(tree_map(lambda _: mx.array([]), network.parameters()))
    return arrays, config


def _cast(network: Any, wish: Wish, config: dict[str, Any]) -> None:
    """Floats into what was wished for, else into what the config says; only those that the model lets be cast."""
    text = config.get("text_config")
    said = [part.get(key) for part in (config, text or {}) for key in ("torch_dtype", "dtype")]
    name = wish.dtype or next((one for one in said if one in ("float16", "bfloat16", "float32")), None)
    if name is None:
        return
    dtype, may = getattr(mx, name), getattr(network, "cast_predicate", lambda _: True)
    arrays: dict[str, mx.array] = dict(tree_flatten(network.parameters()))
    changed = [
        (path, array.astype(dtype))
        for path, array in arrays.items()
        if mx.issubdtype(array.dtype, mx.floating) and may(path)
    ]
    network.load_weights(changed, strict=False)


def _entry(path: Path, name: str, array: mx.array) -> Entry:
    if array.dtype not in _DTYPES:
        raise ModelError(f"{path}: holds {array.dtype} in {name[:60]!r}, which is not converted; choose another model")
    return Entry(name, _DTYPES[array.dtype], tuple(array.shape))
