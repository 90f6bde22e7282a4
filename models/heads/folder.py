"""The folder of a head: what config.json says, which tensors lie beside it, and how both are written.

Invariants:
1. Nothing is mapped before every tensor is known to be there, of the right shape and of a type that MLX reads.
2. config.json is written last, and taken away first where a folder is written again: a folder that was cut off while
   being written has none, and says so when it is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

from engine.errors import ModelError
from models.disk import read_json_object, replace_json
from models.folder import check_links, folder_names, weights_of
from models.heads.fields import Fields
from models.safetensors_file import Entry
from models.tensors import write_tensors

_FLOATS = ("F32", "F16", "BF16")
_INTEGERS = ("I64", "I32")
_APART = "config.json and weights do not belong together, download the drafter again"


@dataclass(frozen=True)
class HeadFolder:
    """path: for messages. config: of config.json. tensors: by name. files: where they lie."""

    path: Path
    config: Fields
    tensors: Mapping[str, Entry]
    files: tuple[Path, ...]

    def check(self, names: Mapping[str, str], wanted: Mapping[str, tuple[int, ...]], others: Iterable[str]) -> None:
        """Every tensor `wanted` must be there in its shape, as floats, and none but those and `others`.

        names: what the layout calls each tensor of the folder, by what the folder calls it.
        Raises ModelError, naming the first that is amiss.
        """
        found = {ours: self.tensors[theirs] for theirs, ours in names.items()}
        for name, shape in wanted.items():
            if name not in found:
                raise ModelError(f"{self.path}: lacks the tensor {name!r}; {_APART}")
            entry = found[name]
            if entry.shape != shape:
                raise ModelError(f"{self.path}: the tensor {entry.name!r} is {entry.shape}, not {shape}; {_APART}")
            if entry.dtype not in _FLOATS:
                raise ModelError(
                    f"{self.path}: the tensor {entry.name!r} is stored as {entry.dtype}; "
                    f"choose a version in {', '.join(_FLOATS)}"
                )
        for name in sorted(found.keys() - wanted.keys() - set(others)):
            raise ModelError(
                f"{self.path}: has the tensor {name[:80]!r}, which a head of this kind has not; choose another drafter"
            )

    def load(self) -> dict[str, mx.array]:
        """All tensors, by the folder's names, lazily. Call it after `check`."""
        loaded: dict[str, mx.array] = {}
        for file in self.files:
            part = mx.load(str(file))
            assert isinstance(part, dict)
            loaded |= part
        return loaded


def open_head(path: Path, begins: tuple[str, ...]) -> HeadFolder:
    """Read the headers of a head's folder, whose files of weights begin with one of `begins`.

    Raises ModelError: missing; no or bad config.json or safetensors; weights that are pickles; a link that leaves
    the folder.
    """
    try:
        names = folder_names(path)
        check_links(path, names)
        config = Fields(path, read_json_object(path / "config.json"))
        files = weights_of(path, names, begins)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    tensors = {name: entry for entries in files.values() for name, entry in entries.items()}
    return HeadFolder(path, config, tensors, tuple(files))


def read_ids(folder: HeadFolder, loaded: Mapping[str, mx.array], columns: int, vocabulary: int) -> mx.array:
    """The target's id of each of the `columns` of a head's logits, (columns,) int32, increasing.

    `d2t` holds offsets: column i stands for the token i + d2t[i] (SafeAILab/EAGLE, `eagle/traineagle3/cnets.py`).
    Without it the columns are the target's `vocabulary`. `t2d`, where there is one, must agree: true at those ids.
    Raises ModelError: missing, of another size, out of range or not increasing.
    """
    entry = folder.tensors.get("d2t")
    if entry is None:
        if columns != vocabulary:
            raise ModelError(f"{folder.path}: lacks the tensor 'd2t' for {columns} of {vocabulary} tokens; {_APART}")
        return mx.arange(vocabulary, dtype=mx.int32)
    if entry.shape != (columns,) or entry.dtype not in _INTEGERS:
        raise ModelError(f"{folder.path}: 'd2t' is {entry.dtype} {entry.shape}, not integers ({columns},); {_APART}")
    ids = mx.arange(columns) + loaded["d2t"].astype(mx.int64)
    rising = mx.concatenate([mx.array([-1]), ids, mx.array([vocabulary])])
    if not mx.all(rising[1:] > rising[:-1]).item():
        raise ModelError(f"{folder.path}: 'd2t' does not name {columns} of {vocabulary} tokens in order; {_APART}")
    if "t2d" in loaded:
        known = mx.zeros(vocabulary, mx.bool_)
        known[ids] = True
        if loaded["t2d"].shape != known.shape or not mx.array_equal(loaded["t2d"].astype(mx.bool_), known).item():
            raise ModelError(f"{folder.path}: 'd2t' and 't2d' contradict each other; {_APART}")
    return ids.astype(mx.int32)


def parameters_of(network: Any) -> dict[str, mx.array]:
    """Of an MLX module, by their names with dots."""
    return dict(tree_flatten(network.parameters()))


def id_tensors(ids: mx.array, vocabulary: int) -> dict[str, mx.array]:
    """`d2t` and `t2d` of the increasing `ids`; nothing where they are the whole vocabulary."""
    if ids.size == vocabulary:
        return {}
    known = mx.zeros(vocabulary, mx.bool_)
    known[ids] = True
    return {"d2t": ids.astype(mx.int64) - mx.arange(ids.size), "t2d": known}


def write_head(path: Path, config: Mapping[str, object], weights: str, tensors: Mapping[str, mx.array]) -> None:
    """Write `tensors` as the file `weights`, then config.json, into the folder `path`, which is made if need be.

    Durable when it returns. Raises ModelError when the disk refuses.
    """
    draft = path / f".{weights}.partial"
    try:
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").unlink(missing_ok=True)
        try:
            write_tensors(draft, tensors, "pt")  # what transformers asks for
            draft.replace(path / weights)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
        replace_json(path / "config.json", config)
    except OSError as error:
        reason = error.strerror or str(error)
        to_do = "free some disk space, or choose a folder that can be written"
        raise ModelError(f"{path}: the drafter could not be written ({reason}); {to_do}") from error
