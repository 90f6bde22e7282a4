"""Model files spoilt by a seeded fuzzer: never a crash, never anything but one line of a ModelError, or a model."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.models.gguf.fuzzing import KINDS

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_two_hundred_spoilt_files_end_in_one_line(tmp_path: Path) -> None:
    """A crash or a traceback fails, and says in which case."""
    command = [sys.executable, "-m", "tests.models.gguf.fuzzing", "100", "200", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"{lines[-1:]}: {done.stderr[-3000:]}"
    assert len(lines) == 200
    ends = Counter((line.split()[1], line.split()[2].rstrip(":")) for line in lines)
    assert all(ends[kind, "refused"] >= 5 for kind in KINDS), ends
    assert sum(number for (_, end), number in ends.items() if end == "used") >= 10, ends
