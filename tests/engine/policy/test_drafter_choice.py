"""Drafters that stop where they are not sure, and several of which each round takes one: exact all the same."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine.drafters import Draft, DraftContext, Drafter, empty_draft
from engine.drafters.draft_model import DraftModel
from engine.drafters.drafter_group import DrafterGroup
from engine.drafters.eagle3 import Eagle3
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Round
from engine.policy import Plan, Policy
from engine.policy.adaptive import Adaptive, Candidate
from engine.policy.expected_length import AcceptanceCounts, ChainExpectedLength
from engine.policy.fixed import FixedLength
from engine.policy.step_times import PriorPrices, StepTimes
from engine.proposer import Proposer
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.verify_pass import RoundQueue
from tests.engine.drafters.eagles import eagle, network_of
from tests.engine.policy.machine_times import MachineTimes
from tests.engine.policy.simulation import known
from tests.engine.replies import PROMPT, draft_context, draft_model, plain_reply, reply
from tests.engine.test_sampler import START, chi_square
from tests.toys.tables import TableModel, random_tables, text_distribution

SIZE = 4
LONG = 512
REPLIES = 3000
# A further row costs half a pass, a drafted token next to nothing: unsure tokens are not worth verifying.
DEAR_ROWS = MachineTimes(((1, 1.0), (9, 5.0)), ((0, 0.0), (1, 0.01), (8, 0.08)))
FREE_ROWS = MachineTimes(((1, 1.0), (9, 1.1)), ((0, 0.0), (1, 0.01), (8, 0.08)))


class AsIfLong:
    """A policy that drafts in a short reply as at the beginning of a long one."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def begin(self, tokens: int) -> None:
        self._policy.begin(LONG)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


def alone(times: MachineTimes) -> Any:
    return AsIfLong(known(head=times))


def either(times: MachineTimes) -> Any:
    return AsIfLong(known(lookup=times, head=times))


class Memory:
    """What replies teach each other: whoever drafted next would see it."""

    def __init__(self) -> None:
        self.times = StepTimes(
            [PriorPrices(name, {n: 1 + 0.3 * n for n in range(1, 9)}) for name in ("lookup", "head")]
        )
        self.counts = [AcceptanceCounts(), AcceptanceCounts()]

    def policy(self) -> Any:
        pairs = zip(("lookup", "head"), self.counts, strict=True)
        candidates = [Candidate(name, ChainExpectedLength(8, own), own) for name, own in pairs]
        return AsIfLong(Adaptive(candidates, self.times))


@pytest.mark.slow
@pytest.mark.parametrize("remembering", [False, True])
def test_rejection_keeps_the_distribution_where_a_policy_chooses_lengths(remembering: bool) -> None:
    """3,000 seeds, three tokens: chi-square of the 64 texts against enumerated probabilities, refused beyond 6 standard
    deviations. remembering: by the clock, and by what all replies before, with other seeds, have taught."""
    target_table, draft_table = random_tables(SIZE, closeness=0.6, seed=5)
    target, memory = CachedModel(TableModel(target_table)), Memory()
    drafter = DrafterGroup([PromptLookup(shortest=2), draft_model(TableModel(draft_table), SIZE)])
    counts: dict[tuple[int, ...], int] = {}
    kept = offered = rounds_seen = 0
    for seed in range(REPLIES):
        ids, rounds, _ = reply(
            target, drafter, sampling=SamplingSettings(temperature=1, seed=seed), rule="rejection", tokens=3,
            prompt=[0, 1, 3, 2, 2, 1, 0, *START], draft=memory.policy() if remembering else either(DEAR_ROWS),
        )  # fmt: skip
        counts[tuple(ids)] = counts.get(tuple(ids), 0) + 1
        kept += sum(r.accepted for r in rounds)
        offered += sum(bool(r.drafted) for r in rounds)
        rounds_seen += len(rounds)
    statistic, freedom = chi_square(counts, text_distribution(target_table, START, 3), REPLIES)
    assert statistic < freedom + 6 * (2 * freedom) ** 0.5
    assert remembering or (kept > REPLIES / 10 and offered > 0.1 * rounds_seen)


