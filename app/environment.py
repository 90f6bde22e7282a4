"""What a measurement was made with, so that it can be held against another: versions, machine, backend, model."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from app.choosing import drafter_folders
from app.host import digests
from app.machine import processor
from app.options import Options
from engine import backend

if TYPE_CHECKING:
    from models.load import Loaded

_PACKAGES = ("redline", "mlx", "mlx-lm", "numpy")


def describe(options: Options, target: Loaded) -> dict[str, Any]:
    """JSON-ready. Names no user, host or folder."""
    found = backend.describe()
    return {
        "versions": {name: version(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": found.device,
        "library": found.library,
        "backend": found.detail,
        "dtype": found.dtype,
        "target": target.name,
        "weights": {target.name: digests.of_model(target.folder), **_drafters(options, target)},
        "kv_bits": target.model.kv_bits,
        "context": options.context,
        "draft_lengths": ["auto" if length is None else length for length in options.draft_lengths],
        "tree": options.tree,
        "max_tokens": options.max_tokens,
        "top_p": options.top_p,
        "top_k": options.top_k,
        "min_p": options.min_p,
        "repetition_penalty": options.repetition_penalty,
        "stop": list(options.stop),
    }


def _drafters(options: Options, target: Loaded) -> dict[str, str]:
    """The weights of each drafter that has any, by the name of its folder."""
    folders = [folder for spec in options.drafters for folder in drafter_folders(spec, target.folder)]
    return {folder.name: digests.of_files(folder, list(folder.glob("*.safetensors"))) for folder in folders}


def summary(environment: dict[str, Any]) -> str:
    """One line for people."""
    versions = environment["versions"]
    kind = f"{environment['target']} in {environment['dtype']}"
    where = f"{environment['processor']}, {environment['cores']} cores, {environment['backend']}"
    return f"{kind} · mlx {versions['mlx']} on {where}"
