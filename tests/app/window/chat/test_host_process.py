"""The host process as the window sees it: lines, frames, deaths, restarts and quitting."""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from app.protocol import (
    VERSION,
    AnyAnswer,
    Count,
    Load,
    Loaded,
    Message,
    Pair,
    Ready,
    Reply,
    RoundDone,
    SamplingSettings,
    encode_line,
)
from app.window.chat.host_process import FRAME_S, HostProcess, Timeouts
from tests.app.window.chat.fake_host import command, text_of
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.waiting import QUICK, until


class Listener:
    """A host process, and everything that it emitted."""

    def __init__(self, words: list[str], timeouts: Timeouts = QUICK) -> None:
        self.client = HostProcess(words, timeouts)
        self.frames: list[list[AnyAnswer]] = []
        self.deaths: list[tuple[str, bool]] = []  # why, and whether the host was given up
        self.client.frame_due.connect(self.read)
        self.client.died.connect(lambda cause: self.deaths.append((cause, self.client.phase == "failed")))

    def read(self) -> None:
        with self.client.frame() as answers:
            self.frames += [answers] if answers else []

    def of(self, kind: type[Any]) -> list[Any]:
        return [answer for frame in self.frames for answer in frame if isinstance(answer, kind)]

    def start(self) -> None:
        self.client.start()
        until(lambda: self.client.phase == "ready")


@pytest.fixture
def listeners() -> Any:
    made: list[Listener] = []

    def make(words: list[str] | None = None, timeouts: Timeouts = QUICK, **behaviour: Any) -> Listener:
        made.append(Listener(words or command(**behaviour), timeouts))
        return made[-1]

    yield make
    for listener in made:
        listener.client.quit()


def reply(request: int = 2) -> Reply:
    return Reply(id=request, messages=(Message(role="user", content="hi"),), sampling=SamplingSettings())


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


# --- speaking ---------------------------------------------------------------------------------


def test_a_reply_arrives_whole_in_order_and_in_frames(listeners: Any, clock: SteppedClock) -> None:
    listener = listeners(rounds=200)

    def until_frames_bring(holds: Callable[[], object]) -> None:
        until(lambda: (clock.advance(FRAME_S), holds())[1])

    listener.client.start()
    until_frames_bring(lambda: listener.client.phase == "ready")
    listener.client.send(Load(id=1, pair=Pair()))
    until_frames_bring(lambda: listener.of(Loaded))
    assert isinstance(listener.frames[0][0], Ready)
    frames = len(listener.frames)
    listener.client.send(reply())
    until(lambda: b"ReplyDone" in listener.client._process.peek(1 << 20).data())
    assert len(listener.frames) == frames
    clock.advance(FRAME_S)
    assert len(listener.frames) == frames + 1  # one signal for all that came meanwhile
    assert "".join(text for one in listener.of(RoundDone) for text in one.round.texts) == text_of(600)


def test_standard_error_is_kept_as_a_tail(listeners: Any) -> None:
    listener = listeners(stderr="x" * 100_000 + "the end\n")
    listener.start()
    until(lambda: listener.client.stderr.endswith("the end\n"))
    assert len(listener.client.stderr) <= 16 << 10


# --- dying ------------------------------------------------------------------------------------


def test_all_answers_before_a_death_are_emitted_before_it(listeners: Any) -> None:
    listener = listeners(rounds=1000, kill_after=500)
    listener.start()
    at_death: list[int] = []
    listener.client.died.connect(lambda _: at_death.append(len(listener.of(RoundDone))))
    listener.client.send(reply())
    until(lambda: at_death)
    assert at_death == [500]


def test_a_host_that_dies_quickly_is_given_up_until_the_user_restarts_it(listeners: Any) -> None:
    listener = listeners(python("import sys; print('no', file=sys.stderr); sys.exit(7)"))
    listener.client.start()
    until(lambda: listener.client.phase == "failed")
    assert [gave_up for _, gave_up in listener.deaths] == [False, False, True]
    assert listener.deaths[0][0] == "quit unexpectedly (exit code 7)"
    assert listener.client.stderr == "no\n"
    listener.client.restart()
    until(lambda: len(listener.deaths) == 6)


def test_a_missing_program_is_given_up_with_the_reason(listeners: Any) -> None:
    listener = listeners(["/nowhere/python"])
    listener.client.start()
    until(lambda: listener.client.phase == "failed")
    assert "could not start" in listener.deaths[-1][0]


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ('print(\'{"type":"Ready","version":99,"redline":"","mlx":"","device":""}\', flush=True)', "version 99"),
        ('print(\'{"type":"Counted","id":1,"tokens":1,"context":1}\', flush=True)', "began with Counted"),
    ],
)
def test_a_host_of_another_version_is_refused_and_not_tried_again(listeners: Any, code: str, cause: str) -> None:
    listener = listeners(python(f"{code}; input()"))
    listener.client.start()
    until(lambda: listener.deaths)
    assert cause in listener.deaths[0][0] and "reinstall Redline" in listener.deaths[0][0]
    assert listener.client.phase == "failed" and listener.deaths[0][1] and not listener.frames


def test_a_host_that_sends_too_much_is_killed(listeners: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.window.chat.host_process.MAX_UNREAD_BYTES", 1 << 20)
    listener = listeners(flood=True)
    listener.start()
    listener.client.send(reply())
    until(lambda: listener.deaths)
    assert listener.deaths[0][0] == "sent more data than the window can process"


# --- leaving ----------------------------------------------------------------------------------


def test_a_host_quits_by_itself_when_asked(listeners: Any) -> None:
    listener = listeners(rounds=100_000, hold_after=1)
    listener.start()
    listener.client.send(reply())
    until(lambda: listener.of(RoundDone))
    assert listener.client.quit()
    assert listener.client.pid == 0 and not listener.deaths


@pytest.mark.slow_for("False")
@pytest.mark.parametrize("deaf", [False, True])
def test_a_host_that_hangs_at_quit_is_ended(listeners: Any, deaf: bool) -> None:
    """deaf: to SIGTERM too."""
    code = "import signal as s; s.signal(s.SIGTERM, s.SIG_IGN)\nprint(%r, flush=True)\nwhile True: s.pause()"
    ready = encode_line(Ready(version=VERSION, redline="", mlx="", device="")).decode().strip()
    if deaf:
        listener = listeners(python(code % ready), replace(QUICK, quit_s=0.0, terminate_s=0.0))
    else:
        listener = listeners(hold_at=("quit",), timeouts=replace(QUICK, quit_s=0.0))
    listener.start()
    process = listener.client._process
    assert not listener.client.quit()
    until(lambda: process.state() == process.ProcessState.NotRunning)


def test_nothing_is_started_after_quit(listeners: Any) -> None:
    listener = listeners()
    listener.start()
    os.kill(listener.client.pid, signal.SIGKILL)
    until(lambda: listener.deaths)
    assert listener.client.quit()
    listener.client.start()
    listener.client.send(Count(id=1, messages=()))
    assert listener.client.pid == 0
