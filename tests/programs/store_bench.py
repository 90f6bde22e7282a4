"""How long the store takes, on this machine: `python -m tests.programs.store_bench`.

One conversation of 500 messages whose replies have 200,000 tokens with all their rounds, and others of 100 messages
without, to make 10,000. Times are milliseconds: the median, the 99th percentile and the worst of several.
"""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from app.protocol import RoundDone
from app.store import Store
from app.store.records import ChatSettings, Ending
from engine.events import Round
from tests.app.store.toys import WORDS, prose
from tests.programs.frame_meter import share_ms

MESSAGES, LONG, TOKENS = 10_000, 500, 200_000
QUERIES = (WORDS[3], WORDS[900], f"{WORDS[40]} {WORDS[41]}", "zzyzx", "qz", f'"{WORDS[2]} {WORDS[3]}"', WORDS[700][:4])


def rounds_of(seed: int, tokens: int) -> list[RoundDone]:
    """Rounds of four tokens, drafted and accepted as chance will have it, that say so many tokens."""
    dice = random.Random(seed)
    rounds: list[RoundDone] = []
    while tokens > 0:
        accepted = min(dice.randint(0, 4), tokens - 1)
        count = accepted + 1
        words = dice.choices(WORDS, k=count)
        drafted = tuple(dice.randrange(49152) for _ in range(4))
        round_ = Round(
            index=len(rounds),
            tokens=(*drafted[:accepted], dice.randrange(49152)),
            drafted=drafted,
            accepted=accepted,
            p=tuple(dice.random() for _ in words),
            q=tuple(dice.random() for _ in drafted),
            width=5,
            time_s=len(rounds) / 25,
            reason="learnt: 4 pays",
            texts=tuple(f" {word}" for word in words),
        )
        rounds.append(RoundDone(id=1, round=round_, drafted_texts=tuple(f" {w}" for w in dice.choices(WORDS, k=4))))
        tokens -= count
    return rounds


@cache
def some_rounds(kind: int, tokens: int) -> list[dict[str, Any]]:
    """As they are written in a document; a few kinds, because they take long to make."""
    return [msgspec.to_builtins(one) for one in rounds_of(kind, tokens)]


def document(messages: int, tokens: int, seed: int) -> str:
    """A conversation to import. tokens: of all replies, with rounds; 0 for short replies without."""
    written: list[dict[str, Any]] = []
    for number in range(messages):
        reply = number % 2 == 1
        rounds = some_rounds(number % 20, 2 * tokens // messages) if reply and tokens else []
        text = "".join(t for one in rounds for t in one["round"]["texts"]) or prose(seed + number, 120)
        parent = number - 1 if number else None
        written.append({"role": "assistant" if reply else "user", "text": text, "parent": parent, "rounds": rounds})
    head = {"format": "redline conversation", "version": 1, "title": f"Conversation {seed}"}
    return msgspec.json.encode({**head, "messages": written}).decode()


def fill(store: Store) -> int:
    """Adds the messages that are measured; returns the long conversation."""
    for number in range((MESSAGES - LONG) // 100):
        store.import_json(document(100, 0, 1000 * number))
    return store.import_json(document(LONG, TOKENS, 7)).id


def times(do: Callable[[], object], again: int) -> list[float]:
    """Seconds of each of so many."""
    measured: list[float] = []
    for _ in range(again):
        began_s = time.perf_counter()
        do()
        measured.append(time.perf_counter() - began_s)
    return measured


def measure(store: Store, place: Path, long: int) -> Iterator[tuple[str, list[float]]]:
    """Name and seconds of everything that the window waits for."""
    yield "open the file of 10,000 messages", times(lambda: Store.open(place).store.close(), 5)
    yield "path of 500 messages, 200,000 tokens", times(lambda: store.path(long), 10)
    replies = [record.id for record in store.path(long) if record.role == "assistant"]
    yield "rounds of one reply of 800 tokens", times(lambda: store.rounds(replies[10]), 10)
    yield "list of conversations", times(store.conversations, 10)
    for query in QUERIES:
        yield f"search {query!r}", times(lambda q=query: store.search(q), 10)
    yield from measure_stream(store, long)


def measure_stream(store: Store, long: int) -> Iterator[tuple[str, list[float]]]:
    """Replies at 2,000 and at 30 tokens a second, written once a frame, in which the window waits for it."""
    question = store.add_question(long, store.path(long)[-1].id, "?")
    yield "a question", times(lambda: store.add_question(long, question.parent, prose(5, 120)), 10)
    reply = store.begin_reply(long, question.id, ChatSettings().pair, ChatSettings().sampling).id
    rounds = rounds_of(3, 20_000)
    size = len(rounds) // 600
    frames = iter([rounds[at : at + size] for at in range(0, len(rounds), size)])
    yield "append of a frame, 33 tokens", times(lambda: store.append(reply, next(frames)), 600)
    yield "end of a reply of 20,000 tokens", times(lambda: store.end_reply(reply, Ending("complete")), 1)
    slow = store.begin_reply(long, question.id, ChatSettings().pair, ChatSettings().sampling).id
    each = iter(rounds)
    yield "append of a frame, one round", times(lambda: store.append(slow, [next(each)]), 600)
    store.end_reply(slow, Ending("complete"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "conversations.sqlite"
        store = Store.open(place).store
        long = fill(store)
        store.close()
        size_bytes = place.stat().st_size
        store = Store.open(place).store
        print(f"{size_bytes / 2**20:.0f} MiB on disk")
        for name, measured in measure(store, place, long):
            shares = "".join(f" {share_ms(measured, share):8.2f}" for share in (0.5, 0.99, 1.0))
            print(f"{name:40}{shares}")
        store.close()


if __name__ == "__main__":
    main()
