"""The conversations that a drafter learns from: the target's own, written shard by shard.

A shard is a function of (target, plan, its number). Half of the replies are greedy, a quarter each is sampled at
temperature 0.7 and 1, because those are the distributions that a drafter must predict. If there are fewer prompts than
conversations, they repeat, but each is answered greedily only once, because a second greedy reply would be the same.
"""

import random
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from engine.errors import FitError
from models.durable_files import replace_with
from models.loader import Loaded
from models.training.text_generation import TextRequest, batching_is_exact, seed_of, write_texts
from models.training.training_plan import LONGEST_QUESTION, MIN_TOKENS, TrainingPlan
from models.training.training_prompts import (
    SELF_SHARE,
    prompts_that_fit,
    template_question,
    user_turn_end,
    user_turn_prefix,
)

TEMPERATURES = (0.0, 0.7, 0.0, 1.0)  # in turn
_WARM = (0.7, 1.0)
MIN_REPLY = 2
_SHORTEST_QUESTION = 4
_QUESTION_MIN_P = 0.03
_JUDGED_BY, _ONE_IN = 8, 4  # prompts that are judged by at least, where that is no more than one in so many


@dataclass(frozen=True, eq=False)
class Conversation:
    """A prompt and its reply. tokens: (n,), with the end-of-sequence token; the reply starts at index `prompt`.
    temperature: of the reply."""

    tokens: NDArray[np.int32]
    prompt: int
    temperature: float

    @property
    def reply(self) -> int:
        """The number of tokens of the reply."""
        return len(self.tokens) - self.prompt


class ConversationWriter:
    """Writes shards of conversations with `target` by `plan`. prompts: the user's, or none. self_questions: whether the
    target writes questions itself if there are none.

    pending_tokens: tokens of replies whose conversations have not been emitted yet.
    """

    def __init__(
        self, target: Loaded, plan: TrainingPlan, prompts: Sequence[str] = (), self_questions: bool = True
    ) -> None:
        self._network, self._tokenizer = target.network, target.tokenizer.on(date.fromisoformat(plan.day))
        self.plan = plan
        self.pending_tokens, self._self_questions = 0, self_questions
        self._rows = plan.rows if batching_is_exact(target.network) else 0
        self._prompts = list(prompts_that_fit(prompts, self._tokenizer, plan.prompt_tokens)) if prompts else []
        self._opening, self._closing = user_turn_prefix(self._tokenizer), user_turn_end(self._tokenizer)

    def write_shard(self, number: int) -> Iterator[Conversation | None]:
        """Yields conversations `number * plan.shard` and on, as `write` does."""
        first = number * self.plan.shard
        return self.write(range(first, min(first + self.plan.shard, self.plan.conversations)))

    def write(self, numbers: Sequence[int]) -> Iterator[Conversation | None]:
        """Yields the conversations with these numbers in order, and None at every token."""
        self.pending_tokens = 0
        own = [number for number in numbers if self._writes_its_own(number)]
        questions: dict[int, list[int]] = {}
        for text in write_texts(self._network, [self._question(number) for number in own], self._rows):
            questions[own[text.number]] = text.tokens
            yield None
        prompts = self._render(numbers, questions)
        requests = [self._reply(number, ids) for number, ids in zip(numbers, prompts, strict=True)]
        generated: list[list[int]] = [[] for _ in requests]
        emitted = 0
        for text in write_texts(self._network, requests, self._rows):
            generated[text.number] = text.tokens
            while emitted < len(requests) and requests[emitted].ended(generated[emitted]):
                request, tokens = requests[emitted], np.array([*prompts[emitted], *generated[emitted]], np.int32)
                emitted += 1
                yield Conversation(tokens, len(request.tokens), request.temperature)
            self.pending_tokens = sum(map(len, generated[emitted:]))
            yield None

    def _render(self, numbers: Sequence[int], questions: Mapping[int, list[int]]) -> list[list[int]]:
        """Returns the ids of the prompts, with the target's own questions where they are complete. Prompts that are too
        long are replaced or, failing that, cut."""
        texts = {number: self._given(number) for number in numbers}
        for number, generated in questions.items():
            if generated[-1] in self._question(number).ends and (
                text := self._tokenizer.decode(generated[:-1]).strip()
            ):
                texts[number] = text
        prompt_ids = [self._tokenizer.chat([{"role": "user", "content": text}]) for text in texts.values()]
        short = (self._tokenizer.chat([{"role": "user", "content": self._given(number)}]) for number in numbers)
        fits = [
            ids if len(ids) <= self.plan.prompt_tokens else other for ids, other in zip(prompt_ids, short, strict=True)
        ]
        return [ids[-self.plan.prompt_tokens :] for ids in fits]

    def _given(self, number: int) -> str:
        """Returns a prompt from the user or from the templates."""
        if self._prompts:
            return self._prompts[number % len(self._prompts)]
        return template_question(random.Random(f"{self.plan.seed}/question/{number}"))

    def _writes_its_own(self, number: int) -> bool:
        if not self._self_questions or self._prompts or not self._opening or self._closing is None:
            return False
        return random.Random(f"{self.plan.seed}/own/{number}").random() < SELF_SHARE

    def _question(self, number: int) -> TextRequest:
        ends = self._tokenizer.eos | ({self._closing} if self._closing is not None else set())
        limit = min(LONGEST_QUESTION, max(_SHORTEST_QUESTION, self.plan.prompt_tokens - len(self._opening)))
        seed = seed_of(self.plan.seed, "ask", number)
        return TextRequest(tuple(self._opening), limit, 1.0, seed, frozenset(ends), _QUESTION_MIN_P)

    def _reply(self, number: int, prompt: Sequence[int]) -> TextRequest:
        seed = seed_of(self.plan.seed, "reply", number)
        return TextRequest(tuple(prompt), self.plan.reply_tokens, self._temperature(number), seed, self._tokenizer.eos)

    def _temperature(self, number: int) -> float:
        """Returns the temperatures in turn. Only one reply to a user's prompt is greedy."""
        if not self._prompts:
            return TEMPERATURES[number % len(TEMPERATURES)]
        again, place = divmod(number, len(self._prompts))
        turn = TEMPERATURES if again < 2 else _WARM
        return turn[(place + again) % len(turn)]


