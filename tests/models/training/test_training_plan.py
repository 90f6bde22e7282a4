"""How much a fit does: arithmetic of the plan, and what a plan on disk must be."""

import json
import random
from dataclasses import replace
from heapq import heapreplace
from pathlib import Path

import pytest

from engine.errors import FitError, UsageError
from models.loader import Loaded
from models.training.training_plan import (
    EPOCHS,
    LONGEST_QUESTION,
    MachineRates,
    TrainingOptions,
    TrainingPlan,
    held_out_size,
    initialization_tokens,
    read_plan,
    rows_in_a_shard,
    seconds_lost_by_a_kill,
    shard_size,
    training_amounts,
    with_stage_times,
    write_plan,
)
from tests.models.training.training_plans import MEASURED, plan_for


@pytest.mark.parametrize("kind", ["eagle3", "medusa", "draft"])
@pytest.mark.parametrize(("minutes", "stored"), [(10.0, True), (60.0, False), (600.0, True)])
def test_the_work_fills_the_minutes(target: Loaded, kind: str, minutes: float, stored: bool) -> None:
    options = TrainingOptions(kind, minutes)  # type: ignore[arg-type]
    amount = training_amounts(options, MEASURED, 2048, stored)
    plan = with_stage_times(
        replace(plan_for(target, options.kind, held_out=8, stored=stored), **amount._asdict()), MEASURED
    )
    seconds = sum(plan.stages_s.values())
    assert 0.85 * minutes * 60 < seconds <= minutes * 60
    conversations = amount.tokens / MEASURED.reply_tokens
    epochs = amount.steps * amount.batch_tokens / (conversations * MEASURED.conversation_tokens)
    assert epochs == pytest.approx(EPOCHS[kind], rel=0.02)


def test_initialization_reads_no_more_tokens_than_take_a_short_time(target: Loaded) -> None:
    assert initialization_tokens("eagle3", 64, MEASURED, stored=True) == 64 * 64
    assert initialization_tokens("eagle3", 8192, MEASURED, stored=True) == 32_768
    assert initialization_tokens("eagle3", 8192, MEASURED, stored=False) == 20 * MEASURED.read
    assert {initialization_tokens(kind, 64, MEASURED, stored=True) for kind in ("medusa", "draft")} == {0}
    anew = plan_for(target, "eagle3", stored=False, initialization_tokens=0)
    seconds = [
        with_stage_times(plan, MEASURED).stages_s["training"]
        for plan in (anew, replace(anew, initialization_tokens=1000))
    ]
    assert seconds[1] - seconds[0] == pytest.approx(1000 / MEASURED.read, abs=0.1)


def test_the_least_and_the_most_that_a_fit_does() -> None:
    """A short fit still has something to learn from and to judge by; numbers may stand in place of minutes."""
    given = TrainingOptions("medusa", conversations=40, steps=7)
    assert training_amounts(given, MEASURED, 512, True) == (40, 0, 7, 512)
    assert held_out_size(10_000, MEASURED) < held_out_size(10_000, replace(MEASURED, read=5000.0, train=5000.0)) == 96
    amount = training_amounts(TrainingOptions("eagle3", 0.01), MEASURED, 2048, True)
    assert amount.tokens >= 24 * MEASURED.reply_tokens and amount.steps >= 20
    assert held_out_size(24, MEASURED) >= 6


def written_s(plan: TrainingPlan, rates: MachineRates, chance: random.Random) -> float:
    """The seconds of a shard of replies of all lengths: a reply begins where a question or another reply has ended."""
    ends = [LONGEST_QUESTION] * plan.rows
    for _ in range(plan.shard):
        heapreplace(ends, ends[0] + chance.randint(1, plan.reply_tokens))
    return max(ends) * plan.rows / rates.write


