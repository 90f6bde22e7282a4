"""The loop: plain is an empty draft, a round is one synchronisation, and one may leave at any yield."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine.drafters.prompt_lookup import PromptLookup
from engine.errors import ModelError
from engine.events import Finished
from engine.loop import Limits, decode
from engine.policy import Plan
from engine.policy.fixed import FixedLength
from engine.proposer import Proposer
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.policy.simulation import round_of
from tests.engine.replies import CONTEXT, PROMPT, Scripted, draft_model, plain_reply, reply
from tests.engine.rounding_by_rows import round_by_rows
from tests.toys.architectures import build


@pytest.fixture(scope="module")
def network() -> nn.Module:
    return build("llama")


@pytest.fixture(scope="module")
def truth(network: nn.Module) -> list[int]:
    return reply(network, tokens=60)[0]


def test_no_two_tokens_are_nearly_tied(network: nn.Module, truth: list[int]) -> None:
    """So the texts below are the same on every backend, by whatever rows its float32 products round."""
    best = mx.sort(network(mx.array([[*PROMPT, *truth]]))[0, len(PROMPT) - 1 : -1], -1)[:, -2:]
    assert mx.min(best[:, 1] - best[:, 0]).item() > 1000 * np.spacing(np.float32(mx.max(best).item()))


@pytest.mark.parametrize("length", [1, 4, 8])
def test_products_that_round_by_rows_leave_the_text(
    network: nn.Module, truth: list[int], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    round_by_rows(monkeypatch)
    assert reply(network, Scripted(len(PROMPT), truth, frozenset((5, 11, 17, 23))), length, tokens=40)[0] == truth[:40]


def test_plain_decoding_is_the_argmax_chain(network: nn.Module, truth: list[int]) -> None:
    """Against the model itself with a fresh cache for every token."""
    tokens = list(PROMPT)
    for token in truth[:25]:
        assert int(mx.argmax(network(mx.array([tokens]))[0, -1])) == token
        tokens.append(token)


@pytest.mark.parametrize("length", [0, 1, 3, 8])
@pytest.mark.parametrize("wrong", [(), (0,), (1, 2, 3), (5, 11, 17, 23), tuple(range(0, 60, 2))])
def test_any_pattern_of_mistakes_gives_the_same_text(
    network: nn.Module, truth: list[int], length: int, wrong: tuple[int, ...]
) -> None:
    drafter = Scripted(len(PROMPT), truth, frozenset(wrong))
    ids, rounds, _ = reply(network, drafter, length, tokens=40)
    assert ids == truth[:40]
    for r in rounds:
        assert r.tokens[: r.accepted] == r.drafted[: r.accepted]
        assert len(r.tokens) == r.accepted + 1
        assert r.width == len(r.drafted) + 1


def test_a_perfect_drafter_earns_length_plus_one_a_round(network: nn.Module, truth: list[int]) -> None:
    _, rounds, _ = reply(network, Scripted(len(PROMPT), truth), 4, tokens=40)
    assert [len(r.tokens) for r in rounds] == [5] * 8
    assert {o for r in rounds for o in r.origins} == {"accepted", "bonus"}


def test_a_useless_drafter_costs_rounds_not_text(network: nn.Module, truth: list[int]) -> None:
    ids, rounds, _ = reply(network, Scripted(len(PROMPT), truth, frozenset(range(60))), 4, tokens=40)
    assert ids == truth[:40]
    assert {o for r in rounds for o in r.origins} == {"corrected", "bonus"}
    assert rounds[-1].drafted == ()  # room for one token only: nothing is drafted past the end
    assert [r.origins for r in rounds[:-1]] == [("corrected",)] * 39


@pytest.mark.parametrize("length", [0, 3])
@pytest.mark.parametrize("leave_at", [0, 1, 2, 6])
def test_walking_away_at_any_yield_leaves_both_caches_right(network: nn.Module, length: int, leave_at: int) -> None:
    """Close the generator there, then go on from the committed tokens: the text is as if never left."""
    whole = plain_reply(network, tokens=40)
    target = CachedModel(network)
    drafter = draft_model(network, 64) if length else None
    sequence = list(PROMPT)

    def some(limit: int) -> Any:
        sampler = Sampler(SamplingSettings(), 64)
        return decode(target, drafter, FixedLength(length), sampler, sequence, Limits(limit, 1000), 0.0)

    events = some(40)
    for _ in itertools.islice(events, leave_at):
        pass
    events.close()
    assert target.length <= len(sequence)
    assert drafter is None or drafter.model.length <= len(sequence)
    target.rewind(len(sequence) - 1)
    list(some(40 - (len(sequence) - len(PROMPT))))
    assert sequence[len(PROMPT) :] == whole


def test_eos_inside_a_draft_ends_the_reply_there(network: nn.Module, truth: list[int]) -> None:
    at = next(i for i in range(6, 30) if truth[i] not in truth[:i])
    eos = frozenset([truth[at]])
    for length in range(9):
        ids, rounds, end = reply(network, Scripted(len(PROMPT), truth), length, tokens=Limits(40, CONTEXT, eos))
        assert ids == truth[: at + 1]
        assert end.reason == "eos"
        assert end.tokens == at + 1 == sum(len(r.tokens) for r in rounds)
        assert all(len(r.p) == len(r.tokens) for r in rounds)


@pytest.mark.parametrize(("limit", "length"), [(1, 0), (1, 4), (2, 1), (3, 8), (7, 4), (7, 0)])
def test_max_tokens_is_met_exactly(network: nn.Module, truth: list[int], limit: int, length: int) -> None:
    ids, _, end = reply(network, Scripted(len(PROMPT), truth), length, tokens=limit)
    assert ids == truth[:limit]
    assert end.reason == "length"


def test_the_context_is_never_passed(network: nn.Module, truth: list[int]) -> None:
    target, sequence = CachedModel(network), list(PROMPT)
    sampler = Sampler(SamplingSettings(), 64)
    limits = Limits(100, len(PROMPT) + 7)
    drafter = Scripted(len(PROMPT), truth)
    *_, end = decode(target, drafter, FixedLength(5), sampler, sequence, limits, 0.0)
    assert isinstance(end, Finished)
    assert (end.reason, len(sequence)) == ("context", len(PROMPT) + 7)
    assert target.length < len(PROMPT) + 7


def test_a_drafter_whose_chances_are_no_numbers_is_damaged(network: nn.Module, truth: list[int]) -> None:
    """Also without a gate, which asks at each token."""

    class Damaged(Scripted):
        def propose(self, standing: Any, length: int) -> Any:
            return replace(super().propose(standing, length), q=mx.full((length,), math.nan))

    with pytest.raises(ModelError, match="not numbers: its files are damaged"):
        reply(network, Damaged(len(PROMPT), truth), 2)


@pytest.mark.parametrize(
    ("queues", "expected"),
    [
        (True, ["launch", "launch", "land", "told", "launch", "land", "launch", "land", "land"]),
        (False, ["launch", "land", "told", "launch", "launch", "land", "launch", "land", "land"]),
    ],
)
def test_a_plain_step_is_launched_before_the_one_before_has_landed(
    queues: bool, expected: list[str], network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a launch waits for the device, the first token is told before another step is launched."""
    from engine.verify_pass import PendingRound

    order: list[str] = []
    launch, land = mx.async_eval, PendingRound.wait
    monkeypatch.setattr(mx, "async_eval", lambda *a: (order.append("launch"), launch(*a))[1])
    monkeypatch.setattr(PendingRound, "wait", lambda self, *a: (order.append("land"), land(self, *a))[1])
    monkeypatch.setattr("engine.backend.queues", lambda: queues)
    target, tokens = CachedModel(network), list(PROMPT)
    target.feed(tokens[:-1])
    order.clear()
    told = decode(target, None, FixedLength(0), Sampler(SamplingSettings(), 64), tokens, Limits(4, 10_000), 0.0)
    next(told)
    order.append("told")
    list(told)
    assert order == expected


