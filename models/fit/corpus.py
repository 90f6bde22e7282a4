"""The conversations that a drafter learns from: the target's own, written shard by shard.

A shard is a function of (target, plan, its number). Half of the replies are greedy, a quarter each is drawn at
temperature 0.7 and 1, because those are the laws that a drafter is asked to guess. Prompts that are fewer than the
conversations are asked again and again, but greedily once: the same again would be the same text.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engine.errors import FitError, ModelError
from models.disk import read_json_object, replace_json
from models.fit.plan import LEAST_TOKENS, LONGEST_QUESTION, Plan
from models.fit.prompts import SELF_SHARE, closing, fitting, opening, question
from models.fit.work import write_whole
from models.fit.writing import Request, batches_soundly, go_on, seed_of
from models.load import Loaded

TEMPERATURES = (0.0, 0.7, 0.0, 1.0)  # in turn
_WARM = (0.7, 1.0)
LEAST_REPLY = 2
_SHORTEST_QUESTION = 4
_QUESTION_MIN_P = 0.03
_JUDGED_BY, _ONE_IN = 8, 4  # prompts that are judged by at least, where that is no more than one in so many


@dataclass(frozen=True, eq=False)
class Conversation:
    """tokens: all, (n,), the reply from `prompt` on, its end-of-sequence token included. temperature: of the reply."""

    tokens: NDArray[np.int32]
    prompt: int
    temperature: float

    @property
    def reply(self) -> int:
        """Tokens of the reply."""
        return len(self.tokens) - self.prompt


@dataclass
class Unfinished:
    """A shard in the making. asked: the target's own questions so far, in the order of those that they are for.
    prompts: ids of all, once the questions are whole. said: of the replies so far."""

    asked: list[list[int]]
    prompts: list[list[int]]
    said: list[list[int]]


class Author:
    """Writes shards of conversations with `target` as `plan` says. prompts: the user's, or none. curious: whether the
    target writes questions itself where there are none.

    afoot: tokens of replies that are written but belong to no conversation that has been told yet.
    """

    def __init__(self, target: Loaded, plan: Plan, prompts: Sequence[str] = (), curious: bool = True) -> None:
        self._network, self._tokenizer = target.network, target.tokenizer.on(date.fromisoformat(plan.day))
        self.plan = plan
        self.afoot, self._curious = 0, curious
        self._rows = plan.rows if batches_soundly(target.network) else 0
        self._prompts = list(fitting(prompts, self._tokenizer, plan.prompt_tokens)) if prompts else []
        self._opening, self._closing = opening(self._tokenizer), closing(self._tokenizer)

    def write_shard(self, number: int, begun: Unfinished | None = None) -> Iterator[Conversation | Unfinished | None]:
        """Conversations `number * plan.shard` and on, as `write` tells them."""
        first = number * self.plan.shard
        return self.write(range(first, min(first + self.plan.shard, self.plan.conversations)), begun)

    def write(
        self, numbers: Sequence[int], begun: Unfinished | None = None
    ) -> Iterator[Conversation | Unfinished | None]:
        """The conversations with these numbers, in this order; None at every token; and between two stretches what
        should be kept, as going on with that gives the same conversations."""
        begun = begun or Unfinished([[] for _ in self._own(numbers)], [], [])
        if not begun.prompts:
            self.afoot = 0
            yield from self._ask(numbers, begun)
            begun.prompts = self._render(numbers, begun)
            begun.said = [[] for _ in numbers]
            yield begun
        requests = [self._reply(number, ids) for number, ids in zip(numbers, begun.prompts, strict=True)]
        told = 0
        for between in chain((False,), self._go_on(requests, begun.said)):
            while told < len(requests) and requests[told].ended(begun.said[told]):
                request, said = requests[told], begun.said[told]
                tokens = np.array([*request.tokens, *said], np.int32)
                told += 1
                yield Conversation(tokens, len(request.tokens), request.temperature)
            self.afoot = sum(map(len, begun.said[told:]))
            yield begun if between else None

    def _go_on(self, requests: Sequence[Request], said: Sequence[list[int]]) -> Iterator[bool]:
        return go_on(self._network, requests, said, self._rows, self.plan.stretch)

    def _ask(self, numbers: Sequence[int], begun: Unfinished) -> Iterator[Unfinished | None]:
        """Let the target write questions of its own for some of `numbers`."""
        requests = [self._question(number) for number in self._own(numbers)]
        for between in self._go_on(requests, begun.asked):
            yield begun if between else None

    def _render(self, numbers: Sequence[int], begun: Unfinished) -> list[list[int]]:
        """Ids of the prompts, the target's own questions among them where they came to an end; those that are too long
        being replaced or, at last, cut."""
        texts = {number: self._given(number) for number in numbers}
        for number, said in zip(self._own(numbers), begun.asked, strict=True):
            if said[-1] in self._question(number).ends and (text := self._tokenizer.decode(said[:-1]).strip()):
                texts[number] = text
        asked = [self._tokenizer.chat([{"role": "user", "content": text}]) for text in texts.values()]
        short = (self._tokenizer.chat([{"role": "user", "content": self._given(number)}]) for number in numbers)
        fits = [ids if len(ids) <= self.plan.prompt_tokens else other for ids, other in zip(asked, short, strict=True)]
        return [ids[-self.plan.prompt_tokens :] for ids in fits]

    def _given(self, number: int) -> str:
        """A prompt that is not the target's own."""
        if self._prompts:
            return self._prompts[number % len(self._prompts)]
        return question(random.Random(f"{self.plan.seed}/question/{number}"))

    def _own(self, numbers: Sequence[int]) -> list[int]:
        """Those for which the target writes the question itself."""
        return [number for number in numbers if self._writes_its_own(number)]

    def _writes_its_own(self, number: int) -> bool:
        if not self._curious or self._prompts or not self._opening or self._closing is None:
            return False
        return random.Random(f"{self.plan.seed}/own/{number}").random() < SELF_SHARE

    def _question(self, number: int) -> Request:
        ends = self._tokenizer.eos | ({self._closing} if self._closing is not None else set())
        limit = min(LONGEST_QUESTION, max(_SHORTEST_QUESTION, self.plan.prompt_tokens - len(self._opening)))
        seed = seed_of(self.plan.seed, "ask", number)
        return Request(tuple(self._opening), limit, 1.0, seed, frozenset(ends), _QUESTION_MIN_P)

    def _reply(self, number: int, prompt: Sequence[int]) -> Request:
        seed = seed_of(self.plan.seed, "reply", number)
        return Request(tuple(prompt), self.plan.reply_tokens, self._temperature(number), seed, self._tokenizer.eos)

    def _temperature(self, number: int) -> float:
        """In turn. Of the first two times that a given prompt is asked, one is greedy; later ones are not."""
        if not self._prompts:
            return TEMPERATURES[number % len(TEMPERATURES)]
        again, place = divmod(number, len(self._prompts))
        turn = TEMPERATURES if again < 2 else _WARM
        return turn[(place + again) % len(turn)]


