"""A host without models, for the window's tests: `python -m tests.app.window.chat.fake_host JSON`.

It replies "w0 w1 w2 ...": three tokens a round, of which the first two were drafted, so that any part of a reply tells
what must come next. After `continuation_ids` it continues the count.
"""

import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from app import protocol as p
from app.command_line import AGAIN, FAILURE, notify
from engine.audit.receipt import Difference, Receipt
from engine.events import Finished, PromptProgress, Reason, Round

ROUND_TOKENS = 3  # tokens
CONTEXT = 4096
ROUND_S = 0.001  # what a round takes, as it says
GO, FOREVER = b"go ", 1_000_000
LOST = f"studio, which computes a part of this model, has ended{AGAIN}"


class Behaviour(msgspec.Struct, frozen=True):
    """How to behave. Counts are of rounds of one process; 0 is never.

    hold_at: where it waits until it is told to go on (`go_line`): "ready", "load" before the result, "work" before each
    of `works` signs that it measures, "verify" before each report, and "quit", which nothing ends. hold_after: rounds
    of each reply before it waits the same way for each further round; Stop and Quit end such a wait. hang_after: from
    then on it does nothing until Quit. pause_s: between rounds, for programs that measure.

    A verification fails with `refuse_verify`, or finds that plain decoding writes `differ` at token 4. thought: how
    many tokens of a reply, from its beginning, are thought; thinking: whether that can be
    turned off. reason: why replies end. temperature: the model's own.
    bad_line: lines written as they are, in the middle of every reply; overlong_bytes: the length of another such line.
    flood: writes without end. lose_after: another machine is lost then. unreachable: why other machines cannot be
    joined.
    """

    rounds: int = 20
    context: int = CONTEXT
    hold_at: tuple[str, ...] = ()
    hold_after: int = 0
    works: int = 0
    pause_s: float = 0.0
    fail_load: str = ""
    fail_after: int = 0
    kill_after: int = 0
    lose_after: int = 0
    unreachable: str = ""
    hang_after: int = 0
    skip_after: int = 0
    fall_back_after: int = 0
    refuse_verify: str = ""
    differ: str = ""
    thought: int = 0
    thinking: bool = False
    reason: Reason = "eos"
    temperature: float = 0.0
    kill_on_load: bool = False
    bad_line: str = ""
    overlong_bytes: int = 0
    stderr: str = ""
    flood: bool = False
    tail: str = ""
    short_of_memory: bool = False


def round_of(index: int, first: int, time_s: float) -> Round:
    """Returns round `index` of a reply, whose first token is number `first` of the text."""
    numbers = tuple(range(first, first + ROUND_TOKENS))
    return Round(
        index=index,
        tokens=numbers,
        drafted=(*numbers[:2], 7),
        accepted=2,
        p=(0.5,) * ROUND_TOKENS,
        q=(0.5,) * ROUND_TOKENS,
        width=ROUND_TOKENS + 1,
        time_s=time_s,
        reason="fixed at 3",
        texts=tuple(word(number) for number in numbers),
    )


def word(number: int) -> str:
    return f"w{number} "


def text_of(tokens: int) -> str:
    """Returns the text of so many tokens."""
    return "".join(word(number) for number in range(tokens))


