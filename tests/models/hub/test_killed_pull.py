"""SIGKILL at ten moments drawn by a seed: each time what is there is no model, and in the end it is the very model."""

import itertools
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from models.hub.client import Hub
from models.hub.download import pull
from models.hub.download_events import Done
from models.local.inventory import installed
from models.local.locations import ModelLocations
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.models.hub.tiny import NAME, read_folder, shard, tiny, wanted
from tests.waiting import HANG_S

KILLS = 10
SIZE = 120_000  # numbers in a shard: 480 kB

# Imports once; each line it is given it pulls in a process of its own, whose number it tells.
NURSERY = """
import os, sys
from pathlib import Path
from models.hub.client import Hub
from models.hub.download import pull
endpoint, cache, name = sys.argv[1:]
for _ in sys.stdin:
    child = os.fork()
    if child == 0:
        list(pull(Hub(endpoint, Path(cache)), name))
        os._exit(0)
    print(child, flush=True)
    os.wait()
    print("ended", flush=True)
"""


@pytest.fixture
def repo() -> Repo:
    repo = tiny()
    shards = {
        f"model-{index + 1:05}-of-00003.safetensors": shard((f"layer.{index}",), SIZE, index) for index in range(3)
    }
    repo.files |= shards
    return repo


@pytest.fixture
def nursery(server: Loopback, cache: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", NURSERY, server.endpoint, str(cache), NAME]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        yield child
        child.communicate(timeout=HANG_S)


def kill_one(nursery: subprocess.Popen[str], server: Loopback, after_bytes: int) -> None:
    """Begin a pull and kill it when so many bytes have left the hub."""
    assert nursery.stdin is not None and nursery.stdout is not None
    server.held.clear()
    server.go.clear()
    server.allowed_bytes = server.sent_bytes + after_bytes
    nursery.stdin.write("pull\n")
    child = int(nursery.stdout.readline())
    assert server.held.wait(HANG_S)
    os.kill(child, signal.SIGKILL)
    assert nursery.stdout.readline() == "ended\n"
    server.go.set()


@pytest.mark.slow
def test_ten_kills_and_the_model_is_the_model(
    server: Loopback, repo: Repo, cache: Path, nursery: subprocess.Popen[str], tmp_path: Path
) -> None:
    places = ModelLocations(cache, (), tmp_path / "own", tmp_path / "root")
    draw = random.Random(20261121)
    total = sum(map(len, wanted(repo).values()))
    for _ in range(KILLS):
        kill_one(nursery, server, after_bytes=draw.randrange(total // KILLS))
        assert not any(model.complete for model in installed(places))
        assert not list(cache.glob("models--*/snapshots/*"))
    server.allowed_bytes, sent = None, server.sent_bytes
    *_, last = pull(Hub(server.endpoint, cache), NAME)
    assert isinstance(last, Done)
    assert 0 < last.fetched_bytes < total, "nothing was left to go on with"
    assert server.sent_bytes - sent < total + 10_000
    assert read_folder(Path(last.path)) == wanted(repo)
    assert [(model.name, model.complete) for model in installed(places)] == [(NAME, True)]
    assert not list(cache.rglob("*.incomplete"))


@pytest.mark.parametrize(("step", "at"), [("symlink", 1), ("rename", 1), ("replace", 10)])
def test_a_crash_while_the_snapshot_is_made_shows_nothing_half(
    server: Loopback, repo: Repo, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int
) -> None:
    """The process dies at one of the last steps on the disk."""
    places, calls = ModelLocations(cache, (), tmp_path / "own", tmp_path / "root"), itertools.count(1)
    real = getattr(os, step)

    def die(*args: object, **more: object) -> object:
        if next(calls) == at:
            raise KeyboardInterrupt
        return real(*args, **more)

    monkeypatch.setattr(os, step, die)
    try:
        *_, last = pull(Hub(server.endpoint, cache), NAME)
        assert isinstance(last, Done)
    except KeyboardInterrupt:
        monkeypatch.undo()
        assert not any(model.complete and read_folder(model.path) != wanted(repo) for model in installed(places))
        for snapshot in cache.glob("models--*/snapshots/*"):  # other tools know nothing of our plans
            assert read_folder(snapshot) == wanted(repo)
        *_, last = pull(Hub(server.endpoint, cache), NAME)
    assert isinstance(last, Done)
    assert read_folder(Path(last.path)) == wanted(repo)
