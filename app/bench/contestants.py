"""The contestants of a benchmark: plain decoding, every drafter, exact-verify, and mlx-lm itself as a peer.

The peer is mlx-lm's own `stream_generate`, plain and with a draft model, on the same loaded network. It has its own
tokenizer, caches and random numbers, as its users do. Its output is turned into the engine's events, so that the same
definitions measure it. It does not report which tokens were refused (-1 in `drafted`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any, Literal

import mlx.core as mx
from mlx_lm import stream_generate
from mlx_lm.models.cache import can_trim_prompt_cache, make_prompt_cache
from mlx_lm.sample_utils import make_logits_processors, make_sampler
from mlx_lm.utils import load_tokenizer

from app.bench.server_contestant import Peer, ServerContestant
from app.inference import pair_loader
from app.inference.loaded_pair import LoadedPair
from app.inference.measured_reply import Reply, begin_reply
from app.inference.options import Options
from engine.drafters import Drafter
from engine.drafters.cross_tokenizer import CrossTokenizerModel
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3, Eagle3Head
from engine.errors import FitError, UsageError
from engine.events import Event, Finished, PromptProgress, Round
from engine.settings import SamplingSettings
from engine.target.layer_taps import LayerTaps
from engine.target.model_layout import layers_of
from models.loader import Loaded
from models.training.eagle3_trainee import geometry
from models.training.target_layer import points

PLAIN, PLAIN_EXACT = "none", "none exact"
MLX_LM, MLX_LM_DRAFTING = "mlx-lm", "mlx-lm+draft"
MLX_LM_DRAFT_LENGTH = 2  # the default of stream_generate
UNKNOWN = -1
RANDOM, RANDOM_VOCABULARY, RANDOM_SEED = "random", 8192, 0
Length = int | Literal["auto"] | None
Notice = Callable[[str], None]


@dataclass(frozen=True)
class RedlineContestant:
    """Redline with one drafter or none.

    proposer: the name without draft length and mode. draft_length: tokens per round or auto; None without a drafter.
    exact: whether it decodes in exact-verify. peer: whether it is another engine, which draws its own noise.
    """

    name: str
    pair: LoadedPair
    proposer: str = PLAIN
    draft_length: Length = None
    exact: bool = False
    peer: bool = False

    @property
    def drafter(self) -> Drafter | None:
        return self.pair.drafter.drafter

    def reply(self, prompt: Sequence[int], settings: SamplingSettings, learns: bool = False) -> Reply:
        """Returns a timed reply that starts with an empty cache. learns: as in `begin_reply`."""
        length = None if self.draft_length == "auto" else self.draft_length or 0
        settings = replace(settings, exact=self.exact, draft_length=length)
        return Reply.of(prompt, begin_reply(self.pair, prompt, settings, learns=learns))

    def rule(self, settings: SamplingSettings) -> str:
        """Returns how drafts are accepted: greedy, rejection or coupled."""
        return "greedy" if settings.greedy else settings.acceptance


def make_contestants(
    options: Options, lengths: Sequence[int | None], pair: LoadedPair, peer: bool, notice: Notice, random: bool = False
) -> list[Contestant]:
    """Returns all contestants, plain decoding first. lengths: of drafts, None for auto; the peer takes the first of
    them. random: add a drafter with random weights. notice: receives what the user should know about each drafter.

    Raises UsageError, ModelError or PairError for a drafter that cannot be loaded.
    """
    contestants: list[Contestant] = [RedlineContestant(PLAIN, pair)]
    if options.sampling.exact:
        contestants.append(RedlineContestant(PLAIN_EXACT, pair, exact=True))
    models: dict[str, Any] = {}
    taken: list[str] = []
    for drafter in _drafters(options, pair.target, notice, random):
        taken.append(drafter.spec if drafter.name in taken else drafter.name)
        contestants += _with_drafter(drafter, taken[-1], options, lengths, pair)
        for part in drafter.parts:
            if isinstance(part.drafter, DraftModel | CrossTokenizerModel):
                models.setdefault(taken[-1], part.drafter.model.model)
    if peer:
        contestants += mlx_lm_contestants(pair.target, models, lengths[0], pair.session.context, notice)
    return contestants


def _drafters(options: Options, target: Loaded, notice: Notice, random: bool) -> list[pair_loader.NamedDrafter]:
    """Returns each requested drafter once, and one with random weights if `random`."""
    found: dict[str, pair_loader.NamedDrafter] = {}
    for spec in dict.fromkeys(options.drafters):
        drafter = pair_loader.open_drafter(spec, target, options.tree, options.cache_root)
        if drafter.note:
            notice(drafter.note)
        if drafter.drafter is not None:
            found.setdefault(drafter.spec, drafter)
    if random:
        found[RANDOM] = random_drafter(target)
    return list(found.values())


def _with_drafter(
    drafter: pair_loader.NamedDrafter, name: str, options: Options, lengths: Sequence[int | None], pair: LoadedPair
) -> list[Contestant]:
    """Returns the contestants with one drafter, one for each draft length and mode."""
    found: list[Contestant] = []
    pair = pair.with_drafter(drafter, options.tree)
    for length in lengths:
        draft_length: Length = "auto" if length is None else length
        label = name if len(lengths) == 1 else f"{name} {draft_length}"
        found.append(RedlineContestant(label, pair, name, draft_length))
        if options.sampling.exact:
            found.append(RedlineContestant(f"{label} exact", pair, name, draft_length, exact=True))
    return found


def leave_out(contestants: Sequence[Contestant], patterns: Sequence[str]) -> list[Contestant]:
    """Removes the contestants whose names match one of the shell-style `patterns`, but never plain decoding.

    Raises UsageError for a pattern without a match.
    """
    names = [contestant.name for contestant in contestants if contestant.name not in (PLAIN, PLAIN_EXACT)]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise UsageError(f"--without {pattern} matches no drafter: choose from {', '.join(names) or 'none'}")
    out = {name for name in names for pattern in patterns if fnmatchcase(name, pattern)}
    return [contestant for contestant in contestants if contestant.name not in out]


@dataclass(frozen=True)
class MlxLmContestant(Peer):
    """mlx-lm on `network`, drafting `drafted` tokens with `draft` if given. context: tokens of prompt and reply."""

    name: str
    network: Any
    tokenizer: Any
    context: int
    draft: Any = None
    drafted: int = 0

    @property
    def draft_length(self) -> int | None:
        return self.drafted or None

    def reply(self, prompt: Sequence[int], settings: SamplingSettings, learns: bool = False) -> Reply:
        return Reply.of(prompt, self._events(prompt, settings))

    def rule(self, settings: SamplingSettings) -> str | None:
        if self.draft is None:
            return None
        return "greedy" if settings.greedy else "sample-and-match"

    def _events(self, prompt: Sequence[int], settings: SamplingSettings) -> Iterator[Event]:
        most = min(settings.max_tokens, self.context - len(prompt))
        mx.random.seed(settings.seed or 0)
        began_s = time.monotonic()
        yield PromptProgress(0, len(prompt), 0, 0.0)
        rounds = RoundBuilder(self.drafted, most)
        last: Any = None
        for last in stream_generate(
            self.network, self.tokenizer, list(prompt), most, **self._arguments(prompt, settings)
        ):
            rounds.add(last.token, last.text, last.from_draft, time.monotonic() - began_s)
        rounds.close(time.monotonic() - began_s)
        yield from rounds.rounds
        yield Finished(
            "eos" if last.finish_reason == "stop" else "length", last.generation_tokens, time.monotonic() - began_s
        )

    def _arguments(self, prompt: Sequence[int], settings: SamplingSettings) -> dict[str, Any]:
        s = settings
        arguments = {"sampler": make_sampler(s.temperature, top_p=s.top_p, min_p=s.min_p, top_k=s.top_k)}
        if s.repetition_penalty != 1:
            whole = len(prompt) + settings.max_tokens
            arguments["logits_processors"] = make_logits_processors(
                repetition_penalty=s.repetition_penalty, repetition_context_size=whole
            )
        if self.draft is not None:
            arguments |= {"draft_model": self.draft, "num_draft_tokens": self.drafted}
        return arguments


Contestant = RedlineContestant | MlxLmContestant | ServerContestant


class RoundBuilder:
    """Groups mlx-lm's tokens into rounds: a token that was not drafted ends one.

    draft_length: tokens that mlx-lm requests from its draft model, fewer near the end of `most` tokens.
    """

    def __init__(self, draft_length: int, most: int) -> None:
        self._draft_length, self._most = draft_length, most
        self._tokens: list[int] = []
        self._texts: list[str] = []
        self._before = 0
        self.rounds: list[Round] = []

    def add(self, token: int, text: str, drafted: bool, time_s: float) -> None:
        self._tokens.append(token)
        self._texts.append(text)
        if not drafted:
            self._add_round(len(self._tokens) - 1, time_s)

    def close(self, time_s: float) -> None:
        """Adds the last round if the reply ended with drafted tokens."""
        if self._tokens:
            self._add_round(len(self._tokens), time_s)

    def _add_round(self, accepted: int, time_s: float) -> None:
        requested = min(self._draft_length, self._most - self._before)
        drafted = (*self._tokens[:accepted], *[UNKNOWN] * (requested - accepted))
        round_ = Round(
            index=len(self.rounds),
            tokens=tuple(self._tokens),
            drafted=drafted,
            accepted=accepted,
            p=(),
            q=(),
            width=requested + 1,
            time_s=time_s,
            texts=tuple(self._texts),
        )
        self.rounds.append(round_)
        self._before += len(self._tokens)
        self._tokens, self._texts = [], []


def mlx_lm_contestants(
    target: Loaded, models: Mapping[str, Any], draft_length: int | None, context: int, notice: Notice
) -> list[Contestant]:
    """Returns mlx-lm alone, and with each of the draft `models` (name, network) that it supports."""
    offline = {"trust_remote_code": False, "local_files_only": True}
    tokenizer = load_tokenizer(target.folder.path, offline, eos_token_ids=sorted(target.tokenizer.eos))
    peers: list[Contestant] = [MlxLmContestant(MLX_LM, target.network, tokenizer, context)]
    length = MLX_LM_DRAFT_LENGTH if draft_length is None else draft_length
    for name, network in models.items() if length else ():
        if not all(can_trim_prompt_cache(make_prompt_cache(model)) for model in (target.network, network)):
            notice(f"mlx-lm cannot draft with {name}: one of the caches cannot be trimmed")
            continue
        label = MLX_LM_DRAFTING if len(models) == 1 else f"{MLX_LM_DRAFTING} ({name})"
        peers.append(MlxLmContestant(label, target.network, tokenizer, context, network, length))
    return peers


def random_drafter(target: Loaded) -> pair_loader.NamedDrafter:
    """Returns an EAGLE-3 head with random weights, of the size that `redline fit` trains: the worst possible drafter.

    The weights are the same each time. Raises UsageError for a target without such a head.
    """
    read = points(len(layers_of(target.network)))
    try:
        config = geometry(
            target, read, LayerTaps(target.network, read).width, min(RANDOM_VOCABULARY, target.model.vocabulary)
        )
    except FitError as error:
        raise UsageError(f"--random does not support {target.name} ({error}): leave it out") from error
    mx.random.seed(RANDOM_SEED)
    head: Any = Eagle3Head(config)
    head.set_draft_vocabulary(mx.arange(config.draft_vocab_size))
    mx.eval(head.parameters())
    return pair_loader.NamedDrafter(RANDOM, Eagle3(head, target.model))
