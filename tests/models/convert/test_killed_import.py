"""An import killed at any step leaves nothing that looks like a model, and the next one works."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models.builtin import builtin_gguf
from models.convert.atomic_folder import MANIFEST
from models.convert.gguf_import import import_gguf
from models.model_folder import check_folder
from tests.toys.gguf_files import tiny_llama

ROOT = Path(__file__).parents[3]

# Forks one child for each step: child n dies of SIGKILL at its nth operation on the import's own files.
KILLER = """
import os, signal, sys
from pathlib import Path
from models.convert.gguf_import import import_gguf
source, base = Path(sys.argv[1]), Path(sys.argv[2])
watched = {"open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "shutil.rmtree"}
for step in range(1, 200):
    child = os.fork()
    if child == 0:
        left = step
        def hook(event, details):
            global left
            if event in watched and str(base) in str(details):
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        import_gguf(source, base / str(step) / "toy")
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(step)
        break
"""


def kill_at_every_step(source: Path, base: Path) -> int:
    """How many steps an import had; folder base/n is what a kill at step n left."""
    command = [sys.executable, "-c", KILLER, str(source), str(base)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def visible(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if not path.name.startswith(".")] if place.exists() else []


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
def test_a_kill_at_any_step_of_a_first_import_shows_nothing_or_all(tmp_path: Path) -> None:
    source, base = tiny_llama(1).write(tmp_path / "toy.gguf"), tmp_path / "killed"
    wanted = weights(import_gguf(source, tmp_path / "alone"))
    steps = kill_at_every_step(source, base)
    assert steps > 10
    unfinished = 0
    for step in range(1, steps):
        place = base / str(step)
        if visible(place):
            check_folder(place / "toy")
            assert visible(place) == ["toy"] and weights(place / "toy") == wanted
        unfinished += (place / ".toy.partial").exists()
        assert weights(import_gguf(source, place / "toy")) == wanted
        assert sorted(path.name for path in place.iterdir()) == [".toy.lock", "toy"]
    assert unfinished > 5  # the kills did hit work in the making


@pytest.mark.slow
def test_a_kill_at_any_step_of_a_replacing_import_shows_nothing_or_all(tmp_path: Path) -> None:
    source, base = tiny_llama(1).write(tmp_path / "toy.gguf"), tmp_path / "killed"
    for step in range(1, 60):
        import_gguf(source, base / str(step) / "toy")
    old = weights(base / "1" / "toy")
    tiny_llama(2).write(source)
    os.utime(source, (2, 2))
    new = weights(import_gguf(source, tmp_path / "alone"))
    steps = kill_at_every_step(source, base)
    assert 10 < steps < 60
    seen = set()
    for step in range(1, steps):
        folder = base / str(step) / "toy"
        if visible(folder.parent):
            check_folder(folder)
            seen.add(weights(folder))
        assert weights(import_gguf(source, folder)) == new
        assert sorted(path.name for path in folder.parent.iterdir()) == [".toy.lock", "toy"]
    assert seen == {old, new}


@pytest.mark.slow
@pytest.mark.parametrize("fraction", [0.05, 0.6])
def test_a_kill_in_the_middle_of_the_real_weights_leaves_no_model(tmp_path: Path, fraction: float) -> None:
    code = "import sys; from pathlib import Path; from models.builtin import builtin_folder"
    command = [sys.executable, "-c", f"{code}; builtin_folder(Path(sys.argv[1]))", str(tmp_path)]
    partial = tmp_path / "models" / f".{builtin_gguf().stem}.partial" / "model.safetensors"
    child = subprocess.Popen(command, cwd=ROOT)
    try:
        deadline_s = time.monotonic() + 30
        while not (partial.exists() and partial.stat().st_size > fraction * 98e6):
            assert child.poll() is None and time.monotonic() < deadline_s
            time.sleep(0.002)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert visible(tmp_path / "models") == []
    assert partial.exists() and not (partial.parent / "config.json").exists()
    assert not (partial.parent / MANIFEST).exists()
