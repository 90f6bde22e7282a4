"""Model files spoilt by a seeded fuzzer: never a crash, never anything but one line of a ModelError, or a model."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.models.gguf.fuzzing import KINDS

ROOT = Path(__file__).parents[3]


def fuzz(seed: int, count: int, place: Path, timeout_s: float) -> Counter[tuple[str, str]]:
    """How many cases of each kind ended how. A crash, a hang or a traceback fails, and says in which case."""
    words = [sys.executable, "-m", "tests.models.gguf.fuzzing", str(seed), str(count), str(place)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=timeout_s, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, f"seed {seed}, {lines[-1:]}: {done.stderr[-3000:]}"
    assert len(lines) == count
    return Counter((line.split()[1], line.split()[2].rstrip(":")) for line in lines)


@pytest.mark.slow
def test_a_few_spoilt_files_end_in_one_line(tmp_path: Path) -> None:
    ends = fuzz(1, 50, tmp_path, 240)
    assert {kind for kind, _ in ends} == set(KINDS)
    assert sum(number for (_, end), number in ends.items() if end == "refused") > 25


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_six_hundred_spoilt_files_end_in_one_line(tmp_path: Path, seed: int) -> None:
    ends = fuzz(100 + seed, 200, tmp_path, 900)
    for kind in set(KINDS):
        assert ends[kind, "refused"] >= 5, ends
    assert sum(number for (_, end), number in ends.items() if end == "used") >= 10, ends
