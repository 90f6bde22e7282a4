"""`redline doctor`: checks what this machine has, and says what to do about what is missing.

Each check tries one thing; none raises. What may crash is tried in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING, Any, Literal

from app.cli.terminal.output import output_console
from app.command_line import FAILURE, OK, add_command, add_common, check_writable, notify, print_json
from app.inference.machine import memory
from app.qt_libraries import install_advice
from app.reply_statistics import count
from app.safe_text import safe
from engine.errors import ModelError, RedlineError, UsageError
from models.builtin import builtin_gguf
from models.durable_files import disk_errors, replace_file
from models.model_folder import check_folder
from models.package_versions import UNKNOWN, version_of
from models.paths import cache_dir, models_dir
from models.size_text import memory_words, size_words

if TYPE_CHECKING:
    from app.command_line import Commands

State = Literal["ok", "warning", "missing"]
_TIMEOUT_S = 60.0
_MIN_MEMORY_BYTES = 2 * 1024**3
_MIN_DISK_BYTES = 10**9
_MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "missing": ("✗", "red")}
_METAL = "measure speed, memory and exactness on this GPU with Metal or CUDA, for a bug report (about ten minutes)"
_DESCRIPTION = "Check this machine and suggest fixes. Exit status 1 if something that every reply needs is missing."


@dataclass(frozen=True)
class Finding:
    """The result of one check. state: "missing" if no reply can be made without it. advice: what to do, or ""."""

    name: str
    state: State
    value: str
    advice: str = ""


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "doctor", run, _DESCRIPTION)
    add_common(parser)
    parser.add_argument("--metal", action="store_true", help=_METAL)
    parser.add_argument("--output", type=Path, metavar="FILE", help="with --metal: save to FILE.md or FILE.json")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="N", help="with --metal: take N minutes at most")


def run(args: argparse.Namespace) -> int:
    """Prints the findings; returns 1 if something is missing. Raises UsageError."""
    if args.metal:
        return _measure(args)
    if args.output is not None:
        raise UsageError("--output saves the report of --metal: add --metal")
    findings = examine(args.cache_dir)
    if args.json:
        print_json(json.dumps({"findings": [asdict(finding) for finding in findings]}, indent=2, ensure_ascii=False))
    else:
        _print_table(findings)
    return FAILURE if any(finding.state == "missing" for finding in findings) else OK


def _measure(args: argparse.Namespace) -> int:
    """Measures the report of --metal, prints it and saves it; returns 1 if a reply or an architecture is not as plain
    decoding has it, or a section failed. Raises UsageError."""
    from app.diagnostics import report_text
    from app.diagnostics.metal_report import MetalReport, has_failed

    if args.output is not None:
        check_writable(args.output, "--output")
    report = MetalReport(args.minutes, notify).measure()
    as_json = json.dumps(report, indent=1, ensure_ascii=False)
    print(as_json if args.json else report_text.markdown(report))
    if args.output is not None:
        text = as_json if args.output.suffix == ".json" else report_text.markdown(report)
        with disk_errors(lambda why: RedlineError(f"{args.output} cannot be written ({why}): copy it from here")):
            replace_file(args.output, text.encode())
        notify(f"saved to {args.output}; the report contains no user, computer or folder names")
    return FAILURE if has_failed(report) else OK


def _print_table(findings: Sequence[Finding]) -> None:
    """Prints a row for each finding, and in it what to do."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0))
    for finding in findings:
        mark, colour = _MARKS[finding.state]
        state = "" if finding.state == "ok" else f"{finding.state}: "
        value = Text(f"{state}{safe(finding.value)}", overflow="fold")
        if finding.advice:
            value.append(f"\n→ {safe(finding.advice)}", style=colour)
        table.add_row(Text(mark, style=colour), Text(finding.name, "bold", no_wrap=True), value)
    output_console(wide=True).print(table)


def examine(cache_root: Path | None = None) -> list[Finding]:
    """Checks everything, in the order in which a newcomer would ask."""
    models = models_dir(cache_root)
    return [
        _redline(),
        _machine(),
        *_mlx(),
        _mlx_lm(),
        _memory(),
        _disk(cache_dir(cache_root)),
        _builtin(models),
        *_models(models),
        _qt(),
    ]


