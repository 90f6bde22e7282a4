"""A host without models, for the window's tests: `python -m tests.window.control.fake_host JSON`.

Says "w0 w1 w2 ...": three tokens a round, of which the first two were drafted, so that whoever has a part of it knows
what comes next. With `said` it goes on behind those.
"""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from app import protocol as p
from engine.events import Finished, PromptProgress, Round
from engine.receipt import Difference, Receipt

A_ROUND = 3  # tokens


class Manner(msgspec.Struct, frozen=True):
    """How to behave. Counts are of rounds of one process; 0 is never. Seconds end in _s.

    check_s: between the parts of a check, which refuses with `refuse_check`, or finds plain decoding to say `differ` at
    token 4. stick_s: at Quit, before it is obeyed. strange: lines written as they are, in the
    middle of every reply; endless: bytes of another such line.
    """

    rounds: int = 20
    pause_s: float = 0.002
    ready_s: float = 0.0
    load_s: float = 0.0
    version: int = p.VERSION
    fail_load: str = ""
    fail_after: int = 0
    kill_after: int = 0
    exit_after: int = 0
    hang_after: int = 0
    skip_after: int = 0
    fall_back_after: int = 0
    check_s: float = 0.0
    refuse_check: str = ""
    differ: str = ""
    stick_s: float = 0.0
    kill_on_load: bool = False
    strange: str = ""
    endless: int = 0
    complaint: str = ""
    babble: bool = False
    context: int = 4096
    speculation: p.Speculation = "on"
    tail: str = ""


def round_of(index: int, first: int, time_s: float) -> Round:
    """Round `index` of a reply, whose first token is the `first` of the text."""
    numbers = tuple(range(first, first + A_ROUND))
    return Round(
        index=index,
        tokens=numbers,
        drafted=(*numbers[:2], 7),
        accepted=2,
        p=(0.5,) * A_ROUND,
        q=(0.5,) * A_ROUND,
        width=A_ROUND + 1,
        time_s=time_s,
        reason="fixed at 3",
        texts=tuple(word(number) for number in numbers),
    )


def word(number: int) -> str:
    return f"w{number} "


def text_of(tokens: int) -> str:
    """What so many tokens say."""
    return "".join(word(number) for number in range(tokens))


