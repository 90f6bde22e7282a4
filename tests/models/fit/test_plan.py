"""How much a fit does: arithmetic of the plan, and what a plan on disk must be."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import FitError, UsageError
from models.fit.plan import EPOCHS, Rates, Wish, amounts, expected, held_out, read_plan, shard_size, write_plan
from models.load import Loaded
from tests.models.fit.plans import plan_for

RATES = Rates(write=100.0, read=500.0, train=250.0, reply_tokens=200.0, conversation_tokens=250.0)


@pytest.mark.parametrize("kind", ["eagle3", "medusa", "draft"])
@pytest.mark.parametrize("minutes", [10.0, 60.0, 600.0])
def test_the_work_fills_the_minutes(target: Loaded, kind: str, minutes: float) -> None:
    wish = Wish(kind, minutes)  # type: ignore[arg-type]
    amount = amounts(wish, RATES, 2048)
    plan = expected(replace(plan_for(target, wish.kind, held_out=8), **amount._asdict()), RATES)
    seconds = sum(plan.stages_s.values())
    assert 0.85 * minutes * 60 < seconds <= minutes * 60
    conversations = amount.tokens / RATES.reply_tokens
    epochs = amount.steps * amount.batch_tokens / (conversations * RATES.conversation_tokens)
    assert epochs == pytest.approx(EPOCHS[kind], rel=0.02)


def test_more_minutes_are_more_of_everything() -> None:
    short, long = (amounts(Wish("eagle3", minutes), RATES, 2048) for minutes in (10, 100))
    assert long.tokens > 9 * short.tokens
    assert long.steps * long.batch_tokens > 9 * short.steps * short.batch_tokens
    assert short.batch_tokens < long.batch_tokens == 2048


def test_a_short_fit_still_has_something_to_learn_from_and_to_judge_by() -> None:
    amount = amounts(Wish("eagle3", 0.01), RATES, 2048)
    assert amount.tokens >= 24 * RATES.reply_tokens and amount.steps >= 20
    assert held_out(24, RATES) >= 6


def test_numbers_stand_in_place_of_minutes() -> None:
    assert amounts(Wish("medusa", conversations=40, steps=7), RATES, 512) == (40, 0, 7, 512)


def test_a_shard_is_less_than_a_minute_of_writing() -> None:
    for write in (20.0, 100.0, 5000.0):
        rates = replace(RATES, write=write)
        assert shard_size(rates, 32, 10_000) * rates.reply_tokens / write < 60 or shard_size(rates, 32, 10_000) == 1


def test_a_slow_target_is_judged_by_fewer() -> None:
    assert held_out(10_000, RATES) < held_out(10_000, replace(RATES, read=5000.0, train=5000.0)) == 96


def test_a_plan_comes_back_as_it_was(target: Loaded, tmp_path: Path) -> None:
    plan = plan_for(target, "medusa", tokens=123)
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == plan


@pytest.mark.parametrize("damage", ["cut", "version", "missing"])
def test_a_plan_that_cannot_be_gone_on_with_says_so(target: Loaded, tmp_path: Path, damage: str) -> None:
    path = tmp_path / "plan.json"
    write_plan(path, plan_for(target, "medusa"))
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
        ({"learning_rate": float("nan")}, "learning-rate is nan"),
        ({"seed": -1}, "seed is -1"),
        ({"vocabulary": 1}, "vocabulary is 1"),
    ],
)
def test_nonsense_is_refused(wrong: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Wish("eagle3", **wrong)  # type: ignore[arg-type]


def test_a_draft_model_has_no_vocabulary_of_its_own() -> None:
    with pytest.raises(UsageError, match="whole vocabulary"):
        Wish("draft", vocabulary=100)