def _redline() -> Finding:
    found, python = version_of("redline"), f"Python {platform.python_version()}"
    if found == UNKNOWN:
        advice = "run `uv sync` in the source folder"
        return Finding("Redline", "warning", f"not installed as a package, {python}", advice)
    return Finding("Redline", "ok", f"{found}, {python}")


def _machine() -> Finding:
    mac = sys.platform == "darwin"
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    system = f"macOS {platform.mac_ver()[0]}" if mac else platform.system()
    value = f"{system} {platform.machine()}, {count(cores, 'core')}"
    if mac and platform.machine() != "arm64":
        return Finding("Machine", "missing", value, "MLX needs Apple Silicon and a Python built for arm64")
    return Finding("Machine", "ok", value)


def _mlx() -> Iterator[Finding]:
    report = _probe(PROBE_MLX)
    if "error" in report:
        yield Finding("MLX", "missing", report["error"], "run `uv sync`; MLX needs macOS 14 or Linux with glibc 2.35")
        return
    device = f"{report['device']} ({report['detail']}), weights {report['dtype']}"
    yield Finding("MLX", "ok", f"{report['version']}, {device}")
    speed = f"{report['gflops']:.0f} GFLOP/s at 64 rows in float32"
    if report["library"] == "reference":
        yield Finding("Matrix products", "warning", f"reference BLAS, {speed}", report["detail"])
    else:
        yield Finding("Matrix products", "ok", f"{report['library']}, {speed}")


def _mlx_lm() -> Finding:
    found = version_of("mlx-lm")
    if find_spec("mlx_lm") is None or found == UNKNOWN:
        return Finding("mlx-lm", "missing", "not installed", "run `uv sync`")
    return Finding("mlx-lm", "ok", found)


def _memory() -> Finding:
    total, available = memory()
    value = f"{memory_words(total)}, {memory_words(available)} free"
    if available < _MIN_MEMORY_BYTES:
        return Finding("Memory", "warning", value, "close other programs: the built-in model needs about 1 GB")
    return Finding("Memory", "ok", value)


def _disk(folder: Path) -> Finding:
    place = next((parent for parent in (folder, *folder.parents) if parent.exists()), Path("/"))
    try:
        free = disk_usage(place).free
    except OSError as error:
        return Finding("Files", "warning", f"{folder} ({error.strerror})", "choose another folder with --cache-dir")
    value = f"{folder}, {size_words(free)} free"
    if not os.access(place, os.W_OK):
        return Finding("Files", "warning", f"{value}, read-only", "choose another folder with --cache-dir")
    if free < _MIN_DISK_BYTES:
        return Finding("Files", "warning", value, "free some space: models need 0.2 GB or more")
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
    """Checks every folder of an imported model; names with a leading dot are unfinished work."""
    try:
        folders = sorted(path for path in models.iterdir() if path.is_dir() and not path.name.startswith("."))
    except OSError:
        folders = []
    for path in folders:
        try:
            folder = check_folder(path)
            size = size_words(folder.weights_bytes)
            context = f", context {folder.context_length}" if folder.context_length else ""
            yield Finding("Model folder", "ok", f"{path.name}: {folder.model_type}, {size}{context}")
        except ModelError as error:
            yield Finding("Model folder", "warning", f"{path.name}: damaged", str(error))


def _qt() -> Finding:
    report = _probe(PROBE_QT)
    missing = report.get("missing", [])
    install = install_advice(missing) if missing else ""
    if "error" in report:
        advice = install or "run `uv sync`; the terminal commands work without it"
        return Finding("Window (Qt)", "warning", report["error"], advice)
    lacking = f", without {', '.join(missing)}" if missing else ""
    return Finding("Window (Qt)", "warning" if missing else "ok", f"PySide6 {report['version']}{lacking}", install)


def _probe(code: str) -> dict[str, Any]:
    """Runs `code` with this Python and returns the JSON object that it prints last, or {"error": why}."""
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

# Names everything that is missing: the import alone would name only the first library.
PROBE_QT = """
import json
from app.qt_libraries import missing_libraries
report = {"missing": missing_libraries()}
try:
    import PySide6.QtWidgets
    report["version"] = PySide6.__version__
except ImportError as error:
    report["error"] = f"does not load ({error})"
print(json.dumps(report))
"""
