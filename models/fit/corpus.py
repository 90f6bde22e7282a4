"""The conversations that a drafter learns from: the target's own, written shard by shard.

A shard is a function of (target, plan, its number). Half of the replies are greedy, a quarter each is drawn at
temperature 0.7 and 1, because those are the laws that a drafter is asked to guess.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from engine.errors import FitError
from models.fit.plan import Plan
from models.fit.prompts import SELF_SHARE, closing, fitting, opening, question
from models.fit.work import write_whole
from models.fit.writing import Request, batches_soundly, seed_of, write
from models.load import Loaded

TEMPERATURES = (0.0, 0.7, 0.0, 1.0)  # in turn
LEAST_REPLY = 2
_LONGEST_QUESTION, _SHORTEST_QUESTION = 80, 4
_QUESTION_MIN_P = 0.03


@dataclass(frozen=True)
class Conversation:
    """tokens: all, the reply from `prompt` on, its end-of-sequence token included. temperature: of the reply."""

    tokens: tuple[int, ...]
    prompt: int
    temperature: float

    @property
    def reply(self) -> int:
        """Tokens of the reply."""
        return len(self.tokens) - self.prompt


class Author:
    """Writes shards of conversations with `target` as `plan` says. prompts: the user's, or none.

    afoot: tokens of replies that are written but belong to no conversation that has been told yet.
    """

    def __init__(self, target: Loaded, plan: Plan, prompts: Sequence[str] = ()) -> None:
        self._network, self._tokenizer, self.plan = target.network, target.tokenizer, plan
        self.afoot = 0
        self._rows = plan.rows if batches_soundly(target.network) else 0
        self._prompts = fitting(prompts, target.tokenizer, plan.prompt_tokens) if prompts else []
        self._opening, self._closing = opening(target.tokenizer), closing(target.tokenizer)

    def write_shard(self, number: int) -> Iterator[Conversation | None]:
        """Conversations `number * plan.shard` and on, as `write` tells them."""
        first = number * self.plan.shard
        return self.write(range(first, min(first + self.plan.shard, self.plan.conversations)))

    def write(self, numbers: Sequence[int]) -> Iterator[Conversation | None]:
        """The conversations with these numbers, in this order; None at every token that does not finish the next."""
        texts = {number: self._given(number) for number in numbers}
        yield from self._ask(texts)
        requests = [self._reply(number, ids) for number, ids in zip(numbers, self._render(texts), strict=True)]
        waiting: dict[int, list[int]] = {}
        told = self.afoot = 0
        for text in write(self._network, requests, self._rows):
            self.afoot += 1
            if text.finished:
                waiting[text.number] = text.tokens
            while told in waiting:
                said = waiting.pop(told)
                self.afoot -= len(said)
                request, told = requests[told], told + 1
                yield Conversation((*request.tokens, *said), len(request.tokens), request.temperature)
            yield None

    def _ask(self, texts: dict[int, str]) -> Iterator[None]:
        """Put questions of the target's own in place of some of `texts`."""
        own = [number for number in texts if self._writes_its_own(number)]
        requests = [self._question(number) for number in own]
        for place, said, finished in write(self._network, requests, self._rows) if own else ():
            if finished and said[-1] in requests[place].ends and (text := self._tokenizer.decode(said[:-1]).strip()):
                texts[own[place]] = text
            yield None

    def _render(self, texts: Mapping[int, str]) -> list[list[int]]:
        """Ids of the prompts, those that are too long being replaced or, at last, cut."""
        numbers = list(texts)
        asked = [self._tokenizer.chat([{"role": "user", "content": texts[number]}]) for number in numbers]
        short = (self._tokenizer.chat([{"role": "user", "content": self._given(number)}]) for number in numbers)
        fits = [ids if len(ids) <= self.plan.prompt_tokens else other for ids, other in zip(asked, short, strict=True)]
        return [ids[-self.plan.prompt_tokens :] for ids in fits]

    def _given(self, number: int) -> str:
        """A prompt that is not the target's own."""
        if self._prompts:
            return self._prompts[number % len(self._prompts)]
        return question(random.Random(f"{self.plan.seed}/question/{number}"))

    def _writes_its_own(self, number: int) -> bool:
        if self._prompts or not self._opening or self._closing is None:
            return False
        return random.Random(f"{self.plan.seed}/own/{number}").random() < SELF_SHARE

    def _question(self, number: int) -> Request:
        ends = self._tokenizer.eos | ({self._closing} if self._closing is not None else set())
        limit = min(_LONGEST_QUESTION, max(_SHORTEST_QUESTION, self.plan.prompt_tokens - len(self._opening)))
        seed = seed_of(self.plan.seed, "ask", number)
        return Request(tuple(self._opening), limit, 1.0, seed, frozenset(ends), _QUESTION_MIN_P)

    def _reply(self, number: int, prompt: Sequence[int]) -> Request:
        temperature = TEMPERATURES[number % len(TEMPERATURES)]
        if self._prompts:  # else the same prompt would always meet the same temperature
            temperature = TEMPERATURES[(number + number // len(self._prompts)) % len(TEMPERATURES)]
        seed = seed_of(self.plan.seed, "reply", number)
        return Request(tuple(prompt), self.plan.reply_tokens, temperature, seed, self._tokenizer.eos)


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
        "tokens": np.concatenate([np.array(c.tokens, np.uint32) for c in conversations]),
        "length": np.array([len(c.tokens) for c in conversations], np.int32),
        "prompt": np.array([c.prompt for c in conversations], np.int32),
        "temperature": np.array([c.temperature for c in conversations], np.float32),
    }
    write_whole(path, lambda draft: np.savez(draft, **columns))


def load_shard(path: Path) -> list[Conversation]:
    """Raises FitError for a file that is damaged."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
            tokens, length = columns["tokens"], columns["length"]
            prompt, temperature = columns["prompt"].tolist(), columns["temperature"].tolist()
    except (OSError, ValueError, KeyError, EOFError, BadZipFile, zlib.error) as error:
        raise FitError(f"{path} is damaged ({error}): remove it and go on with --resume") from error
    ends = np.cumsum(length).tolist()
    pieces = [tuple(tokens[end - n : end].tolist()) for end, n in zip(ends, length.tolist(), strict=True)]
    return [Conversation(t, p, round(w, 3)) for t, p, w in zip(pieces, prompt, temperature, strict=True)]


@dataclass(frozen=True)
class Corpus:
    """All conversations of a fit. held_out: places of those kept for judging; training: of the others, save those
    with too short a reply to learn from.

    Which are held out goes by prompt, so that no prompt is on both sides.
    """

    conversations: tuple[Conversation, ...]
    held_out: tuple[int, ...]
    training: tuple[int, ...]


def load_corpus(folder: Path, plan: Plan) -> Corpus:
    """Every shard of a finished corpus. Raises FitError: damaged, or nothing in it to learn from."""
    return divide([c for path in shard_files(folder) for c in load_shard(path)], plan)


def divide(conversations: Sequence[Conversation], plan: Plan) -> Corpus:
    """Hold whole prompts back, in an order that the seed gives, until `plan.held_out` conversations are."""
    by_prompt: dict[tuple[int, ...], list[int]] = {}
    good = [place for place, conversation in enumerate(conversations) if conversation.reply >= LEAST_REPLY]
    for place in good:
        conversation = conversations[place]
        by_prompt.setdefault(conversation.tokens[: conversation.prompt], []).append(place)
    groups = sorted(by_prompt.items(), key=lambda item: seed_of(plan.seed, "hold", *item[0]))
    held: list[int] = []
    for _, places in groups:
        if len(held) >= plan.held_out or len(held) + len(places) >= len(good):
            break
        held += places
    training = sorted(set(good) - set(held))
    if not held or not training:
        raise FitError(
            "the target's replies leave nothing to train on and judge by: give more minutes, or more different prompts"
        )
    return Corpus(tuple(conversations), tuple(sorted(held)), tuple(training))
