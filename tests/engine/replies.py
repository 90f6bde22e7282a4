"""Run the loop from a prompt, with every part given: what the tests of loop, cache and drafters share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import numpy as np

from engine.drafters import Draft, DraftContext, Drafter, Traits
from engine.drafters.draft_model import DraftModel
from engine.drafters.prompt_lookup import HISTORY_SHORTEST
from engine.drafters.suffix_index import END, SuffixIndex
from engine.events import Finished, Round
from engine.loop import Limits, decode
from engine.policy import Policy
from engine.policy.fixed import FixedLength
from engine.sampling import Sampler, TokenCounts
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel

CONTEXT = 10_000  # tokens
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6]


def reply(
    model: Any,
    drafter: Drafter | None = None,
    draft: int | Policy = 0,
    sampling: SamplingSettings | None = None,
    rule: AcceptanceRule = "coupled",
    tokens: int | Limits = 40,
    prompt: list[int] | None = None,
) -> tuple[list[int], list[Round], Finished]:
    """The reply's ids, its rounds and its end.

    model: an mlx-lm network or a CachedModel. draft: a fixed length, or a policy. tokens: the most of them, or all
    limits.
    """
    target = model if isinstance(model, CachedModel) else CachedModel(model)
    prompt = list(prompt or PROMPT)
    sequence = list(prompt)
    target.rewind(0)
    attach(drafter, target)
    if drafter is not None:
        drafter.rewind(0)
    for _ in target.prefill(sequence[:-1]):
        pass
    if drafter is not None:
        drafter.sync(sequence)
    sampler = Sampler(replace(sampling or SamplingSettings(), acceptance=rule), target.vocabulary)
    limits = Limits(tokens, CONTEXT) if isinstance(tokens, int) else tokens
    policy = FixedLength(draft) if isinstance(draft, int) else draft
    events = list(decode(target, drafter, policy, sampler, sequence, limits, 0.0))
    rounds = [e for e in events if isinstance(e, Round)]
    assert isinstance(events[-1], Finished)
    return sequence[len(prompt) :], rounds, events[-1]


def ids_of(rounds: Sequence[Round]) -> list[int]:
    return [token for round_ in rounds for token in round_.tokens]


_PLAIN: dict[tuple[object, ...], tuple[Any, list[int]]] = {}


def plain_reply(
    network: Any,
    sampling: SamplingSettings | None = None,
    tokens: int = 40,
    rule: AcceptanceRule = "coupled",
    prompt: list[int] | None = None,
) -> list[int]:
    """The ids that the target alone writes, decoded once for each question."""
    key = id(network), repr(sampling), tokens, rule, tuple(prompt or ())
    if key not in _PLAIN:  # the network is kept, so that no other has its id
        _PLAIN[key] = network, reply(network, sampling=sampling, rule=rule, tokens=tokens, prompt=prompt)[0]
    return list(_PLAIN[key][1])


def earlier_replies(vocabulary: int, tokens: int = 400) -> SuffixIndex:
    """Other texts of these tokens, for prompt lookup."""
    index = SuffixIndex(HISTORY_SHORTEST)
    for reply_number in range(4):
        numbers = np.random.default_rng(reply_number).integers(0, vocabulary, tokens // 4)
        index.extend([*numbers.tolist(), END])
    return index


def attach(drafter: Drafter | None, target: CachedModel) -> None:
    """Have a drafter that was made on another copy of the target read this one, which records what it needs."""
    for member in getattr(drafter, "members", (drafter,)):
        if hasattr(member, "target"):
            member.target.model = target
    target.record(*((drafter.needs.taps, drafter.needs.latest_only) if drafter is not None else ()))


def draft_context(
    tokens: Sequence[int],
    sampling: SamplingSettings | None = None,
    rule: AcceptanceRule | None = None,
    vocabulary: int = 64,
) -> DraftContext:
    """What a drafter is given after `tokens`. rule: instead of the one in `sampling`."""
    sampling = sampling or SamplingSettings()
    sampler = Sampler(sampling if rule is None else replace(sampling, acceptance=rule), vocabulary)
    return DraftContext(tokens, TokenCounts(sampler.distribution, tokens), sampler)


def draft_model(network: Any, vocabulary: int) -> DraftModel:
    return DraftModel(CachedModel(network), vocabulary)


class Scripted(Drafter):
    """A drafter that proposes what it is told to: the reply `truth`, wrong at the given places."""

    name = "scripted"
    traits = Traits(one_pass=True)

    def __init__(
        self, prompt: int, truth: list[int], wrong: frozenset[int] = frozenset(), vocabulary: int = 64
    ) -> None:
        self._prompt, self._truth, self._wrong, self._vocabulary = prompt, truth, wrong, vocabulary

    def propose(self, context: Any, length: int) -> Any:
        at = len(context.tokens) - self._prompt
        places = range(at, min(at + length, len(self._truth)))
        ids = [(self._truth[i] + (i in self._wrong)) % self._vocabulary for i in places]
        return Draft(mx.array(ids, mx.int32) if ids else mx.zeros(0, mx.int32))
