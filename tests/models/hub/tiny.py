"""Tiny models as the hub would hold them: safetensors in shards, a tokenizer, and files that must never be fetched."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from tests.models.hub.hub_contents import Repo

NAME = "tiny-org/Tiny-4bit"
NEVER = ("modeling_tiny.py", "pytorch_model.bin", "training_args.pt", "README.md", ".gitattributes", "onnx/model.onnx")
TOKENIZER = {"model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": []}, "added_tokens": []}


def shard(names: tuple[str, ...], size: int, seed: int) -> bytes:
    """A safetensors file with tensors of `size` numbers each."""
    generator = np.random.default_rng(seed)
    return save({name: generator.standard_normal(size, np.float32) for name in names})


def tiny_files(shards: int = 3, size: int = 40_000) -> dict[str, bytes]:
    """Everything in the repository: about 160 kB a shard."""
    tensors = {f"layer.{index}": f"model-{index + 1:05}-of-{shards:05}.safetensors" for index in range(shards)}
    files = {file: shard((tensor,), size, index) for index, (tensor, file) in enumerate(tensors.items())}
    files["model.safetensors.index.json"] = json.dumps({"metadata": {}, "weight_map": tensors}).encode()
    files["config.json"] = json.dumps({"model_type": "llama", "vocab_size": 2}).encode()
    files["tokenizer.json"] = json.dumps(TOKENIZER).encode()
    files["tokenizer_config.json"] = b"{}"
    files["chat_template.jinja"] = b"{{ messages }}"
    return files | dict.fromkeys(NEVER, b"import os\nos.abort()\n")


def tiny(name: str = NAME, **more: object) -> Repo:
    """A repository with a tiny model in three shards."""
    return Repo(name, tiny_files(), **more)  # type: ignore[arg-type]


def wanted(repo: Repo) -> dict[str, bytes]:
    """What a pull must bring."""
    return {name: data for name, data in repo.files.items() if name not in NEVER}


def read_folder(folder: Path) -> dict[str, bytes]:
    """What lies in a folder, links followed."""
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
