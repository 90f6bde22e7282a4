"""Hostile model folders and GGUF files. Each folder is opened by the host and asked for one reply, each file imported
by a process of its own; nothing may show a traceback, hang, or end the process.

A host goes on to the next folder, as a user's does, and is replaced when it is lost. Memory is that of the host and
of the processes that it started, at its highest.
"""

import json
import random
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE, Popen

import psutil

from app import protocol
from tests.toys.damage import FILE_DAMAGE, FOLDER_DAMAGE
from tests.toys.folders import make_folder
from tests.toys.gguf_files import tiny_llama

ROOT = Path(__file__).parents[2]
HOST, IMPORTER = ("-m", "app.host"), ("-m", "tests.attack.folders")
LIMIT_S = 600.0  # for a load, a reply or an import, which only a hang takes
MOST_BYTES = 3 << 30  # of memory that the host may come to need
HELD = ("answered", "refused")
OUTCOMES = (*HELD, "traceback", "hung", "aborted", "memory")


class Victim:
    """A process that takes lines and answers in lines, and is started again when it is lost."""

    def __init__(self, command: tuple[str, ...], home: Path) -> None:
        self._command, self._home = command, home
        self.peak_bytes = 0
        self._start()

    def _start(self) -> None:
        self._errors = (self._home / "stderr").open("a+b")
        environment = {**psutil.Process().environ(), "XDG_CACHE_HOME": str(self._home / "cache"), "HF_HUB_OFFLINE": "1"}
        self.process = Popen(
            [sys.executable, *self._command], cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=self._errors, env=environment
        )
        self._timer = threading.Timer(0, lambda: None)
        self._watch = threading.Thread(target=self._measure, args=(psutil.Process(self.process.pid),), daemon=True)
        self._watch.start()

    def _measure(self, process: psutil.Process) -> None:
        while process.is_running() and self.process.poll() is None:
            total = 0
            try:
                for one in (process, *process.children(recursive=True)):
                    total += one.memory_info().rss
            except psutil.Error:
                pass
            self.peak_bytes = max(self.peak_bytes, total)
            time.sleep(0.05)

    def ask(self, line: bytes, last: Callable[[bytes], bool]) -> bytes | str:
        """Sends a line and returns the answer that `last` is looking for; "hung" or "aborted" where none came."""
        assert self.process.stdin is not None and self.process.stdout is not None
        late = threading.Event()
        timer = threading.Timer(LIMIT_S, lambda: (late.set(), self.process.kill()))
        timer.start()
        try:
            self.process.stdin.write(line)
            self.process.stdin.flush()
            for answer in self.process.stdout:
                if last(answer):
                    return answer
        except OSError:
            pass
        finally:
            timer.cancel()
        self.process.wait()
        return "hung" if late.is_set() else "aborted"

    def said(self) -> str:
        """What it wrote to standard error since the last call."""
        self._errors.seek(0)
        text = self._errors.read().decode(errors="replace")
        self._errors.truncate(0)
        return text

    def restart(self) -> None:
        self.end()
        self._start()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            if stream is not None:
                stream.close()


def open_and_ask(host: Victim, folder: Path) -> tuple[str, str]:
    """Has the host load a folder and reply once. Returns the outcome and why."""
    settings = protocol.SamplingSettings(max_tokens=6, draft_length=2)
    question = (protocol.Message(role="user", content="Why is the sky blue? " * 3),)
    requests = (
        protocol.Load(id=1, pair=protocol.Pair(target=str(folder), drafter="lookup")),
        protocol.Reply(id=2, messages=question, sampling=settings),
    )
    for request in requests:
        line = host.ask(protocol.encode_line(request), is_end)
        if isinstance(line, str):
            return line, host.said()[-300:]
        answer = protocol.decode_answer(line)
        if isinstance(answer, protocol.Failed):
            return verdict(answer.message, host.said())
    return verdict("", host.said())


def is_end(line: bytes) -> bool:
    return isinstance(protocol.decode_answer(line), protocol.Loaded | protocol.ReplyDone | protocol.Failed)


def import_file(importer: Victim, file: Path) -> tuple[str, str]:
    """Has a file imported. Returns the outcome and why."""
    line = importer.ask(f"{file}\n".encode(), lambda line: line.startswith(b"{"))
    if isinstance(line, str):
        return line, importer.said()[-300:]
    return verdict(json.loads(line)["refused"], importer.said())


