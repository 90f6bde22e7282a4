"""A short memory: macOS's word for it is emulated; what is given back, when, and that no text changes."""

import ctypes
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

from app import protocol as p
from app.host import engine_loop
from app.host.engine_loop import LOOK_S
from app.inference import machine, memory_check
from app.inference.machine import memory_is_short
from tests.app.host.process import asked, of_kind
from tests.app.host.replies import served, worker_with

SAMPLING = p.SamplingSettings(max_tokens=6, draft_length=2)
FIRST, OTHER = asked("why is the sky blue? " * 8), asked("what is the sea made of? " * 8)


class Kernel:
    """What the C library of a Mac answers. values: by name, as bytes."""

    def __init__(self, **values: bytes) -> None:
        self.values = values

    def sysctlbyname(self, name: bytes, value: Any, size: Any, *_: object) -> int:
        found = self.values.get(name.decode().rpartition(".")[2])
        if found is None or len(found) > size._obj.value:
            return -1
        ctypes.memmove(value, found, len(found))
        size._obj.value = len(found)
        return 0


class Recorder:
    """A worker, and what takes answers, that write down what is asked of them."""

    pair = None

    def __init__(self) -> None:
        self.done: list[object] = []

    def prepare(self, _: object) -> None:
        pass

    def give_back_memory(self) -> None:
        self.done.append("given back")

    def write(self, answer: p.AnyAnswer) -> None:
        self.done.append(answer)


def run_on_a_mac(monkeypatch: pytest.MonkeyPatch, **values: bytes) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda _: Kernel(**values))


def shorten_memory(monkeypatch: pytest.MonkeyPatch, short: bool = True) -> None:
    """Has macOS say that memory is short, whenever it is asked; the host asks as often as it can."""
    monkeypatch.setattr(engine_loop, "LOOK_S", 0.0)
    for module in (engine_loop, memory_check):
        monkeypatch.setattr(module, "memory_is_short", lambda: short)


@pytest.mark.parametrize(("level", "short"), [(1, False), (2, True), (4, True), (0, False)])
def test_memory_is_short_from_the_warning_of_macos_on(monkeypatch: pytest.MonkeyPatch, level: int, short: bool) -> None:
    run_on_a_mac(monkeypatch, memorystatus_vm_pressure_level=level.to_bytes(4, sys.byteorder))
    assert memory_is_short() == short


def test_memory_is_never_short_where_nobody_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    run_on_a_mac(monkeypatch)
    assert not memory_is_short()
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(ctypes, "CDLL", None)  # it is not even asked
    assert not memory_is_short()


def test_the_processor_is_still_named_by_the_same_call(monkeypatch: pytest.MonkeyPatch) -> None:
    run_on_a_mac(monkeypatch, brand_string=b"Apple M3 Max\0")
    assert machine.processor() == "Apple M3 Max"


def test_the_system_is_asked_now_and_then_and_the_window_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, asked_at, both = 100.0, list[float](), Recorder()
    monkeypatch.setattr(engine_loop, "time", SimpleNamespace(monotonic=lambda: now_s))
    monkeypatch.setattr(engine_loop, "memory_is_short", lambda: asked_at.append(now_s) or now_s > 101)
    runner = idle(both)
    for _ in range(40):
        runner._look_at_memory(both)
        now_s += LOOK_S / 10
    assert asked_at == [100 + LOOK_S * number for number in range(4)]
    assert both.done == ["given back", p.MemoryShort(), "given back", "given back"]


def replies(target: Path) -> tuple[list[p.AnyAnswer], list[str], int]:
    """Has a host answer in two conversations by turns; returns all answers, the texts, and how many conversations are
    kept."""
    worker = worker_with(target, "lookup")
    requests = [
        p.Reply(id=number, messages=messages, sampling=SAMPLING) for number, messages in enumerate((FIRST, OTHER) * 2)
    ]
    answers = served(worker, *requests, places=1)
    rounds = of_kind(answers, p.RoundDone)
    texts = ["".join(t for one in rounds if one.id == number for t in one.round.texts) for number in range(4)]
    return answers, texts, len(worker._pair.session.kept)


def test_short_memory_drops_kept_conversations_and_changes_no_text(
    toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten_memory(monkeypatch, short=False)
    answers, texts, kept = replies(toy_folder)
    assert kept == 1 and of_kind(answers, p.MemoryShort) == []
    shorten_memory(monkeypatch)
    answers, texts_then, kept = replies(toy_folder)
    assert kept == 0 and texts_then == texts
    assert len(of_kind(answers, p.MemoryShort)) == 1


def test_giving_back_drops_freed_buffers_and_waits_for_nothing(
    toy_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, calls = worker_with(toy_folder), list[str]()
    served(worker, p.Reply(id=1, messages=FIRST, sampling=SAMPLING), p.Reply(id=2, messages=OTHER, sampling=SAMPLING))
    in_use = worker._pair.session.tokens
    monkeypatch.setattr(mx, "clear_cache", lambda: calls.append("cleared"))
    for name in ("eval", "async_eval", "synchronize"):
        monkeypatch.setattr(mx, name, None)
    worker.give_back_memory()
    assert calls == ["cleared"] and len(worker._pair.session.kept) == 0
    assert worker._pair.session.tokens == in_use and len(in_use) > 64


class IdleQueue:
    """A queue whose waits are over at once. It closes after the first five."""

    def __init__(self) -> None:
        self.waits = 0

    def end_task(self, _: object) -> None:
        pass

    def wait(self, _: float) -> bool:
        self.waits += 1
        return self.waits > 5

    def take(self) -> None:
        return None


def idle(both: Any) -> engine_loop.TaskRunner:
    """Whoever carries out tasks, with a worker and nothing to do."""
    runner = engine_loop.TaskRunner(IdleQueue(), both.write, lambda: both)  # type: ignore[arg-type]
    runner._worker = both
    return runner


def test_a_host_that_nobody_asks_looks_too(monkeypatch: pytest.MonkeyPatch) -> None:
    shorten_memory(monkeypatch)
    both: Any = Recorder()
    assert idle(both)._next() is None
    assert both.done == ["given back", p.MemoryShort(), *["given back"] * 3]


def test_a_window_that_is_gone_ends_a_host_that_has_something_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(_: p.AnyAnswer) -> None:
        raise engine_loop.WindowGoneError("answers cannot be written")

    shorten_memory(monkeypatch)
    both: Any = Recorder()
    both.write = write
    with pytest.raises(engine_loop.WindowGoneError):
        idle(both)._next()