class FakeHost:
    """Reads requests in a thread, so that Stop is received during a reply. Replies are written in turns, as a real host
    writes them at once."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.requests: deque[p.AnyRequest] = deque()
        self.replies: dict[int, Iterator[bool]] = {}  # that are being written, by their requests
        self.held: set[int] = set()  # those of them that wait for a step
        self.stopped: set[int] = set()
        self.leaving = False
        self.changed = threading.Condition()  # what of the above the listener changes, and `steps`
        self.steps = 0  # that it may still go on
        self.rounds_sent = 0  # rounds
        self.target = ""  # of the pair that is loaded

    def run(self) -> None:
        threading.Thread(target=self.listen, daemon=True).start()
        self.hold("ready")
        sys.stderr.write(self.behaviour.stderr)
        sys.stderr.flush()
        self.send(p.Ready(version=p.VERSION, redline="fake", mlx="none", device="a fake"))
        if self.behaviour.short_of_memory:
            self.send(p.MemoryShort())
        while not isinstance(request := self.next_request(), p.Quit):
            if isinstance(request, p.Reply):
                self.replies[request.id] = self.reply(request)
            else:
                self.carry_out(request)
        if "quit" in self.behaviour.hold_at:
            threading.Event().wait()

    def next_request(self) -> p.AnyRequest:
        """Returns the next request that may be carried out beside the replies that are being written, and writes these
        in turns until there is one."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.may_take() or self.may_write())
                if self.may_take():
                    return self.requests.popleft()
            for number, reply in list(self.replies.items()):
                if next(reply, None) is None:
                    del self.replies[number]

    def may_take(self) -> bool:
        beside = bool(self.requests) and isinstance(self.requests[0], p.Reply | p.Count | p.Quit)
        return bool(self.requests) and (not self.replies or beside)

    def may_write(self) -> bool:
        return any(number not in self.held or self.steps or self.over(number) for number in self.replies)

    def listen(self) -> None:
        for line in p.read_lines(sys.stdin.fileno()):
            if isinstance(line, p.Malformed):
                self.send(line)
                continue
            with self.changed:
                if line.startswith(GO):
                    self.steps += int(line.removeprefix(GO))
                else:
                    self.queue(p.decode_request(line))
                self.changed.notify()
        with self.changed:
            self.queue(p.Quit(id=0))
            self.changed.notify()

    def queue(self, request: p.AnyRequest) -> None:
        if isinstance(request, p.Stop):
            self.stopped.add(request.id)
        else:
            self.leaving = self.leaving or isinstance(request, p.Quit)
            self.requests.append(request)

    def hold(self, place: str, request: int = 0) -> None:
        """Waits, where it is to wait at this place, for a step that it may go on or for the end of the request."""
        if place in self.behaviour.hold_at:
            self.wait_for_step(request)

    def wait_for_step(self, request: int) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.steps or self.over(request))
            self.steps = max(0, self.steps - 1)

    def steps_on(self, request: int) -> Iterator[bool]:
        """Yields until a reply has been given a step, or is over."""
        while True:
            with self.changed:
                if self.steps or self.over(request):
                    self.steps = max(0, self.steps - 1)
                    self.held.discard(request)
                    return
                self.held.add(request)
            yield True

    def over(self, request: int) -> bool:
        return self.leaving or request in self.stopped

    def hang(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: self.leaving)

    def carry_out(self, request: p.AnyRequest) -> None:
        if isinstance(request, p.Load):
            self.load(request)
        elif isinstance(request, p.Count):
            tokens = sum(len(message.content.split()) for message in request.messages)
            self.send(p.Counted(id=request.id, tokens=tokens, context=self.behaviour.context))
        elif isinstance(request, p.Unload):
            self.send(p.Unloaded(id=request.id))
        elif isinstance(request, p.Verify):
            self.verify(request)

    def load(self, request: p.Load) -> None:
        behaviour = self.behaviour
        if behaviour.kill_on_load:
            os.kill(os.getpid(), signal.SIGKILL)
        self.send(p.Loading(id=request.id, message="Reading weights"))
        self.hold("load")
        if behaviour.fail_load and behaviour.fail_load in request.pair.drafter:
            self.send(p.Failed(id=request.id, kind="PairError", message=f"{request.pair.drafter} does not fit"))
            return
        if behaviour.unreachable and request.pair.hosts:
            why = behaviour.unreachable
            self.send(p.Failed(id=request.id, kind="BackendError", message=why, fits_alone=True))
            return
        self.target = request.pair.target
        shared = p.Machines(names=("localhost", "studio"), memory="38.0 of 64.0 GB here, 22.0 on studio", pass_s=0.001)
        drafter, state = request.pair.drafter, {"note": "", "drafts_trees": False, "context": behaviour.context}
        self.send(
            p.Loaded(
                id=request.id,
                pair=request.pair,
                target="Fake",
                drafter=drafter,
                speculation="on",
                vocabulary="abc",
                thinking=behaviour.thinking,
                machines=shared if request.pair.hosts else None,
                **state,
            )
        )

    def reply(self, request: p.Reply) -> Iterator[bool]:
        """Writes a reply; yields after each round."""
        behaviour, first = self.behaviour, len(request.continuation_ids)
        if request.target and request.target != self.target:
            self.send(p.Failed(id=request.id, kind=p.OTHER_MODEL, message="another model is loaded: try again"))
            return
        if behaviour.works:
            for _ in range(behaviour.works):
                self.hold("work", request.id)
                self.send(p.Working(id=request.id))
        self.send(p.PrefillProgress(id=request.id, progress=PromptProgress(0, 30 + first, 0, 0.0)))
        self.send(p.PrefillProgress(id=request.id, progress=PromptProgress(30 + first, 30 + first, 0, 0.01)))
        for index in range(behaviour.rounds):
            if behaviour.hold_after and index >= behaviour.hold_after:
                yield from self.steps_on(request.id)
            if self.over(request.id):
                self.end(request, "cancelled", index)
                return
            self.maybe_fail(request.id, index)
            if behaviour.fail_after and self.rounds_sent >= behaviour.fail_after:
                self.send(p.Failed(id=request.id, kind="BackendError", message="the device is gone: plug it in"))
                return
            skipped = 1 if behaviour.skip_after and self.rounds_sent >= behaviour.skip_after else 0
            made = round_of(index + skipped, first + index * ROUND_TOKENS, ROUND_S * index)
            if behaviour.thought:
                channels = tuple("thought" if token < behaviour.thought else "answer" for token in made.tokens)
                made = replace(made, channels=channels)  # type: ignore[arg-type]
            self.send(p.RoundDone(id=request.id, round=made, drafted_texts=(*made.texts[:2], "x")))
            self.rounds_sent += 1
            threading.Event().wait(behaviour.pause_s)
            yield True
        self.end(request, behaviour.reason, behaviour.rounds)

    def verify(self, request: p.Verify) -> None:
        behaviour, total = self.behaviour, sum(len(said.tokens) for said in request.rounds)
        if behaviour.refuse_verify:
            self.send(p.Failed(id=request.id, kind="OtherPromptError", message=behaviour.refuse_verify))
            return
        self.send(p.PrefillProgress(id=request.id, progress=PromptProgress(0, 30, 0, 0.0)))
        for done in range(0, total + 1, ROUND_TOKENS):
            self.die_after_rounds()
            self.hold("verify", request.id)
            if self.over(request.id):
                self.send(p.Failed(id=request.id, kind="Cancelled", message="stopped"))
                return
            self.send(p.VerifyProgress(id=request.id, done=done, total=total))
        found = Difference(4, 99, 4, 1.0, 2.0, near_tie=True, plain_text=behaviour.differ, other_text=word(4))
        receipt = Receipt(total, (found,) if behaviour.differ else ())
        self.send(p.VerifyDone(id=request.id, receipt=receipt, reference="llama: logits within 3e-06 of something"))

    def die_after_rounds(self) -> None:
        if self.behaviour.kill_after and self.rounds_sent >= self.behaviour.kill_after:
            os.kill(os.getpid(), signal.SIGKILL)

    def maybe_fail(self, request: int, index: int) -> None:
        behaviour = self.behaviour
        self.die_after_rounds()
        if behaviour.lose_after and self.rounds_sent >= behaviour.lose_after:
            print("[ring] Socket", end=" ", file=sys.stderr, flush=True)  # a thread of MLX writes in between
            notify(LOST)
            print("11 was closed by the peer", file=sys.stderr, flush=True)
            os._exit(FAILURE)
        if behaviour.hang_after and self.rounds_sent >= behaviour.hang_after:
            self.hang()
        if behaviour.fall_back_after and self.rounds_sent == behaviour.fall_back_after:
            self.send(p.FellBack(id=request, reason="the drafter broke"))
        if index == behaviour.rounds // 2 and behaviour.bad_line:
            self.write(behaviour.bad_line.encode() + b"\n")
        if index == behaviour.rounds // 2 and behaviour.overlong_bytes:
            self.write(b"x" * behaviour.overlong_bytes + b"\n")
        while behaviour.flood:
            self.write(b"x" * 100_000)

    def end(self, request: p.Reply, reason: Any, rounds: int) -> None:
        finished = Finished(reason, rounds * ROUND_TOKENS, 1.0, self.behaviour.tail)
        used = request.sampling.with_defaults({"temperature": self.behaviour.temperature})
        self.send(p.ReplyDone(id=request.id, finished=finished, seed=used.seed or 0, sampling=used))

    def send(self, answer: p.AnyAnswer) -> None:
        self.write(p.encode_line(answer))

    def write(self, data: bytes) -> None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def go_line(steps: int = FOREVER) -> bytes:
    """Returns the line that lets a host go on for so many steps, beyond where it would wait."""
    return GO + b"%d\n" % steps


def command(**behaviour: Any) -> list[str]:
    """Returns the command that starts a fake host."""
    return [sys.executable, "-m", __name__, msgspec.json.encode(behaviour).decode()]


def main(words: Sequence[str]) -> None:
    FakeHost(msgspec.json.decode(words[0], type=Behaviour)).run()


if __name__ == "__main__":
    main(sys.argv[1:])
