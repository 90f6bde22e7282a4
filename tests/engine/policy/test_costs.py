"""Costs between and beyond the measured widths, and a measurement that leaves nothing behind."""

import random
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import mlx.core as mx
import pytest

import engine.cost_measurement as measurement
from engine import verify_pass
from engine.cost_measurement import STEPS, measure
from engine.drafters import Draft, DraftContext, Drafter, Traits
from engine.drafters.eagle3 import Eagle3
from engine.drafters.prompt_lookup import PromptLookup
from engine.events import Round
from engine.policy.costs import MIN_PLAIN, READING, Costs
from engine.sampling import Sampler
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.drafters.test_medusa import medusa
from tests.engine.fakes import Counting
from tests.engine.replies import PROMPT, draft_context, draft_model, reply
from tests.toys.architectures import build
from tests.toys.heads import random_eagle3

COSTS = Costs(verify=((1, 1.0), (3, 2.0), (5, 2.4)), draft=((0, 0.0), (1, 0.3), (4, 0.9)))


@pytest.mark.parametrize(("width", "seconds"), [(1, 1.0), (2, 1.5), (3, 2.0), (4, 2.2), (5, 2.4), (6, 2.75), (9, 3.8)])
def test_passes_lie_on_straight_lines_and_go_on_with_the_slope_since_half_as_many(width: int, seconds: float) -> None:
    assert COSTS.pass_s(width) == pytest.approx(seconds)


@pytest.mark.parametrize(("length", "seconds"), [(0, 0.0), (1, 0.3), (2, 0.5), (3, 0.7), (4, 0.9), (6, 1.3)])
def test_drafts_likewise_from_nothing(length: int, seconds: float) -> None:
    assert COSTS.draft_s(length) == pytest.approx(seconds)


def test_a_round_is_its_draft_and_a_pass_less_what_one_token_was_measured_to_save() -> None:
    for eager, one in ((None, 1.8), (1.5, 1.5), (2.5, 1.8)):
        costs = replace(COSTS, eager=eager)
        longer = 0.9 + 2.4 - (1.8 - one)
        assert [costs.round_s(n) for n in (0, 1, 4)] == pytest.approx([costs.plain_s, one, longer])


def test_what_a_drafter_has_missed_is_read_as_cheaply_as_a_pass_reads_rows_and_never_for_less_than_nothing() -> None:
    assert COSTS.reading_s(1) == 0.0
    assert COSTS.reading_s(3) == pytest.approx(0.3 * READING * 2)
    assert replace(COSTS, verify=((1, 1.0), (9, 1.05))).reading_s(9) == pytest.approx(0.3 * 0.05)
    assert replace(COSTS, verify=((1, 1.0), (2, 1.2), (4, 1.0))).reading_s(8) == 0.0


def test_one_of_several_drafters_has_costs_of_its_own() -> None:
    other = replace(COSTS, draft=((0, 0.0), (1, 0.5)))
    assert replace(COSTS, members=(COSTS, other)).of(1) == other and COSTS.of(0) == COSTS


@pytest.mark.parametrize(("name", "temperature"), [("llama", 1.0), ("mamba2", 0.0)])
def test_measuring_leaves_both_caches_empty_and_the_next_reply_exact(name: str, temperature: float) -> None:
    network = build(name)
    target, drafter = CachedModel(network), draft_model(network, 64)
    sampler = Sampler(SamplingSettings(temperature=temperature, frequency_penalty=0.1), 64)
    costs = measure(target, sampler, drafter, widths=(1, 2, 4), context=20, repeats=1)
    assert (target.length, drafter.model.length) == (0, 0)
    assert [width for width, _ in costs.verify] == [1, 2, 4]
    assert [length for length, _ in costs.draft] == [0, 1, 3]
    assert reply(target, drafter, 3, tokens=20)[0] == reply(network, tokens=20)[0]


def test_a_block_is_measured_at_two_tokens_too() -> None:
    """A parallel head makes the second token in the pass that makes all others: two cost what eight do, not little more
    than one."""
    target = CachedModel(build("qwen3"))
    head = Eagle3(random_eagle3(mask_id=5), target)
    costs = measure(target, Sampler(SamplingSettings(), 64), head, widths=(1, 9), context=20, repeats=1)
    assert [length for length, _ in costs.draft] == [0, 1, 2, 8]


def test_passes_are_measured_at_their_widths_after_the_context() -> None:
    network = Counting(build("qwen3"))
    target = CachedModel(network)
    network.rows.clear()
    measure(target, Sampler(SamplingSettings(), 64), widths=(1, 3), context=30, repeats=2)
    turn = [*[1] * (STEPS + 3), 1, 3]
    assert network.rows[: 1 + 3 * len(turn)] == [29, *turn * 3]


class Clock:
    """A job whose times are given; the first is the warm-up, and the last goes on."""

    def __init__(self, *times_s: float) -> None:
        self.times_s, self.runs = times_s, 0

    def __call__(self) -> float:
        self.runs += 1
        return self.times_s[min(self.runs, len(self.times_s)) - 1]


def test_a_time_that_no_other_confirms_is_taken_again() -> None:
    """What else runs can only add to a time, so the quickest counts once it was seen twice."""
    quiet, burst, never = Clock(9.0, 1.0, 1.01, 1.0), Clock(9.0, 3.0, 1.5, 2.5, 1.2, 1.19), Clock(*range(99, 1, -10))
    found = measurement._quickest({(-1, 1): quiet, (-1, 2): burst, (-1, 3): never}, 3, lambda: None)
    assert found == {(-1, 1): 1.0, (-1, 2): 1.19, (-1, 3): 9}
    assert [quiet.runs, burst.runs, never.runs] == [1 + 3, 1 + 5, 1 + measurement.MOST_TURNS]