@pytest.mark.parametrize("queues", [True, False])
def test_a_step_that_was_submitted_ahead_is_not_planned_again(
    queues: bool, network: nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned = []

    class Counted(FixedLength):
        def plan(self, hints: Sequence[float | None] = ()) -> Plan:
            planned.append(1)
            return super().plan(hints)

    monkeypatch.setattr("engine.backend.queues", lambda: queues)
    reply(network, draft=Counted(0), tokens=10)
    assert len(planned) == 2 - queues  # where the first token is waited for, the second step is planned too


def test_no_step_is_launched_ahead_where_the_policy_may_draft(network: nn.Module, truth: list[int]) -> None:
    class EveryOther(FixedLength):
        """Plain every other round."""

        turn = 0

        def plan(self, hints: object = ()) -> Plan:
            self.turn += 1
            return Plan(3 * (self.turn % 2), "every other round")

        def next_is_plain(self, hints: Sequence[float | None] = ()) -> bool:
            return False

    ids, rounds, _ = reply(network, Scripted(len(PROMPT), truth), draft=EveryOther(3))
    assert ids == truth[:40]
    assert [len(r.drafted) for r in rounds[:4]] == [3, 0, 3, 0]


def test_penalties_see_the_whole_context_in_both_ways(network: nn.Module) -> None:
    """A repetition penalty over prompt and reply: the same text for every draft length, and no token twice."""
    sampling = SamplingSettings(repetition_penalty=100)
    plain = plain_reply(network, sampling=sampling, tokens=30)
    assert len(set(plain)) == 30
    assert not set(plain) & set(PROMPT)
    for length in (1, 3, 8):
        assert reply(network, draft_model(network, 64), length, sampling, tokens=30)[0] == plain
        assert reply(network, PromptLookup(shortest=1), length, sampling, tokens=30)[0] == plain


# --- who learns from a round ---


class Recorder(FixedLength):
    """Notes what it is told of each round."""

    def __init__(self) -> None:
        super().__init__(4)
        self.told: list[str] = []

    def observe(self, round_: object) -> None:
        self.told.append("planned")

    def skip(self, round_: object) -> None:
        self.told.append("forced")


def test_a_round_without_room_is_not_taken_for_the_forced_one_before_it() -> None:
    policy = Recorder()
    grammar = SimpleNamespace(forced=lambda: [5, 6])
    context: Any = SimpleNamespace(sampler=SimpleNamespace(grammar=grammar))
    proposer = Proposer(None, policy)
    for room in (4, 0):
        proposer.propose(context, room)
        proposer.observe(round_of(0, 0))
    assert policy.told == ["forced", "planned"]
