"""What trials of drafters found on this machine, kept in the cache folder by drafter and target."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from engine.errors import ModelError
from models.durable_files import read_json_object, replace_json
from models.paths import cache_dir

_FILE = "drafter-trials.json"


def trial_key(folder: Path, target: Path) -> str:
    """Returns what stands for this drafter and this target: their configs, and names, sizes and times of their weights.
    Raises OSError."""
    digest = hashlib.sha256()
    for path in (folder, target):
        digest.update((path / "config.json").read_bytes())
        for file in sorted(path.rglob("*.safetensors")):
            stat = file.stat()
            digest.update(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def kept_rates(key: str, names: Sequence[str] | None, cache_root: Path | None) -> list[float] | None:
    """Returns the rates of an earlier trial of what has these names, in their order, None without one. names: None for
    any. A damaged file counts as none."""
    try:
        entry = read_json_object(cache_dir(cache_root) / _FILE).get(key)
    except ModelError:
        return None
    if not isinstance(entry, dict) or not isinstance(rates := entry.get("rates"), list):
        return None
    if names is not None and entry.get("names") != list(names):
        return None
    if len(rates) != len(names or rates) or not all(isinstance(rate, float | int) and 0 <= rate <= 1 for rate in rates):
        return None
    return [float(rate) for rate in rates]


def keep_rates(key: str, names: Sequence[str], rates: Sequence[float], cache_root: Path | None) -> None:
    """Adds the rates to those of other drafters. A disk that refuses only costs another trial."""
    path = cache_dir(cache_root) / _FILE
    try:
        known = read_json_object(path)
    except ModelError:
        known = {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(path, {**known, key: {"names": list(names), "rates": list(rates)}})
    except OSError:
        return
