"""An import killed at any step leaves nothing that looks like a model, and the next one works."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from models.convert.gguf_import import import_gguf
from models.model_folder import check_folder
from tests.toys.gguf_files import tiny_llama

ROOT = Path(__file__).parents[3]

# Forks one child for each step: child n dies of SIGKILL at its nth operation on the import's own files, or piece of the
# weights that it has written.
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
        def count(*_):
            global left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(lambda event, details: event in watched and str(base) in str(details) and count())
        import_gguf(source, base / str(step) / "toy", None, count)
        os._exit(0)
    if os.waitpid(child, 0)[1] == 0:
        print(step)
        break
"""


def kill_at_every_step(source: Path, base: Path) -> int:
    """How many steps an import had; folder base/n is what a kill at step n left."""
    command = [sys.executable, "-c", KILLER, str(source), str(base)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def visible(place: Path) -> list[str]:
    return [path.name for path in place.iterdir() if not path.name.startswith(".")] if place.exists() else []


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("replacing", [False, True])
def test_a_kill_at_any_step_of_an_import_shows_nothing_or_all(tmp_path: Path, replacing: bool) -> None:
    source, base = tiny_llama(1).write(tmp_path / "toy.gguf"), tmp_path / "killed"
    allowed = set()
    if replacing:
        allowed.add(weights(import_gguf(source, base / "1" / "toy")))
        for step in range(2, 120):
            shutil.copytree(base / "1", base / str(step))
        tiny_llama(2).write(source)
        os.utime(source, (2, 2))
    wanted = weights(import_gguf(source, tmp_path / "alone"))
    steps = kill_at_every_step(source, base)
    assert 20 < steps < 120
    seen, unfinished = set(), 0
    for step in range(1, steps):
        place = base / str(step)
        if visible(place):
            assert visible(place) == ["toy"]
            check_folder(place / "toy")
            seen.add(weights(place / "toy"))
        unfinished += (place / ".toy.partial").exists()
        assert weights(import_gguf(source, place / "toy")) == wanted
        assert sorted(path.name for path in place.iterdir()) == [".toy.lock", "toy"]
    assert seen == allowed | {wanted}
    assert unfinished > 15  # the kills did hit work in the making
