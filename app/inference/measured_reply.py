"""One reply, measured with empty caches, as race and benchmark do. `engine.metrics` compares two of them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair
from app.inference.options import Options
from app.protocol.race_messages import ServerReport
from engine.events import Event, Finished, Round
from engine.metrics import Metrics
from engine.policy.step_times import DrafterTimes
from engine.session import Prompt
from engine.settings import SamplingSettings
from models.loader import Loaded

PROMPTS = (
    "List three fruits, then repeat the list three times.",
    "Why is the sky blue?",
    "Write a short function that sorts a list of numbers, and explain each line.",
)
LEARNING_TOKENS = 96
WARM_UP_TOKENS = 128  # a reply of at most `SHORT_REPLY` hardly teaches draft length auto what a plain step takes
WARM_UP_NOISE = 1 << 62  # a bit of the seed


@dataclass(frozen=True)
class Reply:
    """A whole reply. prompt: its ids. tail: the text that no token completed. report: of a server, what it says."""

    prompt: tuple[int, ...]
    rounds: tuple[Round, ...]
    metrics: Metrics
    tail: str = ""
    report: ServerReport | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """The ids, the end-of-sequence token included."""
        return tuple(token for round_ in self.rounds for token in round_.tokens)

    @property
    def answer(self) -> str:
        """The text without what the model thought."""
        return "".join(round_.text_in("answer") for round_ in self.rounds) + self.tail

    @classmethod
    def of(cls, prompt: Sequence[int], events: Iterable[Event]) -> Reply:
        """Returns the reply that consists of these events."""
        seen = list(events)
        rounds = tuple(event for event in seen if isinstance(event, Round))
        tail = "".join(event.text for event in seen if isinstance(event, Finished))
        return cls(tuple(prompt), rounds, Metrics.of(seen), tail)


def begin_reply(
    pair: LoadedPair,
    prompt: Sequence[int],
    settings: SamplingSettings,
    cancelled: Callable[[], bool] = lambda: False,
    learns: bool = False,
) -> Iterator[Event]:
    """Returns the events of a reply with empty caches, so that every reply pays for its prompt. learns: whether draft
    length auto remembers what the reply teaches; otherwise all replies begin with the same knowledge. Raises whatever
    a drafter raises."""
    policy = pair.policy(settings, len(prompt), frozen=not learns)
    pair.session.forget()
    drafter = pair_loader.wanted(pair.drafter.drafter, policy)
    return pair.session.continue_tokens(Prompt(prompt), settings, drafter, policy, cancelled)


def round_seconds(rounds: Sequence[Round]) -> dict[str, float]:
    """Returns the median seconds of a round by the number of its drafted tokens. The first, which reads the prompt, and
    the last, which the end cuts short, are left out."""
    found: dict[int, list[float]] = {}
    for before, round_ in pairwise(rounds[:-1]):
        found.setdefault(len(round_.drafted), []).append(round_.time_s - before.time_s)
    return {str(length): statistics.median(found[length]) for length in sorted(found)}


def learn_times(options: Options, target: Loaded, folder: Path, trees: bool) -> DrafterTimes:
    """Returns what rounds with the drafter in a folder take, learnt from its replies to `PROMPTS`. trees: whether it
    drafts them, if it can."""
    session, *_ = pair_loader.open_session(target, options)
    drafter = pair_loader.open_drafter(str(folder), target, trees)
    pair = LoadedPair(target, session, drafter, cache_root=options.cache_root)
    settings = SamplingSettings(max_tokens=LEARNING_TOKENS)
    for prompt in PROMPTS:
        ids = pair.prompt_ids([{"role": "user", "content": prompt}], settings)
        Reply.of(ids, begin_reply(pair, ids, settings, learns=True))
    return DrafterTimes(pair.learnt.times_of())


def warm_up(settings: SamplingSettings) -> SamplingSettings:
    """Returns the settings of a reply that warms up kernels, pages and clocks, and teaches draft length auto: its noise
    is its own, so that none that is drawn again decides what is learnt. It may be twice as long as a reply that
    is measured, since each of those would have to find out again what the warm-up did not teach."""
    tokens, seed = min(WARM_UP_TOKENS, 2 * settings.max_tokens), (settings.seed or 0) ^ WARM_UP_NOISE
    return replace(settings, max_tokens=tokens, seed=seed, fresh=True)
