"""Pairs that need no training: the built-in target's first layers or itself with noise as its drafter, and a target
four times as deep that writes the same text, for which the built-in model is a draft model a third of its size.

python -m tests.toys.pairs FOLDER    writes FOLDER/shallow (6 of 30 layers), FOLDER/blurred and FOLDER/deep (120)
"""

import json
import shutil
import sys
from copy import deepcopy
from pathlib import Path
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

from models.builtin import builtin_folder
from models.loader import load

LAYERS = 6
BLUR = 0.03
DEPTH = 4


def write_shallow(destination: Path, layers: int = LAYERS) -> Path:
    """The target's first `layers` layers: quick, and seldom right."""
    loaded = load(builtin_folder())
    loaded.network.model.layers = loaded.network.model.layers[:layers]
    return _save(loaded.network, loaded.folder.path, destination, num_hidden_layers=layers)


def write_blurred(destination: Path, amount: float = BLUR) -> Path:
    """The whole target with noise on every weight matrix, `amount` times its spread: slow, and mostly right."""
    loaded = load(builtin_folder())
    mx.random.seed(0)
    noisy = tree_map(
        lambda a: a + amount * mx.std(a) * mx.random.normal(a.shape) if a.ndim == 2 else a, loaded.network.parameters()
    )
    loaded.network.update(noisy)
    return _save(loaded.network, loaded.folder.path, destination)


def write_deep(destination: Path, times: int = DEPTH) -> Path:
    """The target with `times` as many layers, of which all but the first of each group add nothing: the same text, and
    a pass that takes nearly `times` as long."""
    loaded = load(builtin_folder())
    layers = loaded.network.model.layers
    loaded.network.model.layers = [one for layer in layers for one in (layer, *_silent(layer, times - 1))]
    return _save(loaded.network, loaded.folder.path, destination, num_hidden_layers=times * len(layers))


def _silent(layer: Any, count: int) -> list[Any]:
    """Returns copies of a layer whose last products are zero, so that what goes in comes out."""
    copies = [deepcopy(layer) for _ in range(count)]
    for copy in copies:
        for last in (copy.self_attn.o_proj, copy.mlp.down_proj):
            last.weight = mx.zeros_like(last.weight)
    return copies


def _save(network: Any, source: Path, destination: Path, **changed: int) -> Path:
    destination.mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        if (source / name).exists():
            shutil.copy(source / name, destination / name)
    config = json.loads((source / "config.json").read_text())
    config.pop("quantization", None)
    config.pop("quantization_config", None)
    (destination / "config.json").write_text(json.dumps({**config, **changed}, indent=1))
    mx.save_safetensors(
        str(destination / "model.safetensors"), dict(tree_flatten(network.parameters())), {"format": "mlx"}
    )
    return destination


if __name__ == "__main__":
    root = Path(sys.argv[1])
    print(write_shallow(root / "shallow"))
    print(write_blurred(root / "blurred"))
    print(write_deep(root / "deep"))