@pytest.mark.parametrize("write", [25.0, 500.0, 5000.0])
@pytest.mark.parametrize("reply_tokens", [48, 1000])
def test_a_kill_loses_less_than_a_minute_of_writing(target: Loaded, write: float, reply_tokens: int) -> None:
    """Where a machine writes as many tokens a second for fewer texts side by side."""
    usual = 0.55 * reply_tokens
    rates = replace(MEASURED, write=write, reply_tokens=usual, conversation_tokens=usual + 50)
    plan = plan_for(target, "eagle3", rows=32, reply_tokens=reply_tokens, conversations=10_000)
    plan = replace(plan, rows=rows_in_a_shard(plan, rates))
    plan = replace(plan, shard=shard_size(plan, rates))
    assert seconds_lost_by_a_kill(plan, rates) < 60
    assert all(written_s(plan, rates, random.Random(seed)) <= seconds_lost_by_a_kill(plan, rates) for seed in range(20))


def test_a_kill_may_lose_a_step_or_the_evaluation(target: Loaded) -> None:
    plan = plan_for(target, "eagle3", batch_tokens=2048, held_out=4)
    quick = replace(MEASURED, write=10_000.0, read=10_000.0)
    assert seconds_lost_by_a_kill(plan, replace(quick, train=10.0)) == pytest.approx(30 + 204.8)
    deep = replace(quick, initialization_s=100.0)
    assert seconds_lost_by_a_kill(replace(plan, stored=False, initialization_tokens=50_000), deep) == pytest.approx(
        100 + 5
    )
    assert with_stage_times(plan, deep).stages_s["training"] == pytest.approx(
        with_stage_times(plan, quick).stages_s["training"] + 100
    )
    slow = replace(quick, train=10.0, conversation_tokens=900.0)
    assert seconds_lost_by_a_kill(plan, slow) == pytest.approx(4 * 900 * (1 / 10 + 1 / 10_000))


def test_a_shard_is_as_many_as_go_side_by_side_or_more(target: Loaded) -> None:
    plan = plan_for(target, "eagle3", rows=8, reply_tokens=384, conversations=10_000)
    slow = replace(MEASURED, write=4.0)  # a token in seconds
    alone = replace(plan, rows=rows_in_a_shard(replace(plan, rows=32), slow), shard=1)
    assert alone.rows == 1 and seconds_lost_by_a_kill(alone, slow) == (80 + 384) / 4.0
    sizes = [shard_size(plan, replace(MEASURED, write=write)) for write in (1.0, 150.0, 1e6)]
    assert sizes[0] == 8 < sizes[1] < sizes[2] == 64


@pytest.mark.parametrize("damage", ["cut", "version", "missing"])
def test_a_plan_that_cannot_be_resumed_is_reported(target: Loaded, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, plan_for(target, "medusa"))
    assert read_plan(path) == plan_for(target, "medusa")
    value = json.loads(path.read_text())
    if damage == "version":
        path.write_text(json.dumps(value | {"version": 99}))
    elif damage == "missing":
        path.write_text(json.dumps({key: value[key] for key in value if key != "steps"}))
    else:
        path.write_text(path.read_text()[:40])
    with pytest.raises(FitError, match="remove that folder"):
        read_plan(path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"minutes": 0}, "minutes is 0"),
        ({"minutes": float("nan")}, "minutes is nan"),
        ({"conversations": 40}, "give both or neither"),
        ({"conversations": 4, "steps": 1}, "conversations is 4"),
        ({"steps": 0, "conversations": 40}, "steps is 0"),
        ({"depths": 9}, "depths is 9"),
        ({"layers": 2}, "layers is for --kind draft"),
        ({"reply_tokens": 2}, "reply-tokens is 2"),
        ({"learning_rate": 0.0}, "learning-rate is 0.0"),
        ({"kind": "draft", "depths": 2}, "drafts any length"),
        ({"seed": -1}, "seed is -1"),
        ({"vocabulary": 1}, "vocabulary is 1"),
    ],
)
def test_invalid_options_are_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        TrainingOptions(**{"kind": "eagle3", **wrong})  # type: ignore[arg-type]
