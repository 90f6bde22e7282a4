"""Finds out what is at a path, and imports it.

GGUF file               converted to an MLX folder                            models.convert.gguf_import
MLX folder              linked where it is
Hugging Face folder     converted by mlx-lm, quantized on request             models.convert.folder_conversion
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import ModelError, UsageError
from models.convert.atomic_folder import OnProgress, ignore_progress
from models.convert.gguf_import import import_gguf
from models.durable_files import sync_folder
from models.hub.repo_names import is_repo
from models.model_folder import check_folder, without_config
from models.paths import name_of
from models.safetensors_file import read_metadata
from models.storage_options import StorageOptions

Kind = Literal["gguf", "mlx", "huggingface"]
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})$")


@dataclass(frozen=True)
class ImportSource:
    """Something that can be imported. path: the file (the first of a split model) or folder. name: the model's default
    name."""

    kind: Kind
    path: Path
    name: str


def inspect(path: Path) -> ImportSource:
    """Finds out what can be imported at `path`. Raises ModelError if there is nothing, or more than one model."""
    try:
        if path.is_dir():
            return _inspect_folder(path)
        with path.open("rb") as file:
            begins = file.read(4)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file or folder; check the path") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if begins == b"GGUF":
        return ImportSource("gguf", path, _plain(_SPLIT.sub("", path.stem)))
    if path.suffix == ".safetensors":
        raise ModelError(f"{path}: is weights only; give the folder with config.json and the tokenizer")
    raise ModelError(f"{path}: is not a GGUF file or a model folder; choose one of these")


def import_model(
    source: ImportSource,
    folder: Path,
    options: StorageOptions,
    on_progress: OnProgress = ignore_progress,
    replace: bool = False,
    convert: bool = False,
) -> Path:
    """Makes the model folder `folder` of `source`, or a link if an MLX folder can stay where it is.

    convert: always write a new folder. replace: whether another import of that name may be replaced. Returns `folder`.
    Raises UsageError for a name that cannot be used, ModelError as the converters do.
    """
    check_name(folder.name)
    if source.kind == "gguf":
        return import_gguf(source.path, folder, options, on_progress, replace)
    if source.kind == "mlx" and options == StorageOptions() and not convert:
        check_folder(source.path)
        return _link(source.path, folder)
    from models.convert.folder_conversion import convert_folder  # loads MLX, which the others do not need

    return convert_folder(source.path, folder, options, on_progress, replace)


def check_name(name: str) -> str:
    """Returns `name`. Raises UsageError for one that could leave the models folder or hide in it."""
    if "/" in name or not is_repo(name):
        raise UsageError(f"{name[:80]!r} cannot name a model: use letters, digits, '.', '_' and '-', a letter first")
    return name


def _inspect_folder(path: Path) -> ImportSource:
    names = sorted(entry.name for entry in path.iterdir())
    if "config.json" not in names:
        return _only_gguf(path, names)
    folder = check_folder(path)
    formats = {read_metadata(file).get("format") for file in folder.weights}
    is_mlx = formats == {"mlx"} or isinstance(folder.config.get("quantization"), dict)
    return ImportSource("mlx" if is_mlx else "huggingface", path, _name_of(path))


def _only_gguf(path: Path, names: list[str]) -> ImportSource:
    files = [name for name in names if name.endswith(".gguf")]
    firsts = [name for name in files if (split := _SPLIT.search(Path(name).stem)) is None or int(split[1]) == 1]
    if len(firsts) == 1:
        return inspect(path / firsts[0])
    if firsts:
        raise ModelError(f"{path}: contains {len(firsts)} GGUF models, such as {firsts[0]}; give the file you want")
    raise ModelError(f"{path}: {without_config(path, names)}")


def _name_of(path: Path) -> str:
    """Returns a folder's name; for a snapshot in the Hugging Face cache, the repository's name without its owner."""
    return _plain(name_of(Path(os.path.realpath(path))))


def _plain(name: str) -> str:
    """Returns the name with a dash for every character that a model's name may not have."""
    return re.sub(r"[^A-Za-z0-9._]+|-{2,}|\.{2,}", "-", name).strip("-._")[:96].rstrip("-._") or "model"


def _link(source: Path, folder: Path) -> Path:
    """Makes `folder` a link to the folder `source` in one step, unless it is one already."""
    real = Path(os.path.realpath(source))
    if folder.exists() and folder.samefile(real):
        return folder
    if folder.exists():
        raise ModelError(f"{folder}: another model has this name; give a new name, or remove that model first")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.with_name(f".{folder.name}.link")
        draft.unlink(missing_ok=True)
        draft.symlink_to(real, target_is_directory=True)
        draft.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written ({error.strerror}); choose another folder") from error
    return folder
