"""The app killed (SIGKILL) at random moments while a reply streams, on a machine that is busy and with a window that
stalls: all that was on screen is there at the next start, its text and its tokens."""

import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.store import Store
from tests.app.window.chat.fake_host import text_of

AT_ONCE = 3  # windows
BURNERS = 2  # processes that do nothing else than keep a core busy


@dataclass(frozen=True)
class Kill:
    """moment_s: after the first token. pause_s: of the host between two rounds. stall_s: for which the window's thread
    is kept busy again and again, 0 for never."""

    moment_s: float
    pause_s: float
    stall_s: float


@dataclass(frozen=True)
class Outcome:
    """What a kill left. lost: tokens that had been shown. wrong: what did not hold, or ""."""

    kill: Kill
    tokens: int
    lost: int
    wrong: str


def kills(seed: int, count: int) -> list[Kill]:
    dice = random.Random(seed)
    stalls = (0.0, 0.3, 1.0, 2.4)
    return [
        Kill(dice.uniform(0.0, 4.0), dice.choice((0.003, 0.01, 0.03)), stalls[number % len(stalls)])
        for number in range(count)
    ]


def carry_out(kill: Kill, folder: Path) -> Outcome:
    """Starts a window, kills it, and looks at what it has left."""
    folder.mkdir()
    stall = [f"stall: {kill.stall_s}"] if kill.stall_s else []
    behaviour = json.dumps({"rounds": 1_000_000, "pause_s": kill.pause_s})
    driven = "tests.attack.driven_window"
    words = [sys.executable, "-m", driven, str(folder), behaviour, *stall, "tell me"]
    environment = os.environ | {"QT_QPA_PLATFORM": "offscreen"}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(words, env=environment, text=True, **pipes) as process:
        assert process.stdout is not None
        said = next((line for line in process.stdout if '"shown":' in line), "")
        time.sleep(kill.moment_s)
        process.kill()
        lines = [line for line in (said, *process.stdout) if '"shown":' in line and line.endswith("}\n")]
    return outcome(kill, folder, [json.loads(line) for line in lines])


def outcome(kill: Kill, folder: Path, shown: list[dict[str, int]]) -> Outcome:
    """Compares what was shown, by the reports of the window, with what the next start finds."""
    opened = Store.open(folder / "conversations.sqlite")
    try:
        path = opened.store.path(opened.store.conversations()[0].id)
        rounds = opened.store.rounds(path[-1].id)
    finally:
        opened.store.close()
    kept = [token for one in rounds for token in one.round.tokens]
    lost = max((one["tokens"] for one in shown), default=0) - len(kept)
    wrong = ""
    if opened.notices or path[-1].state != "cut":
        wrong = f"the reply is {path[-1].state}, with notices {opened.notices}"
    elif path[-1].text != text_of(len(kept)) or kept != list(range(len(kept))):
        wrong = "text and tokens are not those of the reply"
    elif lost > 0 or any(one["shown"] > len(path[-1].text) for one in shown):
        wrong = f"{lost} tokens are lost that were on screen"
    return Outcome(kill, len(kept), max(0, lost), wrong)


@contextmanager
def busy_machine() -> Iterator[None]:
    """Keeps the cores busy."""
    burn = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(burn) for _ in range(BURNERS)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def attack(seed: int, short: bool, count: int = 500) -> list[str]:
    """Prints what was lost, by how long the window stalled; returns the kills that lost something."""
    chosen = kills(seed, 4 if short else count)
    with tempfile.TemporaryDirectory() as folder, busy_machine(), ThreadPoolExecutor(AT_ONCE) as workers:
        places = (Path(folder) / str(number) for number in range(len(chosen)))
        outcomes = list(workers.map(carry_out, chosen, places))
    print(f"{'window stalls':>16}{'kills':>8}{'kept tokens':>14}{'lost at most':>14}")
    for stall_s in sorted({one.kill.stall_s for one in outcomes}):
        found = [one for one in outcomes if one.kill.stall_s == stall_s]
        kept, lost = sum(one.tokens for one in found), max(one.lost for one in found)
        print(f"{stall_s:14.1f} s{len(found):8}{kept:14,}{lost:14}", flush=True)
    return [f"kill {number}, {one.kill}: {one.wrong}" for number, one in enumerate(outcomes) if one.wrong]