def test_bursts_of_other_work_leave_the_costs_as_they_are() -> None:
    """A burst doubles every time that falls into it; half of the time there is one."""
    rng, at = random.Random(3), [0]
    costs = {(-2, STEPS): 0.85, **{(-1, width): 1 + 0.1 * width for width in range(1, 10)}}

    def job(seconds: float) -> float:
        at[0] += 1
        return seconds * (2 if (at[0] // 7) % 2 else 1) * (1 + 0.01 * rng.random())

    found = measurement._quickest({key: partial(job, s) for key, s in costs.items()}, 3, lambda: None)
    assert all(found[key] == pytest.approx(s, rel=0.02) for key, s in costs.items())


def test_drafts_are_measured_whole_though_they_are_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal is a promise: unless it is waited for, drafting would look free. By a clock on which each token that
    is evaluated takes a second."""

    class Lazy(Drafter):
        traits = Traits("block")

        def propose(self, context: DraftContext, length: int) -> Draft:
            return Draft(mx.zeros(length, mx.int32))

    evaluate, now_s = mx.eval, [0.0]

    def timed(*arrays: Any) -> None:
        now_s[0] += sum(array.size for array in arrays if isinstance(array, mx.array) and array.dtype == mx.int32)
        evaluate(*arrays)

    monkeypatch.setattr(mx, "eval", timed)
    monkeypatch.setattr(measurement, "time", SimpleNamespace(perf_counter=lambda: now_s[0]))
    target = CachedModel(build("qwen3"))
    costs = measure(target, Sampler(SamplingSettings(), 64), Lazy(), widths=(1, 9), context=10, repeats=3)
    assert costs.draft == ((0, 0.0), (1, 1.0), (2, 2.0), (8, 8.0))


def test_nothing_takes_less_time_than_the_least_work_whatever_the_clock_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a noisy machine a wider pass may have been measured quicker; a policy would then draft for nothing."""
    seconds = {(-2, STEPS): 0.15, (-3, 1): 0.19, (-1, 1): 0.2, (-1, 2): 0.19, (-1, 5): 0.3, (0, 1): 0.02, (0, 8): 0.01}
    monkeypatch.setattr(measurement, "_quickest", lambda *parts: seconds)
    target = CachedModel(build("qwen3"))
    found = measure(target, Sampler(SamplingSettings(), 64), PromptLookup(), widths=(1, 2, 5), context=10)
    assert found.verify == ((1, 0.2), (2, 0.2), (5, 0.3))
    assert found.draft == ((0, 0.0), (1, 0.02), (8, 0.02))
    assert (found.plain_s, found.eager) == (0.15, 0.2)


@pytest.mark.parametrize(("measured", "plain_s"), [(0.25, 0.2), (0.17, 0.17), (0.01, MIN_PLAIN * 0.2)])
def test_a_plain_step_takes_no_longer_than_its_pass_and_no_less_than_can_be_hidden(
    measured: float, plain_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement, "_quickest", lambda *parts: {(-2, STEPS): measured, (-1, 1): 0.2})
    found = measure(CachedModel(build("qwen3")), Sampler(SamplingSettings(), 64), widths=(1,), context=10)
    assert (found.plain_s, found.round_s(0), found.pass_s(1)) == (plain_s, plain_s, 0.2)


@pytest.mark.parametrize("name", ["llama", "mamba2"])
def test_plain_steps_are_measured_as_the_loop_runs_them(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is timed of a run was launched before the one before had landed, and nothing is read again."""
    ahead, real = [], verify_pass.submit_after
    monkeypatch.setattr("engine.backend.queues", lambda: True)
    monkeypatch.setattr(verify_pass, "submit_after", lambda *a: (ahead.append(1), real(*a))[1])
    network = Counting(build(name))
    target = CachedModel(network)
    network.rows.clear()
    found = measure(target, Sampler(SamplingSettings(), 64), widths=(1,), context=30, repeats=2)
    runs, rest = divmod(len(ahead), STEPS + 2)
    assert (runs >= 3, rest) == (True, 0)
    assert network.rows[0] == 29
    assert set(network.rows[1:]) == {1}
    assert found.plain is not None


RUN = STEPS + 3


@pytest.mark.parametrize("landings", [[*range(1, RUN + 1)], [1, *range(3, RUN + 1), RUN]], ids=["queued", "waited for"])
def test_a_run_of_plain_steps_is_timed_over_as_many_as_it_has(
    landings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a launch waits for the device, a step after which one is launched is told when that one is done."""
    told = [Round(i, (1,), (), 0, (), (), 1, 0.25 * landing) for i, landing in enumerate(landings)]
    monkeypatch.setattr(measurement, "decode", lambda *parts: iter(told))
    assert measurement._run_job(CachedModel(build("qwen3")), draft_context(PROMPT))() == 0.25


@pytest.mark.parametrize("name", ["llama", "qwen3_next"])
def test_heads_that_look_at_one_place_are_measured_too(name: str) -> None:
    """They keep the hidden states of the latest pass, which runs of plain steps would have replaced."""
    target = CachedModel(build(name))
    drafter = medusa(target, trees=False)
    found = measure(target, Sampler(SamplingSettings(), 64), drafter, widths=(1, 2), context=20, repeats=2)
    assert found.eager is not None
    assert target.taps is target.layer_taps(drafter.needs.taps, latest_only=True)
