"""Which tensors of a model folder belong to multi-token prediction heads, and not to the network of the model.

A checkpoint brings its heads under names of their own, as layers after the last one, or in a file beside the weights.
mlx-lm 0.32.2 reads all files whose names begin with "model", and knows the heads of some architectures only.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from models.safetensors_file import Entry

# Files of a head beside the weights of its target, as mtplx and others write them.
HEAD_FILES = ("mtp.safetensors", "mtp/weights.safetensors", "model-mtp.safetensors", "model-mtp-head.safetensors")
OUTER = re.compile(r"^(?:language_model\.|model\.)+")
_LAYER = re.compile(r"layers\.(\d+)\.(\w+)")
_PARTS_OF_HEADS = ("eh_proj", "enorm", "hnorm", "shared_head")  # no decoder layer has them
_LONGEST_NAME = 200


def files_of_heads(path: Path, config: Mapping[str, object]) -> list[Path]:
    """Returns the files of heads beside the weights of the model folder `path`, that which config.json names first."""
    named = config.get("mlx_lm_extra_tensors")
    extra = [str(named.get("mtp_file"))] if isinstance(named, dict) and named.get("mtp_file") else []
    return [path / name for name in (*extra, *HEAD_FILES) if _is_inside(name) and (path / name).is_file()]


def _is_inside(name: str) -> bool:
    """Whether a name from a config.json can only mean a file of the folder, whose links are checked."""
    parts = Path(name).parts
    return len(name) < _LONGEST_NAME and "\0" not in name and not any(part.startswith((".", "/")) for part in parts)


def tensors_of_heads(
    path: Path, config: Mapping[str, object], weights: Mapping[Path, Mapping[str, Entry]], layers: int | None
) -> frozenset[str]:
    """Returns the names of the tensors of all heads in the weights of a target. layers: the number of its own.

    A layer after the last one belongs to a head if it has what only heads have: of any other, too many layers or a
    wrong config.json are to blame.
    """
    beside = {file: entries for file, entries in weights.items() if file in files_of_heads(path, config)}
    names = [name for file, entries in weights.items() if file not in beside for name in entries]
    added = set(_places_of_heads(names, layers))
    found = (name for name in names if OUTER.sub("", name).startswith("mtp") or _place(name) in added)
    return frozenset([*found, *(name for entries in beside.values() for name in entries)])


def _places_of_heads(names: list[str], layers: int | None) -> Iterator[int]:
    for name in names:
        found = _LAYER.match(OUTER.sub("", name))
        if found and layers is not None and int(found[1]) >= layers and found[2] in _PARTS_OF_HEADS:
            yield int(found[1])


def _place(name: str) -> int | None:
    found = _LAYER.match(OUTER.sub("", name))
    return int(found[1]) if found else None
