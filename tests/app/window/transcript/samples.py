"""Conversations made up for tests and measurements: Markdown as models write it, in rounds as the engine tells them."""

import random
import re
from collections.abc import Iterator
from functools import lru_cache

from app.protocol import RoundDone, SamplingSettings
from app.store.records import Attachment, MessageRecord, Statistics
from engine.events import Round
from engine.metrics import Metrics
from engine.reply_channels import Channel

PARAGRAPH = (
    "Speculative decoding lets a **small** model draft a few tokens and a large one check them in a single pass, so "
    "that most passes yield *several* tokens instead of one. What it writes is exactly what the large model would have "
    "written alone; see [the paper](https://arxiv.org/abs/2211.17192) and `acceptance.py` for why."
)
LIST = (
    "What happens in a round:\n\n1. The drafter proposes `k` tokens.\n2. The target verifies them at once.\n"
    "3. The accepted prefix is **kept**, and one token of the target's own follows.\n\n- cheap when accepted\n"
    "- never wrong when refused"
)
CODE = (
    "```python\ndef accept(p: list[float], q: list[float], u: float) -> bool:\n"
    '    """Keep a drafted token with probability min(1, p/q)."""\n'
    "    for i, (a, b) in enumerate(zip(p, q)):\n        if u * b > a:\n            return False\n    return True\n```"
)
TABLE = "| drafter | acceptance | tau |\n| --- | ---: | ---: |\n| lookup | 41% | 2.1 |\n| eagle3 | 68% | 3.4 |"
HEADING = "## How it pays"
QUOTE = "> A draft costs little, a pass costs much.\n> So guess often."
REPLY = "\n\n".join([PARAGRAPH, HEADING, LIST, CODE, PARAGRAPH, TABLE, QUOTE, PARAGRAPH])
THOUGHT = "\nThe user asks about decoding.\n\nI should be short, and show code.\n"

_TOKEN = re.compile(r"\s?[A-Za-z]{1,6}|\s?\d|\n+|\s+|[^\w\s]")


def tokens_of(text: str) -> list[str]:
    """Cut about as a tokenizer would."""
    return _TOKEN.findall(text) if "".join(_TOKEN.findall(text)) == text else list(text)


def channels_of(thought: str, text: str) -> tuple[list[str], list[Channel]]:
    """Returns the texts of the tokens of a reply and what each belongs to: one that opens the thought, if there is any,
    the thought, one that closes it, and the answer."""
    thoughts, answers = tokens_of(thought), tokens_of(text)
    if not thoughts:
        return answers, ["answer"] * len(answers)
    channels: list[Channel] = ["markup", *["thought"] * len(thoughts), "markup", *["answer"] * len(answers)]
    return ["", *thoughts, "", *answers], channels


def rounds(
    text: str, seed: int = 0, drafted: int = 4, per_s: float = 60.0, request: int = 1, thought: str = ""
) -> Iterator[RoundDone]:
    """`text` after `thought`, as it would be told by a drafter that is right three times in four. per_s: tokens a
    second."""
    tokens, channels = channels_of(thought, text)
    chance, at, time_s, index = random.Random(seed), 0, 0.3, 0
    while at < len(tokens):
        accepted = 0
        while accepted < drafted and chance.random() < 0.75:
            accepted += 1
        said = tokens[at : at + accepted + 1]
        accepted = min(accepted, len(said))
        guesses = [*said[:accepted], *(chance.choice(tokens) for _ in range(drafted - accepted))]
        time_s += len(said) / per_s
        yield RoundDone(
            id=request,
            drafted_texts=tuple(guesses),
            round=Round(
                index=index,
                tokens=tuple(range(at, at + len(said))),
                drafted=tuple(range(len(guesses))),
                accepted=accepted,
                p=tuple(round(chance.uniform(0.3, 1), 3) for _ in said),
                q=tuple(round(chance.uniform(0.1, 1), 3) for _ in guesses),
                width=drafted + 1,
                time_s=time_s,
                reason="fixed at 4",
                texts=tuple(said),
                channels=tuple(channels[at : at + len(said)]),
            ),
        )
        at, index = at + len(said), index + 1


def question(id: int, text: str = "How does speculative decoding work?", parent: int | None = None) -> MessageRecord:
    return MessageRecord(id=id, conversation=1, parent=parent, role="user", text=text)


def reply(
    id: int, text: str = REPLY, parent: int | None = None, told: list[RoundDone] | None = None, thought: str = ""
) -> MessageRecord:
    """A whole one, with statistics where its rounds are known."""
    statistics = Statistics.of(Metrics.of(one.round for one in told)) if told else None
    return MessageRecord(
        id=id,
        conversation=1,
        parent=parent,
        role="assistant",
        text=text,
        thought=thought,
        statistics=statistics,
        sampling=SamplingSettings(),
    )


def live(id: int, parent: int | None = None) -> MessageRecord:
    """One that is about to be written."""
    return MessageRecord(
        id=id, conversation=1, parent=parent, role="assistant", text="", state="streaming", sampling=SamplingSettings()
    )


@lru_cache(maxsize=4)
def conversation(messages: int, tokens: int) -> tuple[list[MessageRecord], dict[int, list[RoundDone]]]:
    """So many messages, questions and replies in turn, with `tokens` between them, nearly all in the replies."""
    chance = random.Random(7)
    parts = [PARAGRAPH, LIST, CODE, TABLE, QUOTE, HEADING]
    path: list[MessageRecord] = []
    told: dict[int, list[RoundDone]] = {}
    for id in range(1, messages + 1):
        if id % 2:
            path.append(question(id, f"Question {id}: how does it work, and what does it cost?", id - 1 or None))
            continue
        text, wanted = f"Reply {id}.", 2 * tokens // messages
        count = 0
        while count < wanted:
            part = chance.choice(parts)
            text += "\n\n" + part
            count += len(tokens_of(part)) + 1
        told[id] = list(rounds(text, seed=id))
        path.append(reply(id, text, id - 1, told[id]))
    return path, told


NOTES = Attachment(name="notes.md", text="# Notes\n\nA line.\n" * 20)
