"""Damaged lines between the app and the host, both ways: no traceback, no hang, and the next good line works."""

import os
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtWidgets import QApplication

from app import protocol as p
from tests.app.host.mutation import mutated
from tests.app.host.process import RECORDED, HostProcess, asked
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.mutating_host import command
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import until
from tests.toys.folders import make_folder

BATCH = 25  # damaged lines before a good one
ANSWERED_IN_S = 300.0  # which only a hang takes
GOOD = 1 << 40  # ids of good requests begin here
ROUNDS, COPIES = 100, 5


def requests(target: str) -> list[bytes]:
    """One sound line of each kind but Quit."""
    pair = p.Pair(target=target, drafter="lookup")
    sampling = p.SamplingSettings(max_tokens=4, draft_length=2, temperature=0.5, seed=1, top_k=5)
    some = p.RoundTokens(tokens=(5, 6), drafted=(5, 7))
    sides = (p.Side(drafter="none"), p.Side(drafter="lookup"))
    kinds: list[p.AnyRequest] = [
        p.Load(id=1, pair=pair),
        p.Reply(id=2, messages=asked("Hi", "Yes", "Why?"), sampling=sampling, continuation_ids=(5, 6), timed=True),
        p.Count(id=3, messages=asked("Hi")),
        p.Stop(id=2),
        p.Verify(id=4, messages=asked("Hi"), sampling=sampling, rounds=(some,), prompt_tokens=9),
        p.Unload(id=5),
        p.Race(id=6, prompt="Hi", sampling=sampling, sides=sides, runs=1),
    ]
    return [p.encode_line(one)[:-1] for one in kinds]


def damaged_requests(target: str, count: int, dice: random.Random) -> Iterator[bytes]:
    """Damaged lines that neither end the host nor keep it busy for minutes, as those may that happen to be sound."""
    sound = requests(target)
    while count:
        line = mutated(dice.choice(sound), sound, dice)
        try:
            request = p.decode_request(line)
        except (p.MalformedError, RecursionError):
            request = None
        if isinstance(request, p.Quit) or (isinstance(request, p.Load) and request.pair.target == "builtin"):
            continue
        if isinstance(request, p.Race) and request.runs > 2:
            continue
        count -= 1
        yield line


def attack_host(count: int, dice: random.Random, target: Path | None) -> list[str]:
    """To the host, which replays a recording, or decodes with the toy in the folder `target`."""
    replays = [] if target else ["--replay", RECORDED, "--speed", "0"]
    wrong, name = list[str](), "the toy's host" if target else "the replaying host"
    longest_s, good = 0.0, GOOD
    with HostProcess(*replays) as host:
        host.ready()
        lines = damaged_requests(str(target or "/nowhere"), count, dice)
        while batch := [line for line, _ in zip(lines, range(BATCH), strict=False)]:
            good += 2
            sound = [p.Load(id=good, pair=p.Pair(target=str(target or "builtin"), drafter="none"))]
            ask = p.Count(id=good + 1, messages=asked("Hi"))
            begun_s = time.monotonic()
            host.send_bytes(b"\n".join(batch) + b"\n" + b"".join(map(p.encode_line, [*sound, ask])))
            if not _counted(host, good + 1):
                return [*wrong, f"{name}: no answer to a good line behind {batch!a}"[:2000]]
            longest_s = max(longest_s, time.monotonic() - begun_s)
        wrong += [f"{name}: {trace}" for trace in _tracebacks(host.said())]
        if host.quit() != 0:
            wrong.append(f"{name} left with {host.process.returncode}")
    print(f"{name}: {count:,} damaged lines, {len(wrong)} wrong, the longest wait for a good answer {longest_s:.1f} s")
    return wrong


def _counted(host: HostProcess, number: int) -> bool:
    """Whether the Count with this id is answered as usual."""
    last_s = time.monotonic() + ANSWERED_IN_S
    while time.monotonic() < last_s:
        answer = host.next(ANSWERED_IN_S)
        if answer is None:
            return False
        if getattr(answer, "id", None) == number:
            return isinstance(answer, p.Counted)
    return False


def _tracebacks(said: str) -> list[str]:
    """The last line of each traceback, once."""
    found = re.findall(r"Traceback \(most recent call last\):\n(?:[ ].*\n)+(\S.*)", said)
    places = re.findall(r'File "[^"]*?/((?:app|engine|models)/[^"]*)", line (\d+)', said)
    return sorted({f"{error[:150]} near {places[-1:]}" for error in found})


def attack_parser(count: int, dice: random.Random) -> list[str]:
    """The parser of answers: a message or MalformedError, nothing else."""
    sound, wrong = RECORDED.read_bytes().splitlines(), list[str]()
    for _ in range(count):
        line = mutated(dice.choice(sound), sound, dice)
        try:
            p.decode_answer(line)
        except p.MalformedError:
            pass
        except Exception as error:  # noqa: BLE001 - whatever would be a traceback is looked for
            wrong.append(f"parser: {error!a} for {line[:200]!a}")
    print(f"the app's parser: {count:,} damaged lines, {len(wrong)} wrong")
    return wrong


def attack_window(count: int, seed: int, same_id: bool) -> list[str]:
    """To the app's controller: replies arrive whole between lines that are none, or that contradict them."""
    wrong, uncaught = list[str](), list[str]()
    before, sys.excepthook = sys.excepthook, lambda kind, error, trace: uncaught.append(f"{kind.__name__}: {error}")
    name = "the app, answers that contradict" if same_id else "the app"
    try:
        for number in range(max(1, count // (ROUNDS * COPIES))):
            with tempfile.TemporaryDirectory() as folder:
                words = command(seed + number, COPIES, same_id, rounds=ROUNDS, pause_s=0.0)
                with Scene(Path(folder), words=words) as scene:
                    scene.ready()
                    assert scene.controller.send("Hello?")
                    until(lambda scene=scene: scene.ended)
                    if not same_id and scene.text(scene.ended[0].id) != text_of(ROUNDS * 3):
                        wrong.append(f"{name}: reply {number} is not whole")
    except AssertionError as error:
        wrong.append(f"{name}: {error}")
    finally:
        sys.excepthook = before
    wrong += [f"{name}: {one[:200]}" for one in sorted(set(uncaught))]
    print(f"{name}: {count:,} damaged lines, {len(wrong)} wrong")
    return wrong


def attack(seed: int, short: bool, count: int | None = None) -> list[str]:
    """Prints a count for each direction; returns what did not hold. count: of the lines one way."""
    dice, application = random.Random(seed), QApplication.instance() or QApplication(["redline"])
    count = count or (400 if short else 10_000)
    failures = attack_host(count, dice, None)
    with tempfile.TemporaryDirectory() as folder:
        failures += attack_host(count // 2, dice, make_folder(Path(folder) / "toy"))
    failures += attack_parser(count, dice)
    failures += attack_window(count, seed, same_id=False)
    failures += attack_window(count // 4, seed, same_id=True)
    application.processEvents()
    return failures