def shard_file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npz"


def shard_files(folder: Path) -> list[Path]:
    """Those that are there, in order."""
    found: list[Path] = []
    while (path := shard_file(folder, len(found))).exists():
        found.append(path)
    return found


def save_shard(path: Path, conversations: Sequence[Conversation]) -> None:
    """Raises OSError."""
    columns: dict[str, Any] = {
        "tokens": np.concatenate([c.tokens for c in conversations]),
        "length": np.array([len(c.tokens) for c in conversations], np.int32),
        "prompt": np.array([c.prompt for c in conversations], np.int32),
        "temperature": np.array([c.temperature for c in conversations], np.float32),
    }
    write_whole(path, lambda draft: np.savez(draft, **columns))


def unfinished_file(folder: Path) -> Path:
    return folder / "unfinished.json"


def save_unfinished(folder: Path, number: int, unfinished: Unfinished) -> None:
    """Raises OSError."""
    replace_json(unfinished_file(folder), {"shard": number, **asdict(unfinished)})


def load_unfinished(folder: Path, number: int) -> Unfinished | None:
    """What was written of this shard, if anything was kept. Raises FitError for a file that is damaged."""
    path = unfinished_file(folder)
    if not path.exists():
        return None
    try:
        value: dict[str, Any] = read_json_object(path)
        if value["shard"] != number:
            return None
        return Unfinished(*(_texts(value[name]) for name in ("asked", "prompts", "said")))
    except (ModelError, KeyError, ValueError) as error:
        raise FitError(f"{path} is damaged ({error}): remove it and go on with --resume") from error