class FakeHost:
    """Reads requests in a thread, so that Stop is heard in the middle of a reply."""

    def __init__(self, manner: Manner) -> None:
        self.manner = manner
        self.requests: queue.SimpleQueue[p.Requests] = queue.SimpleQueue()
        self.stopped: set[int] = set()
        self.leaving = False
        self.told = 0  # rounds

    def run(self) -> None:
        time.sleep(self.manner.ready_s)
        sys.stderr.write(self.manner.complaint)
        sys.stderr.flush()
        self.say(p.Ready(version=self.manner.version, redline="fake", mlx="none", device="a fake"))
        threading.Thread(target=self.listen, daemon=True).start()
        while not isinstance(request := self.requests.get(), p.Quit):
            self.obey(request)
        time.sleep(self.manner.stick_s)

    def listen(self) -> None:
        for line in sys.stdin.buffer:
            request = p.read_request(line)
            if isinstance(request, p.Stop):
                self.stopped.add(request.id)
            else:
                self.leaving = self.leaving or isinstance(request, p.Quit)
                self.requests.put(request)
        self.leaving = True
        self.requests.put(p.Quit(id=0))

    def obey(self, request: p.Requests) -> None:
        if isinstance(request, p.Load):
            self.load(request)
        elif isinstance(request, p.Count):
            tokens = sum(len(message.content.split()) for message in request.messages)
            self.say(p.Counted(id=request.id, tokens=tokens, context=self.manner.context))
        elif isinstance(request, p.Unload):
            self.say(p.Unloaded(id=request.id))
        elif isinstance(request, p.Reply):
            self.reply(request)
        elif isinstance(request, p.Verify):
            self.verify(request)

    def load(self, request: p.Load) -> None:
        manner = self.manner
        if manner.kill_on_load:
            os.kill(os.getpid(), signal.SIGKILL)
        self.say(p.Loading(id=request.id, said="Reading weights"))
        time.sleep(manner.load_s)
        if manner.fail_load and manner.fail_load in request.pair.drafter:
            self.say(p.Failed(id=request.id, kind="PairError", said=f"{request.pair.drafter} does not fit"))
            return
        loaded: dict[str, Any] = {"target": "Fake", "drafter": request.pair.drafter, "branches": False, "said": ""}
        self.say(
            p.Loaded(id=request.id, pair=request.pair, speculation=manner.speculation, context=manner.context, **loaded)
        )

    def reply(self, request: p.Reply) -> None:
        manner, first = self.manner, len(request.said)
        began_s = time.monotonic()
        self.say(p.Progress(id=request.id, progress=PromptProgress(0, 30 + first, 0, 0.0)))
        self.say(p.Progress(id=request.id, progress=PromptProgress(30 + first, 30 + first, 0, 0.01)))
        for index in range(manner.rounds):
            if request.id in self.stopped or self.leaving:
                self.end(request, "cancelled", index)
                return
            self.misbehave(request.id, index)
            if manner.fail_after and self.told >= manner.fail_after:
                self.say(p.Failed(id=request.id, kind="BackendError", said="the device is gone: plug it in"))
                return
            skipped = 1 if manner.skip_after and self.told >= manner.skip_after else 0
            made = round_of(index + skipped, first + index * A_ROUND, time.monotonic() - began_s)
            self.say(p.Told(id=request.id, round=made, drafted_texts=(*made.texts[:2], "x")))
            self.told += 1
            time.sleep(manner.pause_s)
        self.end(request, "eos", manner.rounds)

    def verify(self, request: p.Verify) -> None:
        manner, total = self.manner, sum(len(said.tokens) for said in request.rounds)
        if manner.refuse_check:
            self.say(p.Failed(id=request.id, kind="OtherPromptError", said=manner.refuse_check))
            return
        self.say(p.Progress(id=request.id, progress=PromptProgress(0, 30, 0, 0.0)))
        for done in range(0, total + 1, A_ROUND):
            if manner.kill_after and self.told >= manner.kill_after:
                os.kill(os.getpid(), signal.SIGKILL)
            if request.id in self.stopped or self.leaving:
                self.say(p.Failed(id=request.id, kind="Cancelled", said="stopped before all of the reply was checked"))
                return
            self.say(p.Checking(id=request.id, done=done, total=total))
            time.sleep(manner.check_s)
        found = Difference(4, 99, 4, 1.0, 2.0, near_tie=True, plain_text=manner.differ, other_text=word(4))
        self.say(p.Verified(id=request.id, receipt=Receipt(total, (found,) if manner.differ else ())))

    def misbehave(self, request: int, index: int) -> None:
        manner = self.manner
        if manner.kill_after and self.told >= manner.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)
        if manner.exit_after and self.told >= manner.exit_after:
            os._exit(3)
        if manner.hang_after and self.told >= manner.hang_after:
            time.sleep(3600)
        if manner.fall_back_after and self.told == manner.fall_back_after:
            self.say(p.FellBack(id=request, said="the drafter broke"))
        if index == manner.rounds // 2 and manner.strange:
            self.write(manner.strange.encode() + b"\n")
        if index == manner.rounds // 2 and manner.endless:
            self.write(b"x" * manner.endless + b"\n")
        while manner.babble:
            self.write(b"x" * 100_000)

    def end(self, request: p.Reply, reason: Any, rounds: int) -> None:
        finished = Finished(reason, rounds * A_ROUND, 1.0, self.manner.tail)
        self.say(p.Ended(id=request.id, finished=finished, seed=request.law.seed or 0))

    def say(self, answer: p.Answers) -> None:
        self.write(p.to_line(answer))

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def command(**manner: Any) -> list[str]:
    """That starts one."""
    return [sys.executable, "-m", __name__, msgspec.json.encode(manner).decode()]


def main(words: Sequence[str]) -> None:
    FakeHost(msgspec.json.decode(words[0], type=Manner)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