def shard_file(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npz"


def shard_files(folder: Path) -> list[Path]:
    """Returns the existing shard files in order."""
    found: list[Path] = []
    while (path := shard_file(folder, len(found))).exists():
        found.append(path)
    return found


def save_shard(path: Path, conversations: Sequence[Conversation]) -> None:
    """Stores a shard in one file. Raises OSError."""
    columns: dict[str, Any] = {
        "tokens": np.concatenate([c.tokens for c in conversations]),
        "length": np.array([len(c.tokens) for c in conversations], np.int32),
        "prompt": np.array([c.prompt for c in conversations], np.int32),
        "temperature": np.array([c.temperature for c in conversations], np.float32),
    }
    replace_with(path, lambda draft: np.savez(draft, **columns))


def load_shard(path: Path) -> list[Conversation]:
    """Returns a stored shard. Raises FitError for a damaged file."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as columns:
            tokens, ends = columns["tokens"], np.cumsum(columns["length"])
            prompt, temperature = columns["prompt"].tolist(), columns["temperature"].tolist()
    except (OSError, ValueError, KeyError, EOFError, NotImplementedError, BadZipFile, zlib.error) as error:
        raise FitError(f"{path} is damaged ({error}): remove it and continue with --resume") from error
    pieces = np.split(tokens, ends[:-1])
    return [Conversation(t, p, round(w, 3)) for t, p, w in zip(pieces, prompt, temperature, strict=True)]


@dataclass(frozen=True)
class Corpus:
    """All conversations of a fit. held_out: indices of those for evaluation; training: of those to train on. Some are
    neither, because they are too short or exceed the share of a held-out prompt. No prompt is on both sides.
    """

    conversations: tuple[Conversation, ...]
    held_out: tuple[int, ...]
    training: tuple[int, ...]


def split_corpus(conversations: Sequence[Conversation], plan: TrainingPlan) -> Corpus:
    """Holds out whole prompts, in an order given by the seed, until there are `plan.held_out` conversations. Each
    prompt contributes a limited share, so that they vary, and the rest is left out. More are held out,
    up to half of the prompts, while no reply among them is greedy or none was sampled at temperature 1.

    Raises FitError if there is too little to train on and evaluate with.
    """
    by_prompt: dict[bytes, list[int]] = {}
    for place, c in enumerate(conversations):
        if c.reply >= MIN_REPLY and len(c.tokens) >= MIN_TOKENS:
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
        raise FitError("too few replies to train on and evaluate with: give more minutes, or more different prompts")
    return Corpus(tuple(conversations), tuple(sorted(held)), tuple(training))


def _tells(held: Iterable[Conversation]) -> bool:
    """Whether these conversations allow an evaluation at temperature 0 and at 1."""
    return {c.temperature for c in held} >= {0.0, 1.0}


def choose_draft_vocabulary(conversations: Iterable[Conversation], size: int, rows: int) -> list[int]:
    """Returns the `size` most frequent tokens of the replies, increasing. rows: of the target's vocabulary.

    If there are fewer, the lowest other ids are added: byte-pair merges number frequent pieces first.
    """
    counts = Counter(token for c in conversations for token in c.tokens[c.prompt :].tolist())
    ranked = sorted((token for token in counts if token < rows), key=lambda token: (-counts[token], token))[:size]
    chosen = set(ranked)
    for token in range(rows):
        if len(chosen) >= min(size, rows):
            break
        chosen.add(token)
    return sorted(chosen)


def draft_vocabulary_coverage(conversations: Iterable[Conversation], ids: Sequence[int]) -> float:
    """Returns the share of the tokens of the replies that are among `ids`."""
    known, seen, found = set(ids), 0, 0
    for c in conversations:
        reply = c.tokens[c.prompt :].tolist()
        seen += len(reply)
        found += sum(token in known for token in reply)
    return found / seen if seen else 0.0
