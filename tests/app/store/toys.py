"""Rounds, replies and conversations to put into a store."""

import itertools
import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from app.protocol import Pair, RoundDone, SamplingSettings
from app.store import Store
from app.store.records import ChatSettings, Ending, MessageRecord, Statistics
from engine.events import Round
from engine.metrics import Metrics

SETTINGS = ChatSettings(
    pair=Pair(drafter="lookup"), sampling=SamplingSettings(temperature=0.7, stop=("END",)), system="Be brief."
)


def round_done(index: int, texts: Sequence[str], drafted: int = 0, accepted: int = 0) -> RoundDone:
    """A round that says `texts`, of which the first `accepted` were drafted."""
    return RoundDone(
        id=7,
        round=Round(
            index=index,
            tokens=tuple(range(10, 10 + len(texts))),
            drafted=tuple(range(10, 10 + drafted)),
            accepted=accepted,
            p=(0.5,) * len(texts),
            q=(0.25,) * drafted,
            width=drafted + 1,
            time_s=0.5 + index / 10,
            reason="fixed at 4",
            texts=tuple(texts),
        ),
        drafted_texts=tuple(f"d{i}" for i in range(drafted)),
    )


REPLY = [round_done(0, ["The"]), round_done(1, [" sky", " is", " blue"], 3, 2), round_done(2, [" today", "."], 1, 1)]
TEXT = "The sky is blue today."


def statistics_of(rounds: Sequence[RoundDone]) -> Statistics:
    return Statistics.of(Metrics.of(one.round for one in rounds))


def say(store: Store, conversation: int, parent: int, rounds: Sequence[RoundDone] = REPLY) -> MessageRecord:
    """A whole reply to the question `parent`."""
    reply = store.begin_reply(conversation, parent, SETTINGS.pair, SETTINGS.sampling)
    store.append(reply.id, list(rounds))
    return store.end_reply(reply.id, Ending("complete", statistics_of(rounds)))


def converse(store: Store, turns: int, text: str = "Why is the sky blue?") -> int:
    """A conversation of so many questions and replies; its id."""
    conversation = store.create(SETTINGS).id
    parent: int | None = None
    for turn in range(turns):
        question = store.add_question(conversation, parent, f"{text} ({turn})")
        parent = say(store, conversation, question.id).id
    return conversation


def everything(store: Store) -> list[Any]:
    """All that can be seen of a store, for comparing."""
    seen: list[Any] = [store.presets()]
    for conversation in store.conversations():
        path = store.path(conversation.id)
        seen.append((conversation, path, [store.rounds(record.id) for record in path]))
    return seen


def ask(path: Path, sql: str) -> list[Any]:
    """Of the file itself, beside any store."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = lambda data: data.decode(errors="replace")
        return connection.execute(sql).fetchall()


def crash(store: Store, place: Path, to: Path) -> Path:
    """What a kill would leave at this moment, in another folder."""
    to.mkdir(exist_ok=True)
    for path in place.parent.glob(f"{place.name}*"):
        if not path.name.endswith((".lock", "-shm")):
            shutil.copyfile(path, to / path.name)
    assert (to / f"{place.name}-wal").stat().st_size
    return to / place.name


WORDS = [
    "".join(random.Random(n).choices("etaoinshrdlucmfwypvbgkq", k=random.Random(n).randint(2, 9))) for n in range(4000)
]
_WEIGHTS = list(itertools.accumulate(1 / (n + 3) for n in range(len(WORDS))))
_STORY = random.Random(1).choices(WORDS, cum_weights=_WEIGHTS, k=100_000)


def prose(seed: int, words: int) -> str:
    """Words as often as in a language: a few often, most seldom."""
    at = random.Random(seed).randrange(len(_STORY) - words)
    return " ".join(_STORY[at : at + words])
