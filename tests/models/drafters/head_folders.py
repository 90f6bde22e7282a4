"""Folders of heads to read and to spoil: shared by the tests of every kind of head."""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.drafters.dflash import DFlashHead
from engine.drafters.mtp import MtpHead
from models.drafters.dflash import FILES as DFLASH_FILES
from models.drafters.head_weights import evaluate_weights
from models.drafters.mtp import FILES as MTP_FILES
from models.drafters.target_match import TargetShape
from models.parameters import flat_parameters
from tests.toys.heads import random_mlp_speculator, weights_of

Change = Callable[[Path], None]
SHAPE = TargetShape("target", 64, 4, 32, lambda points: 32 * len(points), {})


def config_of(path: Path) -> dict[str, Any]:
    return dict(json.loads((path / "config.json").read_text()))


def write_config(path: Path, **fields: Any) -> None:
    (path / "config.json").write_text(json.dumps(fields))


def edit(path: Path, **changes: Any) -> None:
    """Change fields of config.json, None taking them away; `layer` holds those of the transformer layer."""
    config = config_of(path)
    layer = changes.pop("layer", {})
    for fields, changed in ((config, changes), (config.get("transformer_layer_config", {}), layer)):
        fields.update(changed)
        for key in [key for key, value in changed.items() if value is None]:
            del fields[key]
    write_config(path, **config)


def null(path: Path, *names: str) -> None:
    """Say of fields of config.json, at the top and of the layer, that they are null."""
    config = config_of(path)
    for fields in (config, config["transformer_layer_config"]):
        fields.update(dict.fromkeys(names))
    write_config(path, **config)


def file_of(path: Path) -> Path:
    """The one file of weights."""
    (file,) = path.glob("*.safetensors")
    return file


def tensors_of(path: Path) -> dict[str, mx.array]:
    loaded = mx.load(str(file_of(path)))
    assert isinstance(loaded, dict)
    mx.eval(loaded)
    return loaded


def changed_tensors(change: Callable[[dict[str, mx.array]], Any]) -> Change:
    """A change of the tensors in the file."""

    def spoil(path: Path) -> None:
        tensors = tensors_of(path)
        change(tensors)
        mx.save_safetensors(str(file_of(path)), tensors)

    return spoil


def quantized_where(chosen: Callable[[str, mx.array], bool], bits: int = 8, mode: str = "affine") -> Change:
    """Quantizes the chosen matrices, as mlx.nn.quantize writes them."""

    def quantize(tensors: dict[str, mx.array]) -> None:
        for name in [name for name, value in tensors.items() if chosen(name, value)]:
            parts = mx.quantize(tensors.pop(name), group_size=32, bits=bits, mode=mode)
            names = (name.replace("weight", end) for end in ("weight", "scales", "biases"))
            tensors.update(zip(names, parts, strict=False))

    return changed_tensors(quantize)


def no_tensor(name: str) -> Change:
    return changed_tensors(lambda tensors: tensors.pop(name))


def tensor(name: str, value: mx.array) -> Change:
    return changed_tensors(lambda tensors: tensors.update({name: value}))


def config(**changes: Any) -> Change:
    return lambda path: edit(path, **changes)


def cut_to(left: int) -> Change:
    return lambda path: os.truncate(file_of(path), left)


def names_in(path: Path) -> list[str]:
    return sorted(entry.name for entry in path.iterdir())


def are_same(one: nn.Module, other: nn.Module, within: float = 0.0) -> bool:
    """Whether two heads have the same weights and ids."""
    mine, theirs = weights_of(one), weights_of(other)
    if mine.keys() != theirs.keys() or one.ids.tolist() != other.ids.tolist():
        return False
    return all(abs(mine[name] - theirs[name]).max() <= within for name in mine)


def open_block(path: Path, target: TargetShape = SHAPE) -> DFlashHead:
    """The block drafter in the folder."""
    return DFLASH_FILES.build(path, target)


def open_mtp(path: Path, target: dict[str, object] | None = None) -> MtpHead:
    """The prediction head in the folder, in float32. target: the config.json of the target."""
    head = MTP_FILES.build(path, replace(SHAPE, config=target or {}))
    evaluate_weights(head, mx.float32)
    return head


def write_mlp_speculator(path: Path, copies: bool = False, **form: Any) -> Path:
    """Writes a folder as the checkpoints of ibm-ai-platform are. copies: tied weights are stored for each stage."""
    network = random_mlp_speculator(**form)
    config = network.config
    tensors = {f"speculator.{name}": value for name, value in flat_parameters(network).items()}
    if copies:
        for name, value in list(tensors.items()):
            tensors |= {name.replace(".0.", f".{stage}."): value for stage in (1, 2) if "proj" not in name}
        tensors["speculator.proj.2.weight"] = tensors["speculator.proj.1.weight"]
    path.mkdir()
    mx.save_safetensors(str(path / "model.safetensors"), tensors)
    fields = {
        "architectures": ["MLPSpeculatorPreTrainedModel"],
        "model_type": "mlp_speculator",
        "emb_dim": config.hidden_size,
        "inner_dim": config.inner_size,
        "n_candidates": 3,
        "n_predict": config.stages,
        "vocab_size": config.vocab_size,
        "tie_weights": config.tied,
        "scale_input": config.scale_input,
        "top_k_tokens_per_head": [4, 3, 2],
    }
    write_config(path, **fields)
    return path
