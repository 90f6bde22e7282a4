"""A toy Qwen3.5 with a multi-token prediction head among its weights, which mlx-lm drops."""

import importlib
import json
import shutil
from pathlib import Path

import mlx.core as mx
from mlx.utils import tree_flatten

from tests.toys.architectures import _config, _redraw
from tests.toys.block_heads import random_mtp
from tests.toys.folders import VOCABULARY

UPSTREAM = {"norm_embedding": "pre_fc_norm_embedding", "norm_hidden": "pre_fc_norm_hidden"}


def qwen_with_head(toy_folder: Path, path: Path) -> Path:
    """Makes the folder `path`, with the tokenizer of `toy_folder` and `mtp.*` among its weights; returns it."""
    shutil.copytree(toy_folder, path)
    config = _config("qwen3_5")
    for part in (config, config["text_config"]):
        part["vocab_size"] = VOCABULARY
    module = importlib.import_module("mlx_lm.models.qwen3_5")
    mx.random.seed(4)
    network = module.Model(module.ModelArgs.from_dict(config))
    _redraw(network)
    weights = dict(tree_flatten(network.parameters()))
    for name, value in tree_flatten(random_mtp(network, "qwen3_5").head.parameters()):
        part, _, rest = name.partition(".")
        upstream = f"layers.0.{rest}" if part == "layer" else f"{UPSTREAM.get(part, part)}.{rest}"
        weights[f"language_model.mtp.{upstream}"] = value
    mx.save_safetensors(str(path / "model.safetensors"), weights)
    (path / "config.json").write_text(json.dumps(config))
    return path