def verdict(message: str, said: str) -> tuple[str, str]:
    """message: why it was refused, "" if it was answered. said: on standard error."""
    if "Traceback" in said or "something unexpected" in message:
        return "traceback", said[-600:] or message
    if "\n" in message or len(message) > 1500:
        return "traceback", f"more than a line: {message[:300]!r}"
    return ("refused", message) if message else ("answered", "")


def attack(seed: int, short: bool, count: int | None = None) -> list[str]:
    """Prints a count for each kind of damage; returns what did not hold."""
    dice = random.Random(seed)
    folders = count or (24 if short else 1000)
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        sound = make_folder(home / "sound")
        failures += run_cases(home, "folders", HOST, open_and_ask, folder_cases(dice, sound, home, folders))
        files = gguf_cases(dice, home, 12 if short else max(1, folders * 2 // 5))
        failures += run_cases(home, "GGUF files", IMPORTER, import_file, files)
    return failures


Cases = Iterator[tuple[str, Path]]


def folder_cases(dice: random.Random, sound: Path, home: Path, count: int) -> Cases:
    """Damaged copies of a sound folder, each gone when the next one is made."""
    names = list(FOLDER_DAMAGE)
    for number in range(count):
        name = names[number % len(names)]
        folder = Path(shutil.copytree(sound, home / f"folder{number}"))
        FOLDER_DAMAGE[name](folder, dice)
        yield name, folder
        remove(folder)


def gguf_cases(dice: random.Random, home: Path, count: int) -> Cases:
    sound, names = tiny_llama(), list(FILE_DAMAGE)
    for number in range(count):
        name = names[number % len(names)]
        file = home / f"model{number}.gguf"
        file.write_bytes(FILE_DAMAGE[name](sound, dice))
        yield name, file
        file.unlink()


def remove(folder: Path) -> None:
    """Removes a folder however deep it is: `shutil.rmtree` of Python 3.11 recurses."""
    while True:
        deepest = folder
        for _ in range(100):
            below = next((p for p in deepest.iterdir() if p.is_dir() and not p.is_symlink()), None)
            if below is None:
                shutil.rmtree(folder)
                return
            deepest = below
        shutil.move(deepest, folder.with_name("below"))
        shutil.rmtree(folder)
        folder.with_name("below").rename(folder)


def run_cases(
    home: Path, what: str, command: tuple[str, ...], judge: Callable[[Victim, Path], tuple[str, str]], cases: Cases
) -> list[str]:
    """Runs the cases and prints their table; returns what did not hold."""
    found: dict[str, Counter[str]] = {}
    failures: list[str] = []
    slowest, began_s = 0.0, time.monotonic()
    victim = Victim(command, home)
    for number, (name, path) in enumerate(cases):
        case_s, victim.peak_bytes = time.monotonic(), 0
        outcome, why = judge(victim, path)
        if outcome in HELD and victim.peak_bytes > MOST_BYTES:
            outcome, why = "memory", f"{victim.peak_bytes / 1e9:.1f} GB"
        slowest = max(slowest, time.monotonic() - case_s)
        found.setdefault(name, Counter())[outcome] += 1
        if outcome not in HELD:
            failures.append(f"{what}, case {number}, {name}: {outcome}: {' '.join(why.split())[:400]}")
            print(failures[-1], flush=True)
            victim.restart()
        if number % 100 == 99:
            print(f"{number + 1}: {dict(sum(found.values(), Counter()))}", flush=True)
    victim.end()
    print_table(what, found)
    print(f"slowest case {slowest:.1f} s, all {time.monotonic() - began_s:.0f} s", flush=True)
    return failures


def print_table(what: str, found: dict[str, Counter[str]]) -> None:
    rows = [*sorted(found.items()), ("all", sum(found.values(), Counter()))]
    print(f"{what:30}" + "".join(f"{name:>10}" for name in OUTCOMES))
    for name, counts in rows:
        print(f"{name:30}" + "".join(f"{counts[outcome]:10}" for outcome in OUTCOMES), flush=True)


def serve_imports() -> None:
    """Imports each file that standard input names, and prints whether it was refused."""
    from engine.errors import RedlineError
    from models.convert.model_import import import_model, inspect
    from models.storage_options import StorageOptions

    for line in sys.stdin:
        refused = ""
        with tempfile.TemporaryDirectory() as place:
            try:
                import_model(inspect(Path(line.strip())), Path(place) / "model", StorageOptions())
            except RedlineError as error:
                refused = str(error) or "?"
            except Exception as error:  # noqa: BLE001  what is looked for
                refused = f"something unexpected: {error!r}"
        print(json.dumps({"refused": refused}), flush=True)


if __name__ == "__main__":
    serve_imports()