@pytest.mark.parametrize(
    ("make", "costs", "heat"), [(either, FREE_ROWS, 0.9), (either, DEAR_ROWS, 0.0), (alone, FREE_ROWS, 0.0)]
)
def test_the_text_is_plains_whoever_drafts(
    make: Callable[[MachineTimes], Any], costs: MachineTimes, heat: float
) -> None:
    network, sampling = network_of("llama"), SamplingSettings(temperature=heat, seed=3)
    plain = plain_reply(network, sampling)
    target = CachedModel(network)
    head = Eagle3(eagle("llama").head, target)
    drafter: Drafter = DrafterGroup([PromptLookup(), head]) if make is either else head
    text, rounds, _ = reply(target, drafter, sampling=sampling, draft=make(costs))
    assert text == plain
    assert costs is DEAR_ROWS or any(r.drafted for r in rounds)


def lookup_and_head(tokens: list[int]) -> tuple[CachedModel, DrafterGroup]:
    """A target, and lookup and a head that have seen `tokens`."""
    target = CachedModel(network_of("llama"))
    both = DrafterGroup([PromptLookup(), Eagle3(eagle("llama").head, target)])
    target.record(both.needs.taps)
    target.forward(mx.array(tokens[:-1]))
    both.sync(tokens)
    return target, both


def test_without_a_wish_the_first_that_has_something_drafts() -> None:
    copying = [7, 8, 9, 10, 7, 8]
    assert lookup_and_head(copying)[1].propose(draft_context(copying), 3).tokens.tolist() == [9, 10, 7]
    fresh = [7, 8, 9, 10, 11, 12]
    assert lookup_and_head(fresh)[1].propose(draft_context(fresh), 3).tokens.size == 3


def test_a_drafter_that_the_policy_names_drafts_alone() -> None:
    class First(FixedLength):
        def plan(self, hints: Sequence[float | None] = ()) -> Plan:
            heard.append(tuple(hints))
            return Plan(3, "the first", drafter=0)

    heard: list[tuple[float | None, ...]] = []
    for tokens, hint, found in (([7, 8, 9, 10, 11, 12], 0.0, 0), ([7, 8, 9, 10, 7, 8], 2 / 32, 3)):
        assert Proposer(lookup_and_head(tokens)[1], First(3)).propose(draft_context(tokens), 9).tokens.size == found
        assert heard[-1] == (hint, None)


def test_only_one_can_read_the_target() -> None:
    with pytest.raises(ValueError, match="only one"):
        DrafterGroup([eagle("llama"), eagle("llama")])


