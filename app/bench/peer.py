"""mlx-lm's own `stream_generate`, plain and with a draft model: the peer, on the same loaded network.

It gets its own tokenizer and detokenizer, its own caches and its own random numbers, as its users do. What it tells
is put into the engine's events, so that the same definitions measure it. Two things it doesn't tell: which tokens were
refused (-1 in `drafted`), and the width of a pass, which follows from its draft length.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
from mlx_lm import stream_generate
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors, make_sampler
from mlx_lm.utils import load_tokenizer

from app.bench.contestants import Contestant, Notice
from app.measure import Reply
from engine.events import Event, Finished, PromptProgress, Round
from engine.settings import Settings
from models.load import Loaded

PLAIN = "mlx-lm"
DRAFTING = "mlx-lm+draft"
DRAFT_LENGTH = 2  # of stream_generate, unless told
UNKNOWN = -1


@dataclass(frozen=True)
class MlxLm:
    """mlx-lm on `network`, drafting `drafted` tokens with `draft` if given. context: of prompt and reply together."""

    name: str
    network: Any
    tokenizer: Any
    context: int
    draft: Any = None
    drafted: int = 0
    drafter: None = None
    exact: bool = False
    peer: bool = True

    @property
    def proposer(self) -> str:
        return self.name

    @property
    def draft_length(self) -> int | None:
        return self.drafted or None

    def reply(self, prompt: Sequence[int], settings: Settings) -> Reply:
        return Reply.of(prompt, self._events(prompt, settings))

    def rule(self, settings: Settings) -> str | None:
        if self.draft is None:
            return None
        return "greedy" if settings.sampling.greedy else "sample-and-match"

    def _events(self, prompt: Sequence[int], settings: Settings) -> Iterator[Event]:
        most = min(settings.max_tokens, self.context - len(prompt))
        mx.random.seed(settings.sampling.seed)
        began_s = time.monotonic()
        yield PromptProgress(0, len(prompt), 0, 0.0)
        rounds = Rounds(self.drafted, most)
        last: Any = None
        for last in stream_generate(
            self.network, self.tokenizer, list(prompt), most, **self._arguments(prompt, settings)
        ):
            rounds.add(last.token, last.text, last.from_draft, time.monotonic() - began_s)
        rounds.close(time.monotonic() - began_s)
        yield from rounds.told
        yield Finished(
            "eos" if last.finish_reason == "stop" else "length", last.generation_tokens, time.monotonic() - began_s
        )

    def _arguments(self, prompt: Sequence[int], settings: Settings) -> dict[str, Any]:
        s = settings.sampling
        arguments = {"sampler": make_sampler(s.temperature, top_p=s.top_p, min_p=s.min_p, top_k=s.top_k)}
        if s.repetition_penalty != 1:
            whole = len(prompt) + settings.max_tokens
            arguments["logits_processors"] = make_logits_processors(
                repetition_penalty=s.repetition_penalty, repetition_context_size=whole
            )
        if self.draft is not None:
            arguments |= {"draft_model": self.draft, "num_draft_tokens": self.drafted}
        return arguments


class Rounds:
    """Puts tokens back into the rounds that they came from: a token that wasn't drafted ends one.

    draft_length: what mlx-lm asks of its draft model, less at the end of `most` tokens.
    """

    def __init__(self, draft_length: int, most: int) -> None:
        self._draft_length, self._most = draft_length, most
        self._tokens: list[int] = []
        self._texts: list[str] = []
        self._before = 0
        self.told: list[Round] = []

    def add(self, token: int, text: str, drafted: bool, time_s: float) -> None:
        self._tokens.append(token)
        self._texts.append(text)
        if not drafted:
            self._tell(len(self._tokens) - 1, time_s)

    def close(self, time_s: float) -> None:
        """The reply ended: on drafted tokens, perhaps."""
        if self._tokens:
            self._tell(len(self._tokens), time_s)

    def _tell(self, accepted: int, time_s: float) -> None:
        asked = min(self._draft_length, self._most - self._before)
        drafted = (*self._tokens[:accepted], *[UNKNOWN] * (asked - accepted))
        round_ = Round(
            index=len(self.told),
            tokens=tuple(self._tokens),
            drafted=drafted,
            accepted=accepted,
            p=(),
            q=(),
            width=asked + 1,
            time_s=time_s,
            texts=tuple(self._texts),
        )
        self.told.append(round_)
        self._before += len(self._tokens)
        self._tokens, self._texts = [], []


def enter_peer(
    target: Loaded, models: Sequence[tuple[str, Any]], draft_length: int | None, context: int, notice: Notice
) -> list[Contestant]:
    """mlx-lm alone, and with each of the draft `models` (name, network) that it can take."""
    offline = {"trust_remote_code": False, "local_files_only": True}
    tokenizer = load_tokenizer(target.folder.path, offline, eos_token_ids=sorted(target.tokenizer.eos))
    peers: list[Contestant] = [MlxLm(PLAIN, target.network, tokenizer, context)]
    length = DRAFT_LENGTH if draft_length is None else draft_length
    for name, network in models if length else ():
        if not all(can_trim_prompt_cache(make_prompt_cache(model)) for model in (target.network, network)):
            notice(f"mlx-lm cannot draft with {name}: a cache of the pair cannot be trimmed")
            continue
        called = DRAFTING if len(models) == 1 else f"{DRAFTING} ({name})"
        peers.append(MlxLm(called, target.network, tokenizer, context, network, length))
    return peers
