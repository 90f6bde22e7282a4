"""What was said beforehand, within a tenth of what a process with the built-in then takes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="how resident memory is told differs elsewhere")
@pytest.mark.parametrize("drafter", ["none", "lookup+eagle3"])
def test_the_estimate_is_within_a_tenth_of_the_peak(drafter: str) -> None:
    command = [sys.executable, "-m", "tests.models.memory.peak", drafter, "512"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    said, measured = json.loads(done.stdout.splitlines()[-1])
    assert said == pytest.approx(measured, rel=0.1)
