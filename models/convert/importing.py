"""What lies at a path, and how it becomes a model here.

GGUF file                       made into an MLX folder                                   models.import_gguf
MLX folder                      taken as it is, where it is: a link with its name
Hugging Face safetensors        made into an MLX folder by mlx-lm, quantized if wanted    models.convert.hugging
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engine.errors import ModelError, UsageError
from models.convert.progress import Tell, say_nothing
from models.disk import sync_folder
from models.folder import check_folder
from models.gguf.tensors import Wish
from models.hub.names import is_repo
from models.import_gguf import import_gguf
from models.safetensors_file import read_metadata

Kind = Literal["gguf", "mlx", "huggingface"]
_SPLIT = re.compile(r"-(\d{5})-of-(\d{5})$")


@dataclass(frozen=True)
class Found:
    """path: of the file (the first of a split model) or folder. name: what it would be called here."""

    kind: Kind
    path: Path
    name: str


def look(path: Path) -> Found:
    """What can be imported at `path`. Raises ModelError where that is nothing, or not one thing."""
    try:
        if path.is_dir():
            return _look_into(path)
        with path.open("rb") as file:
            begins = file.read(4)
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no such file or folder; check the path") from error
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    if begins == b"GGUF":
        return Found("gguf", path, _plain(_SPLIT.sub("", path.stem)))
    if path.suffix == ".safetensors":
        raise ModelError(f"{path}: weights alone are no model; name the folder with its config.json and tokenizer")
    raise ModelError(f"{path}: is neither GGUF nor a model folder; give one of these")


def bring_in(
    found: Found, folder: Path, wish: Wish, tell: Tell = say_nothing, replace: bool = False, convert: bool = False
) -> Path:
    """Make `folder` of what was found: a folder of its own, or a link where an MLX folder can stay as it is.

    convert: write a folder of its own in any case. replace: whether another import of that name may go.
    Returns `folder`. Raises ModelError, as the parts do.
    """
    check_name(folder.name)
    if found.kind == "gguf":
        return import_gguf(found.path, folder, wish, tell, replace)
    if found.kind == "mlx" and wish == Wish() and not convert:
        check_folder(found.path)
        return _link(found.path, folder)
    from models.convert.hugging import convert_folder  # it takes MLX, which the others need not

    return convert_folder(found.path, folder, wish, tell, replace)


def check_name(name: str) -> str:
    """A name for a model of Redline's own. Raises UsageError for what could leave or hide in the folder of models."""
    if "/" in name or not is_repo(name):
        raise UsageError(f"{name[:80]!r} cannot name a model: use letters, digits, '.', '_' and '-', a letter first")
    return name


def _look_into(path: Path) -> Found:
    names = sorted(entry.name for entry in path.iterdir())
    if "config.json" not in names:
        return _only_gguf(path, [name for name in names if name.endswith(".gguf")])
    folder = check_folder(path)
    formats = {read_metadata(file).get("format") for file in folder.weights}
    is_mlx = formats == {"mlx"} or isinstance(folder.config.get("quantization"), dict)
    return Found("mlx" if is_mlx else "huggingface", path, _name_of(path))


def _only_gguf(path: Path, names: list[str]) -> Found:
    firsts = [name for name in names if (split := _SPLIT.search(Path(name).stem)) is None or int(split[1]) == 1]
    if len(firsts) == 1:
        return look(path / firsts[0])
    if firsts:
        raise ModelError(f"{path}: holds {len(firsts)} GGUF models, {firsts[0]} is one; name the file you want")
    raise ModelError(f"{path}: has neither a config.json nor a GGUF file; check the path")


def _name_of(path: Path) -> str:
    """A folder's own name; of a snapshot in a Hugging Face cache, the repository's without its owner."""
    real = Path(os.path.realpath(path))
    if real.parent.name == "snapshots" and real.parents[1].name.startswith("models--"):
        return _plain(real.parents[1].name.rpartition("--")[2])
    return _plain(real.name)


def _plain(name: str) -> str:
    """The name with every letter that a name here may not have made a dash."""
    return re.sub(r"[^A-Za-z0-9._]+|-{2,}|\.{2,}", "-", name).strip("-._")[:96].rstrip("-._") or "model"


def _link(source: Path, folder: Path) -> Path:
    """Show the folder `source` as `folder`, in one step, unless it is that already."""
    real = Path(os.path.realpath(source))
    if folder.exists() and folder.samefile(real):
        return folder
    if folder.exists():
        raise ModelError(f"{folder}: is there already, another model; give another name, or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        draft = folder.with_name(f".{folder.name}.link")
        draft.unlink(missing_ok=True)
        draft.symlink_to(real, target_is_directory=True)
        draft.replace(folder)
        sync_folder(folder.parent)
    except OSError as error:
        raise ModelError(f"{folder}: cannot be written ({error.strerror}); choose another place") from error
    return folder
