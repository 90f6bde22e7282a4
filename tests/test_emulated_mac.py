"""What a Mac does otherwise, as far as Linux can show it: tests that pass where `tests.emulated_mac` pretends one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
# Where the window asks for the platform, and where the engine asks whether the device has a queue.
CHOSEN = (
    "tests/app/window/settings/test_settings.py",
    "tests/app/window/main_window/test_menus.py",
    "tests/engine/test_loop.py",
    "tests/engine/test_waits.py::test_it_waits_once_whatever_its_length",
)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="a Mac runs these tests as they are")
def test_the_window_and_the_loop_do_what_a_mac_would_have_them_do() -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.emulated_mac", "-p", "no:xdist"]
    options = ["-o", "addopts=--import-mode=importlib", "-m", "not slow and not timing"]
    done = subprocess.run([*command, *options, *CHOSEN], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