def _texts(value: Any) -> list[list[int]]:
    """Raises ValueError for what is no list of lists of tokens."""
    if isinstance(value, list) and all(isinstance(ids, list) and all(type(id) is int for id in ids) for ids in value):
        return value
    raise ValueError("ids of texts are something else")


def load_shard(path: Path) -> list[Conversation]:
    """Raises FitError for a file that is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
            tokens, ends = columns["tokens"], np.cumsum(columns["length"])
            prompt, temperature = columns["prompt"].tolist(), columns["temperature"].tolist()
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, BadZipFile, zlib.error) as error:
        raise FitError(f"{path} is damaged ({error}): remove it and go on with --resume") from error
    pieces = np.split(tokens, ends[:-1])
    return [Conversation(t, p, round(w, 3)) for t, p, w in zip(pieces, prompt, temperature, strict=True)]


@dataclass(frozen=True)
class Corpus:
    """All conversations of a fit. held_out: places of those kept for judging; training: of those to learn from. Some
    are neither: too short, or more than their share of a prompt that is judged by.

    Which are held out goes by prompt, so that no prompt is on both sides.
    """

    conversations: tuple[Conversation, ...]
    held_out: tuple[int, ...]
    training: tuple[int, ...]


def divide(conversations: Sequence[Conversation], plan: Plan) -> Corpus:
    """Hold whole prompts back, in an order that the seed gives, until there are `plan.held_out` conversations to judge
    by. So that those are not all of one prompt, each gives a share of its own at most, and the rest is left out. Where
    no reply among them is greedy, or none was drawn at temperature 1, more are held back: half of the prompts at most.

    Raises FitError: too little to learn from and judge by.
    """
    by_prompt: dict[bytes, list[int]] = {}
    for place, c in enumerate(conversations):
        if c.reply >= LEAST_REPLY and len(c.tokens) >= LEAST_TOKENS:
            by_prompt.setdefault(c.tokens[: c.prompt].tobytes(), []).append(place)
    waiting = sorted(by_prompt, key=lambda prompt: seed_of(plan.seed, "hold", prompt.hex()))
    share = -(-plan.held_out // max(1, min(_JUDGED_BY, len(waiting) // _ONE_IN)))
    held: list[int] = []
    half = len(waiting) // 2
    while len(waiting) > 1:
        if len(held) >= plan.held_out and (len(waiting) <= half or _tells(conversations[place] for place in held)):
            break
        held += by_prompt.pop(waiting.pop())[:share]
    training = sorted(chain.from_iterable(by_prompt.values()))
    if not held or not training:
        raise FitError(
            "the target's replies leave nothing to train on and judge by: give more minutes, or more different prompts"
        )
    return Corpus(tuple(conversations), tuple(sorted(held)), tuple(training))


def _tells(held: Iterable[Conversation]) -> bool:
    """Whether a drafter can be judged by these at temperature 0 and at 1."""
    return {c.temperature for c in held} >= {0.0, 1.0}
