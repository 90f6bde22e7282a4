"""Redline killed at any moment of a reply: everything that was appended is there at the next start."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.store import Store
from tests.app.store.toys import ask, round_done

ROOT = Path(__file__).parents[3]

# Says the number of each append once it is on disk.
WRITER = """
import sys
from pathlib import Path
from app.protocol import SamplingSettings, Pair
from app.store import Store
from app.store.records import Ending
from tests.app.store.toys import SETTINGS, round_done
store = Store.open(Path(sys.argv[1])).store
conversation = store.create(SETTINGS).id
parent = None
for turn in range(10_000):
    question = store.add_question(conversation, parent, f"Question {turn}")
    parent = store.begin_reply(conversation, question.id, Pair(), SamplingSettings()).id
    for number in range(25):
        store.append(parent, [round_done(number, [f" {turn}.{number}"], 3, 0)])
        print(turn, number, flush=True)
    store.end_reply(parent, Ending("complete"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_everything_appended_before_a_kill_is_there(tmp_path: Path, seed: int) -> None:
    place = tmp_path / "c.sqlite"
    command = [sys.executable, "-c", WRITER, str(place)]
    appends = random.Random(seed).randrange(1, 200)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(appends)]
        os.kill(writer.pid, signal.SIGKILL)
        said += writer.stdout.readlines()
    turn, number = map(int, next(line for line in reversed(said) if line.endswith("\n")).split())
    opened = Store.open(place)
    assert opened.notices == []
    path = opened.store.path(1)
    replies = [record for record in path if record.role == "assistant"]
    for at, reply in enumerate(replies):
        rounds = opened.store.rounds(reply.id)
        assert rounds == [round_done(n, [f" {at}.{n}"], 3, 0) for n in range(len(rounds))]
        assert reply.text == "".join(f" {at}.{n}" for n in range(len(rounds)))
        assert reply.state == ("complete" if at < turn else reply.state)
    assert len(replies) >= turn + 1
    assert len(opened.store.rounds(replies[turn].id)) >= number + 1
    assert all(reply.state in ("complete", "cut") for reply in replies)
    assert opened.store.search(f"{turn}.{number}")
    assert ask(place, "PRAGMA integrity_check") == [("ok",)]
    opened.store.close()
