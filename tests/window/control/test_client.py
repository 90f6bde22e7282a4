"""The host's process as the window sees it: lines, frames, deaths, and the way out."""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtWidgets import QApplication

from app.protocol import Answers, Count, Counted, Law, Load, Loaded, Message, Pair, Ready, Reply, Told, to_line
from app.window.client import Death, HostClient
from app.window.lines import Decoder, Lines
from app.window.patience import Patience
from tests.window.control.fake_host import command, text_of
from tests.window.control.waiting import QUICK, until


class Listener:
    """A client, and what it told."""

    def __init__(self, words: list[str], patience: Patience = QUICK) -> None:
        self.client = HostClient(words, patience)
        self.frames: list[list[Answers]] = []
        self.deaths: list[Death] = []
        self.troubles: list[str] = []
        self.overdue = 0
        self.client.answered.connect(self.frames.append)
        self.client.died.connect(self.deaths.append)
        self.client.troubled.connect(self.troubles.append)
        self.client.overdue.connect(self.late)

    def late(self) -> None:
        self.overdue += 1

    def of(self, kind: type[Any]) -> list[Any]:
        return [answer for frame in self.frames for answer in frame if isinstance(answer, kind)]

    def start(self) -> None:
        self.client.start()
        until(lambda: self.client.phase == "ready")


@pytest.fixture
def listeners(app: QApplication) -> Any:
    made: list[Listener] = []

    def make(words: list[str] | None = None, patience: Patience = QUICK, **manner: Any) -> Listener:
        made.append(Listener(words or command(**manner), patience))
        return made[-1]

    yield make
    for listener in made:
        listener.client.quit()


def reply(request: int = 2) -> Reply:
    return Reply(id=request, messages=(Message(role="user", content="hi"),), law=Law())


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# --- lines ------------------------------------------------------------------------------------


@given(st.lists(st.binary(max_size=12)), st.integers(1, 8), st.integers(1, 10))
def test_lines_come_whole_however_they_are_cut(parts: list[bytes], size: int, longest: int) -> None:
    data = b"\n".join(parts) + b"\n"
    lines = Lines(longest)
    for start in range(0, len(data), size):
        lines.push(data[start : start + size])
    expected = [line for line in data.split(b"\n") if 0 < len(line) <= longest]
    assert [lines.pop() for _ in range(len(lines))] == expected
    assert lines.overlong == sum(len(line) > longest for line in data.split(b"\n"))


def test_a_line_without_end_is_not_kept() -> None:
    decoder = Decoder(longest=1000)
    for _ in range(100):
        decoder.push(b"x" * 1000)
    assert len(decoder._lines._rest) <= 1000
    decoder.push(b"\n" + to_line(Counted(id=1, tokens=2, context=3)))
    assert decoder.take(time.monotonic() + 1) == [Counted(id=1, tokens=2, context=3)]
    assert decoder.unreadable == 1 and "longer than 1000 bytes" in decoder.complaint


@given(st.lists(st.one_of(st.binary(max_size=40), st.just(to_line(Counted(id=1, tokens=2, context=3)).strip()))))
def test_what_cannot_be_read_is_counted_and_the_rest_is_read(lines: list[bytes]) -> None:
    decoder = Decoder()
    decoder.push(b"".join(line + b"\n" for line in lines))
    read = decoder.take(time.monotonic() + 60)
    whole = [line for joined in lines for line in joined.split(b"\n") if line]
    assert len(read) == sum(line.startswith(b'{"type":"Counted"') for line in whole)
    assert decoder.unreadable == len(whole) - len(read)


# --- speaking ---------------------------------------------------------------------------------


def test_a_reply_arrives_whole_in_order_and_in_frames(listeners: Any) -> None:
    listener = listeners(rounds=200, pause_s=0.0005)
    listener.start()
    listener.client.send(Load(id=1, pair=Pair()))
    listener.client.send(reply())
    until(lambda: len(listener.of(Told)) == 200)
    assert isinstance(listener.frames[0][0], Ready) and len(listener.of(Loaded)) == 1
    assert "".join(text for told in listener.of(Told) for text in told.round.texts) == text_of(600)
    assert len(listener.frames) < 100  # not a signal for each of the 200 rounds


def test_standard_error_is_kept_as_a_tail(listeners: Any) -> None:
    listener = listeners(complaint="x" * 100_000 + "the end\n")
    listener.start()
    until(lambda: listener.client.stderr.endswith("the end\n"))
    assert len(listener.client.stderr) <= 16 << 10


def test_a_strange_line_is_said_once_and_nothing_else_is_lost(listeners: Any) -> None:
    listener = listeners(rounds=10, strange='{"type": "Told"}\nnot JSON\n' + "y" * 60_000)
    listener.start()
    listener.client.send(reply())
    until(lambda: len(listener.of(Told)) == 10)
    assert len(listener.troubles) == 1 and "left out" in listener.troubles[0]


