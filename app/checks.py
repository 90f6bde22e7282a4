"""What `redline doctor` looks at: each check tries one thing and says what it found. None raises.

Whatever may abort a process or drag in a broken library (MLX, Qt) is tried in a process of its own.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import disk_usage
from typing import Any, Literal

from app.memory import memory
from app.probes import PROBE_MLX, PROBE_QT, QT_PACKAGES
from engine.errors import ModelError
from models.builtin import builtin_gguf
from models.folder import check_folder
from models.paths import cache_dir, models_dir

State = Literal["ok", "warning", "missing"]
GIB = 1024**3
_TIMEOUT_S = 60.0
_LEAST_MEMORY_BYTES = 2 * GIB
_LEAST_DISK_BYTES = 1 * GIB


@dataclass(frozen=True)
class Finding:
    """state: "missing" when no reply can be made without it. advice: what to do, in a line, or empty."""

    name: str
    state: State
    value: str
    advice: str = ""


def examine(cache_root: Path | None = None) -> list[Finding]:
    """Everything, in the order in which a newcomer would ask."""
    return [
        _redline(),
        _machine(),
        *_mlx(),
        _package("mlx-lm", "mlx_lm"),
        _memory(),
        _disk(cache_dir(cache_root)),
        _builtin(models_dir(cache_root)),
        *_models(models_dir(cache_root)),
        _qt(),
    ]


def _redline() -> Finding:
    try:
        return Finding("Redline", "ok", f"{version('redline')}, Python {platform.python_version()}")
    except PackageNotFoundError:
        value = f"not installed as a package, Python {platform.python_version()}"
        return Finding("Redline", "warning", value, "run `uv sync` in the folder of the source")


def _machine() -> Finding:
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    system = f"macOS {platform.mac_ver()[0]}" if sys.platform == "darwin" else f"{platform.system()}"
    value = f"{system} {platform.machine()}, {cores} core{'' if cores == 1 else 's'}"
    if sys.platform == "darwin" and platform.machine() != "arm64":
        return Finding("Machine", "missing", value, "MLX needs Apple Silicon and a Python built for arm64")
    return Finding("Machine", "ok", value)


def _mlx() -> Iterator[Finding]:
    told = _probe(PROBE_MLX)
    if "error" in told:
        yield Finding("MLX", "missing", told["error"], "run `uv sync`; MLX needs macOS 14 or Linux with glibc 2.35")
        return
    yield Finding("MLX", "ok", f"{told['version']}, {told['device']} ({told['detail']}), weights {told['dtype']}")
    speed = f"{told['gflops']:.0f} GFLOP/s at 64 rows in float32"
    if told["library"] == "reference":
        yield Finding("Matrix products", "warning", f"reference BLAS, {speed}", told["detail"])
    else:
        yield Finding("Matrix products", "ok", f"{told['library']}, {speed}")


def _package(name: str, module: str) -> Finding:
    from importlib.util import find_spec

    try:
        if find_spec(module) is not None:
            return Finding(name, "ok", version(name))
    except PackageNotFoundError:
        pass
    return Finding(name, "missing", "not installed", "run `uv sync`")


def _memory() -> Finding:
    total, available = memory()
    if total is None:
        return Finding("Memory", "warning", "unknown", "the system does not tell")
    value = f"{total / GIB:.1f} GiB" + ("" if available is None else f", {available / GIB:.1f} GiB of it free")
    if available is not None and available < _LEAST_MEMORY_BYTES:
        return Finding("Memory", "warning", value, "the built-in model takes about 1 GiB: close something first")
    return Finding("Memory", "ok", value)


def _disk(folder: Path) -> Finding:
    place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    try:
        free = disk_usage(place).free
    except OSError as error:
        return Finding("Files", "warning", f"{folder} ({error.strerror})", "choose another with --cache-dir")
    value = f"{folder}, {free / GIB:.1f} GiB free"
    if not os.access(place, os.W_OK):
        return Finding("Files", "warning", f"{value}, read-only", "choose another with --cache-dir")
    if free < _LEAST_DISK_BYTES:
        return Finding("Files", "warning", value, "free some space: models take from 0.2 GiB up")
    return Finding("Files", "ok", value)


def _builtin(models: Path) -> Finding:
    try:
        source = builtin_gguf()
    except ModelError as error:
        return Finding("Built-in model", "warning", "not installed", str(error))
    imported = (models / source.stem / "config.json").is_file()
    state = "imported" if imported else "imported at first use, which takes a few seconds"
    return Finding("Built-in model", "ok", f"SmolLM2-135M-Instruct, {state}")


def _models(models: Path) -> Iterator[Finding]:
    """Every folder among the imported models; names with a leading dot are unfinished work."""
    try:
        folders = sorted(path for path in models.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        folders = []
    for path in folders:
        try:
            folder = check_folder(path)
            size = f"{folder.weights_bytes / GIB:.2f} GiB"
            context = f", context {folder.context_length}" if folder.context_length else ""
            yield Finding("Model folder", "ok", f"{path.name}: {folder.model_type}, {size}{context}")
        except ModelError as error:
            yield Finding("Model folder", "warning", f"{path.name}: damaged", str(error))


def _qt() -> Finding:
    told = _probe(PROBE_QT)
    packages = [QT_PACKAGES[library] for library in told.get("missing", []) if library in QT_PACKAGES]
    install = f"sudo apt-get install {' '.join(packages)}" if packages else ""
    if "error" in told:
        return Finding("Window (Qt)", "warning", told["error"], install or "run `uv sync`; the terminal works without")
    if packages:
        value = f"PySide6 {told['version']}, which lacks {', '.join(told['missing'])}"
        return Finding("Window (Qt)", "warning", value, install)
    return Finding("Window (Qt)", "ok", f"PySide6 {told['version']}")


def _probe(code: str) -> dict[str, Any]:
    """The JSON object that `code` prints last, run by this Python with this one's paths; {"error": why} if none."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        told = json.loads(done.stdout.splitlines()[-1])
        return told if isinstance(told, dict) else {"error": "its test gave no answer"}
    except subprocess.TimeoutExpired:
        return {"error": f"did not start within {_TIMEOUT_S:.0f} s"}
    except OSError as error:
        return {"error": f"its test could not be started ({error.strerror})"}
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]
        return {"error": f"does not work ({last[:200]})"}
