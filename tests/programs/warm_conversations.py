"""Times to the first token of a follow-up in a long conversation, by what happened since its last reply:
`python -m tests.programs.warm_conversations [--tokens 4000] [--repeats 3]`.
Of the built-in pair, through the host's worker."""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from app import protocol as p
from app.host.model_worker import ModelWorker
from app.reply_history import ReplyHistory

WORDS = "The lighthouse keeper wrote down the colour of the sea every morning, and this is what he saw that day. "
OTHER = p.Message(role="user", content="Name three birds that swim, and say where they live.")
FOLLOW = p.Message(role="user", content="What was the colour of the sea?")
SAMPLING = p.SamplingSettings(max_tokens=12, draft_length=3)


@dataclass(frozen=True)
class FirstToken:
    """seconds: until it came. read: tokens of the prompt that were read for it. text: of the reply."""

    seconds: float
    read: int
    text: str


def reply(worker: ModelWorker, messages: tuple[p.Message, ...], cache: str = "") -> FirstToken:
    began_s, seconds, read, text = time.perf_counter(), 0.0, 0, ""
    for answer in worker.reply(p.Reply(id=1, messages=messages, sampling=SAMPLING, cache=cache), Event()):
        if isinstance(answer, p.PrefillProgress):
            read = answer.progress.total - answer.progress.reused
        elif isinstance(answer, p.RoundDone):
            seconds = seconds or time.perf_counter() - began_s
            text += "".join(answer.round.texts)
    return FirstToken(seconds, read, text)


def long_question(worker: ModelWorker, tokens: int) -> p.Message:
    """Returns a question of about so many tokens."""
    per_line = len(worker._pair.target.tokenizer.encode(WORDS))
    lines = "".join(f"Day {day}. {WORDS}" for day in range(tokens // (per_line + 4)))
    return p.Message(role="user", content=f"{lines} What did he write?")


def started() -> ModelWorker:
    worker = ModelWorker()
    list(worker.load(p.Load(id=0, pair=p.Pair(target="builtin", drafter="auto"))))
    return worker


def unswitched(worker: ModelWorker, _: tuple[p.Message, ...], __: str) -> ModelWorker:
    return worker


def switched(worker: ModelWorker, _: tuple[p.Message, ...], __: str) -> ModelWorker:
    reply(worker, (OTHER,))
    return worker


def restarted(worker: ModelWorker, _: tuple[p.Message, ...], __: str) -> ModelWorker:
    """Returns another worker, once the first one was idle and has written what it remembers. It is asked at once, so
    that it reads the file for the reply."""
    worker.prepare(lambda _: False)
    return started()


def reopened(worker: ModelWorker, messages: tuple[p.Message, ...], cache: str) -> ModelWorker:
    """Returns what `restarted` does, once the window has shown the conversation and the host was idle."""
    other = restarted(worker, messages, cache)
    list(other.count(p.Count(id=1, messages=messages, cache=cache), Event()))
    other.prepare(lambda _: False)
    return other


def cold(worker: ModelWorker, _: tuple[p.Message, ...], __: str) -> ModelWorker:
    return forgetful(worker)


def forgetful(worker: ModelWorker) -> ModelWorker:
    worker._pair.session.forget()
    worker._pair.session.kept.clear()
    return worker


Between = Callable[[ModelWorker, tuple[p.Message, ...], str], ModelWorker]
CASES: dict[str, Between] = {
    "unswitched": unswitched,
    "after another conversation": switched,
    "after a restart, at once": restarted,
    "after a restart, idle": reopened,
    "cold": cold,
}


def measure(worker: ModelWorker, tokens: int, between: Between) -> FirstToken:
    """Returns the follow-up to a long conversation, after `between`."""
    with tempfile.TemporaryDirectory() as folder:
        cache = ReplyHistory(Path(folder)).cache_file(1)
        long = long_question(worker, tokens)
        first = reply(worker, (long,), cache)
        shown = (long, p.Message(role="assistant", content=first.text))
        return reply(between(worker, shown, cache), (*shown, FOLLOW), cache)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.warm_conversations")
    parser.add_argument("--tokens", type=int, default=4000, help="of the conversation")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    worker = started()
    found: dict[str, list[FirstToken]] = {name: [] for name in CASES}
    for _ in range(args.repeats):
        for name, between in CASES.items():
            found[name].append(measure(forgetful(worker), args.tokens, between))
    texts = {one.text for ones in found.values() for one in ones}
    for name, ones in found.items():
        seconds = statistics.median(one.seconds for one in ones)
        print(f"{name:28}{seconds:8.3f} s to the first token, {ones[0].read:5d} tokens read")
    print(f"{len(texts)} different text{'s' if len(texts) > 1 else ''}")


if __name__ == "__main__":
    main()
