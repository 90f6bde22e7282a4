"""Made-up rounds that look like a reply's: chains of EAGLE-3, bursts of prompt lookup, trees of 16, plain decoding."""

import itertools
import random
from collections.abc import Iterator

from app.protocol import RoundDone
from engine.events import Refusal, Round

TEXT = (
    "the sky looks blue because air scatters short waves of sunlight more than long ones , so light from every side "
    "of it reaches us blue while what comes straight keeps its red and yellow . At dusk the way through air grows"
)
WORDS = TEXT.split()
TREE = (-1, -1, -1, 0, 0, 1, 3, 3, 4, 6, 6, 9, 9, 11, 2, 13)

# By rejection: " looks" kept, " blue" refused and " red" emitted in its place.
CORRECTED = RoundDone(
    id=1,
    round=Round(
        index=1000,
        tokens=(5, 6),
        drafted=(5, 7, 8),
        accepted=1,
        p=(0.6, 0.5),
        q=(0.8, 0.38, 0.9),
        width=4,
        time_s=60.0,
        reason="expects 1.62x plain speed",
        texts=(" looks", " red"),
        rule="rejection",
        draws=(0.5, 0.62),
        refusal=Refusal(0.12, emitted_q=0.1, residual=0.8),
    ),
    drafted_texts=(" looks", " blue", " sky"),
)


class Maker:
    """Draws rounds with the same seed the same way. rate: how often a drafted token is kept. timed: with draft and
    verify apart."""

    def __init__(self, rate: float = 0.5, seed: int = 0, timed: bool = True, id: int = 1) -> None:
        self.rate, self.timed, self.id = rate, timed, id
        self._random = random.Random(seed)
        self._words = itertools.cycle(WORDS)
        self._index, self._time_s = 0, 0.21

    def chain(self, length: int, reason: str = "", rate: float | None = None) -> RoundDone:
        """A draft of `length`, each token kept with chance `rate`."""
        chance = self.rate if rate is None else rate
        accepted = next((i for i in range(length) if self._random.random() > chance), length)
        words = self._next_words(accepted + 1)
        texts = (*words[:accepted], *self._next_words(length - accepted, away=True))
        return self._told(words, texts, accepted, reason or "expects 1.62x plain speed", None, ())

    def tree(self, reason: str = "16 nodes expect 1.84x plain speed") -> RoundDone:
        """A draft of TREE; at each place a child is kept with chance `rate`."""
        path: list[int] = []
        while True:
            children = [node for node, parent in enumerate(TREE) if parent == (path[-1] if path else -1)]
            if not children or self._random.random() > self.rate + 0.15:
                break
            path.append(self._random.choice(children[:2]))
        words = self._next_words(len(path) + 1)
        texts = list(self._next_words(len(TREE), away=True))
        for place, node in enumerate(path):
            texts[node] = words[place]
        return self._told(words, tuple(texts), len(path), reason, TREE, tuple(path))

    def plain(self, reason: str = "plain decoding") -> RoundDone:
        return self._told(self._next_words(1), (), 0, reason, None, ())

    def _told(
        self,
        words: tuple[str, ...],
        texts: tuple[str, ...],
        accepted: int,
        reason: str,
        parents: tuple[int, ...] | None,
        path: tuple[int, ...],
    ) -> RoundDone:
        draft_s, verify_s = len(texts) * 0.0012, 0.021 + 0.0016 * len(texts) + self._random.random() * 0.004
        self._time_s += verify_s + (draft_s if texts else 0) + 0.0006
        timed = self.timed and bool(texts)
        round_ = Round(
            index=self._index,
            tokens=tuple(map(_id_of, words)),
            texts=tuple(words),
            drafted=tuple(map(_id_of, texts)),
            accepted=accepted,
            p=tuple(round(self._random.uniform(0.3, 0.99), 4) for _ in words),
            q=tuple(round(self._random.betavariate(2, 2), 4) for _ in texts),
            width=len(texts) + 1,
            time_s=self._time_s,
            reason=reason,
            parents=parents,
            path=path,
            draft_s=draft_s if timed else None,
            verify_s=verify_s if timed else None,
        )
        self._index += 1
        return RoundDone(id=self.id, round=round_, drafted_texts=texts)

    def _next_words(self, count: int, away: bool = False) -> tuple[str, ...]:
        if away:
            return tuple(" " + self._random.choice(WORDS) for _ in range(count))
        return tuple(" " + word for word in itertools.islice(self._words, count))


def _id_of(word: str) -> int:
    return 1000 + WORDS.index(word.strip())


def mixed(rounds: int, seed: int = 0, timed: bool = True) -> list[RoundDone]:
    """Mostly chains of 5 at a rate of a half, with bursts of lookup, trees and plain rounds between them."""
    return list(itertools.islice(_mixed(Maker(seed=seed, timed=timed)), rounds))


def _mixed(maker: Maker) -> Iterator[RoundDone]:
    for block in itertools.count():
        for i in range(12):
            if block % 5 == 2 and i < 4:
                yield maker.chain(8, "fixed at 8", rate=0.93)
            elif block % 5 == 3 and i < 6:
                yield maker.tree()
            elif block % 5 == 4 and i < 3:
                yield maker.plain("drafting is not worthwhile here")
            else:
                yield maker.chain(5)


def chains(rounds: int, length: int = 5, rate: float = 0.5) -> list[RoundDone]:
    maker = Maker(rate)
    return [maker.chain(length) for _ in range(rounds)]


def trees(rounds: int) -> list[RoundDone]:
    maker = Maker()
    return [maker.tree() for _ in range(rounds)]


def plains(rounds: int) -> list[RoundDone]:
    maker = Maker()
    return [maker.plain() for _ in range(rounds)]
