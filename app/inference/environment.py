"""What a measurement was made with, so that it can be compared with another: versions, machine, backend, model."""

from __future__ import annotations

import os
import platform
from typing import TYPE_CHECKING, Any

from app.inference import digests
from app.inference.machine import processor
from app.inference.options import AUTO, Options
from app.inference.pair_resolution import drafter_folders
from app.reply_statistics import settings_in_words
from engine import backend
from models.generation_defaults import generation_defaults
from models.package_versions import version_of
from models.paths import name_of

if TYPE_CHECKING:
    from models.loader import Loaded

_PACKAGES = ("redline", "mlx", "mlx-lm", "numpy")
_SAMPLING = (
    *("max_tokens", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty"),
    *("thinking", "effort"),
)


def describe(options: Options, target: Loaded) -> dict[str, Any]:
    """Returns a description for JSON. It names no user, host or folder."""
    found = backend.describe()
    return {
        "versions": {name: version_of(name) for name in _PACKAGES},
        "python": platform.python_version(),
        "platform": platform.platform(terse=True),
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": found.device,
        "library": found.library,
        "backend": found.detail,
        "dtype": found.dtype,
        "target": target.name,
        "kv_bits": target.model.kv_bits,
        "draft_lengths": [AUTO if options.sampling.draft_length is None else options.sampling.draft_length],
        "context": options.context,
        "tree": options.tree,
        **{name: getattr(options.sampling, name) for name in _SAMPLING},
        "stop": list(options.sampling.stop),
        "from_model": list(options.sampling.from_model),
        "model_defaults": dict(generation_defaults(target.folder.path).values),
    }


def weights(options: Options, target: Loaded) -> dict[str, str]:
    """Returns digests of the weights of the target and of each drafter that has any, by the names of their folders."""
    root = options.cache_root
    folders = [folder for spec in options.drafters for folder in drafter_folders(spec, target.folder, root)]
    drafters = {name_of(folder): digests.of_folder(folder) for folder in folders}
    return {**drafters, target.name: digests.of_model(target.folder)}  # which a head may share its folder with


def summary(environment: dict[str, Any]) -> str:
    """Returns a description in one line to show."""
    versions = environment["versions"]
    kind = f"{environment['target']} in {environment['dtype']}"
    where = f"{environment['processor']}, {environment['cores']} cores, {environment['backend']}"
    own = environment["model_defaults"]
    unused = f" · ignoring the model's default sampling settings ({settings_in_words(own)})" if own else ""
    return f"{kind} · mlx {versions['mlx']} on {where}{unused}"
