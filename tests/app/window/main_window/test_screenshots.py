"""Every scene that is drawn for people to look at can still be played."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.programs.screenshots import SCENES


@pytest.mark.slow
def test_every_scene_is_drawn_in_light_and_dark(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.programs.screenshots", str(tmp_path), "--scale", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert {file.stem for file in tmp_path.iterdir()} == {
        f"{n}-{scheme}" for n in SCENES for scheme in ("light", "dark")
    }
