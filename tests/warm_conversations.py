"""Times to the first token of a follow-up in a long conversation, by what happened since its last reply:
`python -m tests.warm_conversations [--tokens 4000] [--repeats 3]`. Of the built-in pair, through the host's worker."""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event

from app import protocol as p
from app.host.model_worker import ModelWorker

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


def reply(worker: ModelWorker, messages: tuple[p.Message, ...]) -> FirstToken:
    began_s, seconds, read, text = time.perf_counter(), 0.0, 0, ""
    for answer in worker.reply(p.Reply(id=1, messages=messages, sampling=SAMPLING), Event()):
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


def measure(worker: ModelWorker, tokens: int, between: Callable[[], object]) -> FirstToken:
    """Returns the follow-up to a long conversation, after `between`."""
    long = long_question(worker, tokens)
    first = reply(worker, (long,))
    between()
    return reply(worker, (long, p.Message(role="assistant", content=first.text), FOLLOW))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.warm_conversations")
    parser.add_argument("--tokens", type=int, default=4000, help="of the conversation")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    worker = ModelWorker()
    list(worker.load(p.Load(id=0, pair=p.Pair(target="builtin", drafter="auto"))))

    def forget() -> None:
        worker._pair.session.forget()
        worker._pair.session.kept.clear()

    cases: dict[str, Callable[[], object]] = {
        "unswitched": lambda: None,
        "after another conversation": lambda: reply(worker, (OTHER,)),
        "cold": forget,
    }
    found: dict[str, list[FirstToken]] = {name: [] for name in cases}
    for _ in range(args.repeats):
        for name, between in cases.items():
            forget()
            found[name].append(measure(worker, args.tokens, between))
    texts = {one.text for ones in found.values() for one in ones}
    for name, ones in found.items():
        seconds = statistics.median(one.seconds for one in ones)
        print(f"{name:28}{seconds:8.3f} s to the first token, {ones[0].read:5d} tokens read")
    print(f"{len(texts)} different texts, {worker._pair.session.kept.nbytes / 1e6:.0f} MB kept")


if __name__ == "__main__":
    main()
