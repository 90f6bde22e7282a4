"""Runs the sweep over every architecture of mlx-lm in processes of its own, as a kernel that fails may end one.

The sweep belongs to the tests, which only a checkout of the source has; without them the report says so.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from app.diagnostics.unseen_kernels import UNSEEN

TOKENS = 60
# Toys in bfloat16 and 4 bits with heads of 64 numbers, which run the kernels of real targets: architecture by name.
QUANTIZED = {f"{name}, 4 bits": name for name in ("llama", "qwen3", "qwen3_5", "gemma3_text", "gpt_oss", "qwen3_moe")}
ROOT = Path(__file__).parents[2]
_SWEEP = "tests.programs.sweep"


def sweep(seconds: float, notify: Callable[[str], None]) -> dict[str, Any]:
    """Returns {"rows": verdicts by architecture, "not_reached": names}, those first that run kernels of their own on
    Metal; {"error": why} where there are no tests. seconds: that it may take."""
    if not (ROOT / "tests" / "programs" / "sweep.py").is_file() or find_spec("pytest") is None:
        return {"error": "the sweep needs a checkout of the source: run `uv run redline doctor --metal` there"}
    ends_s, rows, left = time.monotonic() + seconds, list[dict[str, Any]](), _names()
    while left and time.monotonic() < ends_s:
        found, code = _run(left, ends_s - time.monotonic())
        rows += found
        left = left[len(found) :]
        notify(f"architectures: {len(rows)} swept, {len(left)} left")
        if left and code is not None:
            rows.append({"name": left[0], "verdict": "crashed", "reason": f"its process ended with code {code}"})
            left = left[1:]
    return {"tokens": TOKENS, "rows": rows, "not_reached": left}


def _names() -> list[str]:
    """Returns the architectures, those first of which a CPU says nothing, then those that are swept in 4 bits too."""
    first = list(dict.fromkeys(name for kernel in UNSEEN for name in kernel.architectures))
    printed = subprocess.run(
        [sys.executable, "-m", _SWEEP, "--names"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
    unseen = [name for name in first if name in printed]
    return [*unseen, *QUANTIZED, *(name for name in printed if name not in first)]


def _run(names: list[str], seconds: float) -> tuple[list[dict[str, Any]], int | None]:
    """Returns the rows of one process, and the code that it ended with; None where its time was up."""
    command = [sys.executable, "-m", _SWEEP, "--json", "--tokens", str(TOKENS), *names]
    code: int | None = None
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=max(seconds, 1.0))
        printed, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as expired:
        printed = expired.stdout or b""
    return [json.loads(line) for line in printed.splitlines() if line.endswith(b"}")], code
