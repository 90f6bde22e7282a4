"""Folders of heads to read and to spoil: shared by the tests of every kind of head."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.errors import ModelError, PairError
from models.loader import Loaded
from tests.toys.heads import weights_of

Change = Callable[[Path], None]
Loader = Callable[[Path, Loaded], object]


def config_of(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "config.json").read_text()))


def edit(path: Path, **changes: Any) -> None:
    """Change fields of config.json, None taking them away; `layer` holds those of the transformer layer."""
    config = config_of(path)
    layer = changes.pop("layer", {})
    for fields, changed in ((config, changes), (config.get("transformer_layer_config", {}), layer)):
        fields.update(changed)
        for key in [key for key, value in changed.items() if value is None]:
            del fields[key]
    (path / "config.json").write_text(json.dumps(config))


def null(path: Path, *names: str) -> None:
    """Say of fields of config.json, at the top and of the layer, that they are null."""
    config = config_of(path)
    for fields in (config, config["transformer_layer_config"]):
        fields.update(dict.fromkeys(names))
    (path / "config.json").write_text(json.dumps(config))


def file_of(path: Path) -> Path:
    """The one file of weights."""
    (file,) = path.glob("*.safetensors")
    return file


def tensors_of(path: Path) -> dict[str, mx.array]:
    loaded = mx.load(str(file_of(path)))
    assert isinstance(loaded, dict)
    mx.eval(loaded)
    return loaded


def retensor(change: Callable[[dict[str, mx.array]], Any]) -> Change:
    """A change of the tensors in the file."""

    def spoil(path: Path) -> None:
        tensors = tensors_of(path)
        change(tensors)
        mx.save_safetensors(str(file_of(path)), tensors)

    return spoil


def drop(name: str) -> Change:
    return retensor(lambda tensors: tensors.pop(name))


def put(name: str, value: mx.array) -> Change:
    return retensor(lambda tensors: tensors.update({name: value}))


def said(**changes: Any) -> Change:
    return lambda path: edit(path, **changes)


def in_layer(**changes: Any) -> Change:
    return lambda path: edit(path, layer=changes)


def cut(left: int) -> Change:
    return lambda path: os.truncate(file_of(path), left)


def pickled(path: Path) -> None:
    file_of(path).rename(path / "pytorch_model.bin")


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def same(one: nn.Module, other: nn.Module, within: float = 0.0) -> bool:
    """Whether two heads have the same weights and ids."""
    mine, theirs = weights_of(one), weights_of(other)
    if mine.keys() != theirs.keys() or one.ids.tolist() != other.ids.tolist():
        return False
    return all(abs(mine[name] - theirs[name]).max() <= within for name in mine)


def refuse_fault(load: Loader, folder: Path, target: Loaded, fault: tuple[Change, str]) -> None:
    """A folder with this fault must be refused by its reason, with its path, in one line that says what to do."""
    spoil, reason = fault
    spoil(folder)
    with pytest.raises(ModelError) as caught:
        load(folder, target)
    assert reason in str(caught.value) and str(folder) in str(caught.value)
    assert "\n" not in str(caught.value) and "; " in str(caught.value)


def refuse_misfit(load: Loader, folder: Path, target: Loaded, misfit: tuple[Change, str]) -> None:
    """A folder that was made for another target must be refused by the reason."""
    spoil, reason = misfit
    spoil(folder)
    with pytest.raises(PairError) as caught:
        load(folder, target)
    assert reason in str(caught.value) and "choose a drafter that was made for this target" in str(caught.value)
