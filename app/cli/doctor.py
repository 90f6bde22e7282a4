"""`redline doctor`: what this machine has, on one screen, and what to do about what is missing."""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import disk_usage
from typing import Any, Literal

from app.cli.terminal.safe_text import safe
from app.command_line import FAILURE, OK
from app.inference.machine import memory
from engine.errors import ModelError
from models.builtin import builtin_gguf
from models.model_folder import check_folder
from models.paths import cache_dir, models_dir

_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "doctor",
        description="Check this machine and suggest fixes. Exit code 1 if something that every reply needs is missing.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the answer. Finds out by trying, in processes of their own, so that nothing broken breaks it."""
    findings = examine(args.cache_dir)
    if args.json:
        print(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2, ensure_ascii=False))
    elif sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        _print_table(findings)
    else:
        print(plain(findings))
    return FAILURE if any(finding.state == "missing" for finding in findings) else OK


def plain(findings: Sequence[Finding]) -> str:
    """A line each, and under it what to do."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        state = "" if finding.state == "ok" else f"{finding.state}: "
        lines.append(f"{finding.name:{width}}  {state}{safe(finding.value)}")
        if finding.advice:
            lines.append(f"{'':{width}}  -> {safe(finding.advice)}")
    return "\n".join(lines)


def _print_table(findings: Sequence[Finding]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 1), pad_edge=False)
    table.add_column()
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark, colour = _MARKS[finding.state]
        value = Text(safe(finding.value))
        if finding.advice:
            value.append(f"\n→ {safe(finding.advice)}", style=colour)
        table.add_row(Text(mark, style=colour), finding.name, value)
    Console(highlight=False).print(table)


# --- What `redline doctor` looks at: each check tries one thing and says what it found. None raises.


State = Literal["ok", "warning", "missing"]
GIB = 1024**3
_TIMEOUT_S = 60.0
_MIN_MEMORY_BYTES = 2 * GIB
_MIN_DISK_BYTES = 1 * GIB


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
    report = _probe(PROBE_MLX)
    if "error" in report:
        yield Finding("MLX", "missing", report["error"], "run `uv sync`; MLX needs macOS 14 or Linux with glibc 2.35")
        return
    yield Finding(
        "MLX", "ok", f"{report['version']}, {report['device']} ({report['detail']}), weights {report['dtype']}"
    )
    speed = f"{report['gflops']:.0f} GFLOP/s at 64 rows in float32"
    if report["library"] == "reference":
        yield Finding("Matrix products", "warning", f"reference BLAS, {speed}", report["detail"])
    else:
        yield Finding("Matrix products", "ok", f"{report['library']}, {speed}")


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
        return Finding("Memory", "warning", "unknown", "the system does not report it")
    value = f"{total / GIB:.1f} GiB" + ("" if available is None else f", {available / GIB:.1f} GiB free")
    if available is not None and available < _MIN_MEMORY_BYTES:
        return Finding("Memory", "warning", value, "close other programs: the built-in model needs about 1 GiB")
    return Finding("Memory", "ok", value)


def _disk(folder: Path) -> Finding:
    place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    try:
        free = disk_usage(place).free
    except OSError as error:
        return Finding("Files", "warning", f"{folder} ({error.strerror})", "choose another folder with --cache-dir")
    value = f"{folder}, {free / GIB:.1f} GiB free"
    if not os.access(place, os.W_OK):
        return Finding("Files", "warning", f"{value}, read-only", "choose another folder with --cache-dir")
    if free < _MIN_DISK_BYTES:
        return Finding("Files", "warning", value, "free some space: models need 0.2 GiB or more")
    return Finding("Files", "ok", value)


def _builtin(models: Path) -> Finding:
    try:
        source = builtin_gguf()
    except ModelError as error:
        return Finding("Built-in model", "warning", "not installed", str(error))
    imported = (models / source.stem / "config.json").is_file()
    state = "imported" if imported else "will be imported at first use"
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
    report = _probe(PROBE_QT)
    packages = [QT_PACKAGES[library] for library in report.get("missing", []) if library in QT_PACKAGES]
    install = f"sudo apt-get install {' '.join(packages)}" if packages else ""
    if "error" in report:
        return Finding(
            "Window (Qt)", "warning", report["error"], install or "run `uv sync`; the terminal commands work without it"
        )
    if packages:
        value = f"PySide6 {report['version']}, without {', '.join(report['missing'])}"
        return Finding("Window (Qt)", "warning", value, install)
    return Finding("Window (Qt)", "ok", f"PySide6 {report['version']}")


def _probe(code: str) -> dict[str, Any]:
    """The JSON object that `code` prints last, run by this Python with this one's paths; {"error": why} if none."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    try:
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
        report = json.loads(done.stdout.splitlines()[-1])
        return report if isinstance(report, dict) else {"error": "its test gave no result"}
    except subprocess.TimeoutExpired:
        return {"error": f"did not start within {_TIMEOUT_S:.0f} s"}
    except OSError as error:
        return {"error": f"its test could not be started ({error.strerror})"}
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"ended with code {done.returncode}"])[-1]
        return {"error": f"does not work ({last[:200]})"}


# --- Small programs that `redline doctor` runs in processes of their own. Each prints one JSON object.


PROBE_MLX = """
import json, time
import engine
from importlib.metadata import version
try:
    import mlx.core as mx
    from engine import backend
    found = backend.describe()
    weights, rows = mx.random.normal((2048, 2048)), mx.random.normal((64, 2048))
    mx.eval(weights, rows, rows @ weights)
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        mx.eval(rows @ weights)
        seconds.append(time.perf_counter() - began)
    print(json.dumps({
        "version": version("mlx"), "device": found.device, "library": found.library, "dtype": found.dtype,
        "detail": found.detail, "gflops": 2e-9 * 64 * 2048 * 2048 / min(seconds),
    }))
except ImportError as error:
    print(json.dumps({"error": f"cannot be loaded ({error})"}))
"""

# What Qt loads on Linux and PySide6's wheel does not carry, and the Debian or Ubuntu package that has it.
QT_PACKAGES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
}

# All that is missing at once: the import alone would name the first one only.
PROBE_QT = f"""
import ctypes, json, sys
told = {{"missing": []}}
if sys.platform == "linux":
    for library in {list(QT_PACKAGES)!r}:
        try:
            ctypes.CDLL(library)
        except OSError:
            told["missing"].append(library)
try:
    import PySide6.QtWidgets
    told["version"] = PySide6.__version__
except ImportError as error:
    told["error"] = f"does not load ({{error}})"
print(json.dumps(told))
"""