# --- dying ------------------------------------------------------------------------------------


def test_a_host_that_is_killed_is_started_again(listeners: Any) -> None:
    listener = listeners()
    listener.start()
    first = listener.client.pid
    os.kill(first, signal.SIGKILL)
    until(lambda: len(listener.of(Ready)) == 2)
    assert listener.deaths == [Death("was killed (SIGKILL, as systems do when memory runs out)", False)]
    assert listener.client.pid not in (0, first)


def test_all_that_was_said_before_a_death_is_told_before_it(listeners: Any) -> None:
    listener = listeners(rounds=1000, pause_s=0.0, kill_after=500)
    listener.start()
    at_death: list[int] = []
    listener.client.died.connect(lambda _: at_death.append(len(listener.of(Told))))
    listener.client.send(reply())
    until(lambda: at_death)
    assert at_death == [500]


def test_quick_deaths_in_a_row_are_given_up_until_it_is_tried_again(listeners: Any) -> None:
    listener = listeners(python("import sys; print('no', file=sys.stderr); sys.exit(7)"))
    listener.client.start()
    until(lambda: listener.client.phase == "left")
    assert [death.left for death in listener.deaths] == [False, False, True]
    assert listener.deaths[0].said == "ended by itself (exit code 7)"
    assert listener.client.stderr == "no\n"
    listener.client.restart()
    until(lambda: len(listener.deaths) == 6)


def test_deaths_after_good_work_are_not_counted_together(listeners: Any) -> None:
    listener = listeners(kill_after=1)
    for number in range(1, 5):
        listener.client.start()
        until(lambda: listener.client.phase == "ready")
        listener.client.send(Load(id=1, pair=Pair()))
        listener.client.send(reply())
        until(lambda number=number: len(listener.deaths) == number)
    assert not any(death.left for death in listener.deaths)


def test_a_program_that_is_not_there_is_given_up_with_the_reason(listeners: Any) -> None:
    listener = listeners(["/nowhere/python"])
    listener.client.start()
    until(lambda: listener.client.phase == "left")
    assert "could not be started" in listener.deaths[-1].said


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('print(\'{"type":"Ready","version":99,"redline":"","mlx":"","device":""}\', flush=True)', "version 99"),
        ('print(\'{"type":"Counted","id":1,"tokens":1,"context":1}\', flush=True)', "began with Counted"),
    ],
)
def test_a_host_of_another_version_is_refused_and_not_tried_again(listeners: Any, code: str, said: str) -> None:
    listener = listeners(python(f"{code}; import time; time.sleep(60)"))
    listener.client.start()
    until(lambda: listener.deaths)
    assert said in listener.deaths[0].said and "install Redline again" in listener.deaths[0].said
    assert listener.client.phase == "left" and listener.deaths[0].left and not listener.frames


def test_a_host_that_does_not_get_ready_is_said_once(listeners: Any) -> None:
    listener = listeners(patience=Patience(ready_s=0.05), ready_s=0.4)
    listener.client.start()
    until(lambda: listener.client.phase == "ready")
    assert listener.overdue == 1 and not listener.deaths


def test_a_host_that_babbles_is_ended_and_costs_no_memory(listeners: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.window.client.MOST_UNREAD_BYTES", 1 << 20)
    monkeypatch.setattr("app.window.client.AT_ONCE_BYTES", 1 << 12)
    listener = listeners(babble=True)
    listener.start()
    listener.client.send(reply())
    until(lambda: listener.deaths)
    assert listener.deaths[0].said == "said more than the window can take in"


# --- leaving ----------------------------------------------------------------------------------


def test_a_host_that_is_told_to_quit_goes_by_itself(listeners: Any) -> None:
    listener = listeners(rounds=100_000, pause_s=0.001)
    listener.start()
    listener.client.send(reply())
    until(lambda: listener.of(Told))
    began = time.monotonic()
    assert listener.client.quit()
    assert time.monotonic() - began < 1
    assert listener.client.pid == 0 and not listener.deaths


@pytest.mark.parametrize("deaf", [False, True])
def test_a_host_that_hangs_at_quit_is_ended_within_two_seconds(listeners: Any, deaf: bool) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(%r, flush=True); time.sleep(60)"
    said = to_line(Ready(version=1, redline="", mlx="", device="")).decode().strip()
    listener = listeners(python(code % said)) if deaf else listeners(stick_s=60.0)
    listener.start()
    pid = listener.client.pid
    began = time.monotonic()
    assert not listener.client.quit()
    assert time.monotonic() - began < 2
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_nothing_is_started_behind_a_quit(listeners: Any) -> None:
    listener = listeners()
    listener.start()
    os.kill(listener.client.pid, signal.SIGKILL)
    until(lambda: listener.deaths)
    assert listener.client.quit()
    listener.client.start()
    listener.client.send(Count(id=1, messages=()))
    assert listener.client.pid == 0