class RecordedDrafter:
    """Writes down what another drafter proposes. silent: it proposes nothing every third time."""

    def __init__(self, drafter: Drafter, silent: bool = False) -> None:
        self._drafter, self._silent = drafter, silent
        self.proposed: list[list[int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._drafter, name)

    def propose(self, context: DraftContext, length: int) -> Draft:
        draft = self._drafter.propose(context, length)
        if self._silent and len(self.proposed) % 3 == 2:
            draft = empty_draft()
        self.proposed.append(draft.tokens.tolist())  # type: ignore[arg-type]
        return draft


def recorded_group(silent: bool = False) -> tuple[CachedModel, RecordedDrafter, RecordedDrafter, DrafterGroup]:
    target = CachedModel(network_of("llama"))
    lookup, head = RecordedDrafter(PromptLookup()), RecordedDrafter(Eagle3(eagle("llama").head, target), silent)
    return target, lookup, head, DrafterGroup([lookup, head])


def test_each_draft_is_that_of_the_drafter_that_its_reason_names() -> None:
    target, lookup, head, drafter = recorded_group()
    _, rounds, _ = reply(target, drafter, draft=either(FREE_ROWS), prompt=[*PROMPT, *PROMPT])
    for who, member in (("lookup", lookup), ("head", head)):
        mine = [list(r.drafted) for r in rounds if r.drafted and r.reason.startswith(f"{who}:")]
        assert mine == [draft for draft in member.proposed if draft]
    assert {r.reason.split(":")[0] for r in rounds if r.drafted} == {"lookup", "head"}


def test_fixed_lengths_never_run_plain_steps_ahead_of_a_head() -> None:
    """The head may draft in every round, also where lookup has been quiet for long and the head was silent once."""
    target, _, head, drafter = recorded_group(silent=True)
    _, rounds, _ = reply(target, drafter, draft=FixedLength(2), prompt=list(range(1, 20)), tokens=40)
    silent = sum(not draft for draft in head.proposed)
    assert silent > 3
    assert sum(not r.drafted for r in rounds[:-1]) <= silent


@pytest.mark.parametrize("with_head", [False, True])
def test_plain_stretches_run_ahead_where_lookup_finds_nothing(with_head: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the loop and the adaptive policy, which does not ask for what is known not to be there."""
    target, _, _, both = recorded_group()
    ahead, real = list[int](), RoundQueue.submit_ahead
    monkeypatch.setattr(RoundQueue, "submit_ahead", lambda queue: (ahead.append(1), real(queue))[1])
    dear = MachineTimes(((1, 1.0), (9, 30.0)), ((0, 0.0), (8, 0.0)))  # no head would pay, copies might
    policy = known(lookup=FREE_ROWS, head=dear) if with_head else known(lookup=FREE_ROWS)
    drafter: Drafter = both if with_head else PromptLookup()
    reply(target, drafter, draft=policy, prompt=list(range(1, 20)), tokens=60)
    assert len(ahead) >= 15


class CutShort(DraftModel):
    """A draft model that ends its drafts before the first token that it is not sure of, whatever it drew."""

    def propose(self, context: DraftContext, length: int) -> Draft:
        draft = super().propose(context, length)
        assert draft.logq is not None
        sure = [bool(row) for row in (mx.max(draft.logq, -1) > math.log(0.5)).tolist()]
        length = [*sure, False].index(False)
        return Draft(draft.tokens[:length], draft.logq[:length]) if length else empty_draft()


class OnceMore(FixedLength):
    """Drafts, and again only after a draft that was cut short: policies that remember lengths do so a little."""

    _long = False

    def plan(self, hints: Sequence[float | None] = ()) -> Plan:
        return Plan(0, "the last draft was long") if self._long else Plan(3, "once more")

    def observe(self, round_: Round) -> None:
        self._long = len(round_.drafted) > 2

    def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
        return False


@pytest.mark.slow
def test_a_draft_that_was_cut_short_tells_nothing_of_what_is_drawn_next() -> None:
    """How long such a draft is depends on tokens drawn after a refused one, and policies remember lengths: were their
    noise used again, whether the next round drafts would hang on what it would draw. 500 seeds, 5 standard
    deviations; with noise by absolute position the second token is 3 twice as often as it should be."""
    target_table, draft_table = leaking_tables()
    target = CachedModel(TableModel(target_table))
    head = CutShort(CachedModel(TableModel(draft_table)), SIZE)
    threes, lengths = 0, set()
    for seed in range(500):
        ids, rounds, _ = reply(
            target, head, sampling=SamplingSettings(temperature=1, seed=seed), rule="rejection", tokens=8, prompt=[2,
            3], draft=OnceMore(3),
        )  # fmt: skip
        threes += ids[1] == 3
        lengths.add(len(rounds[0].drafted))
    assert len(lengths) > 1
    assert abs(threes - 50) < 5 * (500 * 0.1 * 0.9) ** 0.5


def leaking_tables() -> tuple[np.ndarray, np.ndarray]:
    """p, q: the first drafted token is always refused; the second is drawn alike whatever stood before, and after it
    the drafter is sure only if it is 2."""
    p, q = (np.full((SIZE, SIZE, SIZE), np.log(0.25)) for _ in range(2))
    rows = [
        (q, 2, 3, {0: 1.0}), (p, 2, 3, {1: 1.0}), (q, 0, 2, {0: 1.0}),
        *((table, 3, before, {2: 0.9, 3: 0.1}) for table in (p, q) for before in (0, 1)),
    ]  # fmt: skip
    for table, a, b, distribution in rows:
        table[a, b] = -30.0
        for token, chance in distribution.items():
            table[a, b, token] = np.log(chance)
    return p, q
