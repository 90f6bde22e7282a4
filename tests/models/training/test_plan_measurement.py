"""What a fit needs and will do: said, and refused, before the work."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import backend
from engine.errors import FitError
from models.loader import Loaded, load
from models.parameters import flat_parameters
from models.training import plan_measurement
from models.training.plan_measurement import PreparedTraining, fingerprint, prepare_training, sizes_of
from models.training.resource_needs import (
    FreeResources,
    NetworkSizes,
    ResourceNeeds,
    batch_within,
    check_disk,
    check_memory,
    estimate_needs,
    rows_within,
    working_bytes,
)
from models.training.trainee_kinds import make_reader, make_trainee
from models.training.training_plan import MachineRates, TrainingOptions, TrainingPlan
from models.training.training_prompts import prompts_that_fit
from tests.models.training.training_plans import MEASURED, ROOMY, conversation, plan_for
from tests.toys.folders import make_folder, quantize_folder

SMALL = TrainingOptions("medusa", conversations=24, steps=4, reply_tokens=16)


def sizes_for(target: Loaded, plan: TrainingPlan) -> NetworkSizes:
    reader = make_reader(target, plan.kind)
    shape = (plan.depths, plan.layers)
    return sizes_of(target, reader, make_trainee(target, plan.kind, shape, reader, range(plan.vocabulary), 0), plan)


@pytest.fixture
def sizes(target: Loaded) -> NetworkSizes:
    return sizes_for(target, plan_for(target, "eagle3"))


def prepared_with(
    monkeypatch: pytest.MonkeyPatch,
    target: Loaded,
    options: TrainingOptions,
    room: FreeResources,
    rates: MachineRates = MEASURED,
) -> PreparedTraining:
    """On a machine that was measured before."""
    monkeypatch.setattr(plan_measurement, "_measure", lambda *args: rates)
    return prepare_training(target, options, [], room)


def test_on_a_slow_machine_fewer_are_written_side_by_side(monkeypatch: pytest.MonkeyPatch, target: Loaded) -> None:
    monkeypatch.setattr(plan_measurement, "_measure_writing", lambda target, plan, prompts: (5.0 * plan.rows, []))
    slow = replace(MEASURED, write=100.0)
    prepared = prepared_with(monkeypatch, target, TrainingOptions("medusa", 600.0), ROOMY, slow)
    rows = prepared.plan.rows
    assert 1 < rows < 32 and prepared.plan.shard == rows
    assert prepared.max_lost_s == pytest.approx((80 + prepared.plan.reply_tokens) / 5.0)  # the rate that was measured
    quick = replace(MEASURED, write=5000.0)
    assert prepared_with(monkeypatch, target, TrainingOptions("medusa", 600.0), ROOMY, quick).plan.rows > rows


# --- what it needs --------------------------------------------------------------------------------


def test_what_is_needed_grows_with_what_is_done(target: Loaded, sizes: NetworkSizes) -> None:
    plan = plan_for(target, "eagle3")
    least = estimate_needs(sizes, plan, MEASURED)
    assert estimate_needs(sizes, replace(plan, batch_tokens=8192), MEASURED).memory_bytes > least.memory_bytes
    assert estimate_needs(sizes, replace(plan, rows=4096), MEASURED).memory_bytes > least.memory_bytes
    assert estimate_needs(sizes, replace(plan, conversations=10_000), MEASURED).disk_bytes > least.disk_bytes
    assert estimate_needs(sizes, replace(plan, stored=False), MEASURED).disk_bytes < least.disk_bytes
    assert rows_within(sizes, 400, 2**40) == 32 and rows_within(sizes, 400, 2**10) == 1
    few, many = (plan_for(target, "eagle3", conversations=n, tokens=200 * n, stored=False) for n in (100, 100_000))
    memory = [estimate_needs(sizes, plan, MEASURED).memory_bytes for plan in (few, many)]
    assert memory[1] - memory[0] > 99_900 * 250 * 4  # the corpus too


def test_long_prompts_take_disk_as_they_were_measured(target: Loaded, sizes: NetworkSizes) -> None:
    """Also when replies turn out short, so that there are three times as many prompts."""
    plan = plan_for(target, "eagle3", conversations=3000, tokens=200_000)
    long = replace(MEASURED, conversation_tokens=900.0)
    assert estimate_needs(sizes, plan, long).states_bytes == (200_000 + 3000 * 700) * sizes.states * 2
    assert estimate_needs(sizes, plan, MEASURED).states_bytes == (200_000 + 3000 * 50) * sizes.states * 2


@pytest.mark.slow
def test_how_long_the_users_prompts_are_is_not_judged_by_the_first(
    target: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    prompts = [*(f"short {n}" for n in range(40)), *(f"{n} " + "long " * 60 for n in range(160)), "x" * 5000]
    options = TrainingOptions("medusa", conversations=200, steps=1, reply_tokens=16)
    there, back = (prepare_training(target, options, asked, ROOMY) for asked in (prompts, prompts[::-1]))
    assert there.needs.states_bytes == back.needs.states_bytes
    lengths = prompts_that_fit(prompts, target.tokenizer, there.plan.prompt_tokens)
    row_bytes = 2 * sizes_for(target, plan_for(target, "medusa")).states
    assert there.needs.states_bytes >= 0.99 * sum(lengths.values()) * row_bytes
    assert there.left_out == 1 and there.answers_per_prompt == 1.0
    assert prepare_training(target, SMALL, ["one", "two", "three", "four", "one"], ROOMY).answers_per_prompt == 6


def test_targets_that_differ_in_their_weights_alone_are_told_apart(tmp_path: Path) -> None:
    same, other = (load(make_folder(tmp_path / str(seed), seed=seed)) for seed in (0, 1))
    again = load(make_folder(tmp_path / "again" / "0", seed=0))
    assert fingerprint(same) == fingerprint(again) != fingerprint(other)
    config = tmp_path / "0" / "tokenizer_config.json"
    config.write_text(config.read_text().replace("assistant", "answerer"))
    assert fingerprint(load(tmp_path / "0")) != fingerprint(again)


def test_what_a_draft_model_copies_from_a_quantized_target_is_counted(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = quantize_folder(toy_folder, tmp_path / "target")
    plan = plan_for(load(folder), "draft")
    assert sizes_for(load(folder), plan).frozen_bytes == 0
    monkeypatch.setattr(backend, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail=""))
    target = load(folder)
    sizes, weights = sizes_for(target, plan), flat_parameters(load(toy_folder).network)
    frozen = sum(weights[name].size * 4 for name in ("model.embed_tokens.weight", "lm_head.weight"))
    assert sizes.frozen_bytes == frozen
    without = replace(sizes, frozen_bytes=0)
    large = replace(plan, batch_tokens=2**16)
    assert working_bytes(sizes, large) - working_bytes(without, large) == frozen


def test_the_heads_that_a_head_has_more_than_its_target_are_counted(target: Loaded) -> None:
    """An EAGLE-3 head begins with a group of them more, whose scores take room: with all four, where there is one."""
    folder = replace(target.folder, config={**target.folder.config, "num_key_value_heads": 1})
    target = replace(target, folder=folder)
    assert sizes_for(target, plan_for(target, "medusa")).heads == 4
    assert sizes_for(target, plan_for(target, "eagle3")).heads == 8


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path) -> None:
    needed = ResourceNeeds(2**30, 3 * 2**30, 2**30)
    check_disk(needed, FreeResources(3 * 2**30, None, None))
    with pytest.raises(FitError, match=r"needs 3\.0 GB of disk space, but only 2\.0 GB is free"):
        check_disk(needed, FreeResources(2 * 2**30, None, None))


def test_a_memory_that_is_too_small_is_refused_before_anything_is_tried(
    target: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tried(*args: Any) -> MachineRates:
        raise AssertionError

    monkeypatch.setattr(plan_measurement, "_measure", tried)
    with pytest.raises(FitError, match=r"of memory, but this machine has only 200 MB: choose a smaller target"):
        prepare_training(target, SMALL, [], FreeResources(2**40, 200 * 2**20, 100 * 2**20))
    check_memory(2**30, FreeResources(0, 2**30, 0))
    check_memory(2**30, FreeResources(0, None, None))


def test_a_smaller_batch_is_trained_on_where_that_is_enough(target: Loaded, sizes: NetworkSizes) -> None:
    plan = plan_for(target, "eagle3", batch_tokens=2048)
    whole, half = (working_bytes(sizes, replace(plan, batch_tokens=tokens)) for tokens in (2048, 1024))
    loaded = sizes.weights_bytes
    assert batch_within(sizes, plan, ROOMY) == 2048
    assert batch_within(sizes, plan, FreeResources(0, whole, whole - loaded)) == 2048
    assert batch_within(sizes, plan, FreeResources(0, whole, half - loaded)) == 1024
    assert batch_within(sizes, plan, FreeResources(0, whole, 0)) == 2048
    assert batch_within(sizes, plan, FreeResources(0, half, 0)) == 1024
    assert batch_within(sizes, plan, FreeResources(0, 0, 0)) == 256


# --- what it will do ------------------------------------------------------------------------------


@pytest.mark.slow_for("1024")
@pytest.mark.parametrize("disk_bytes", [2**40, 2**10])
def test_the_minutes_are_kept_whether_states_are_or_not(
    target: Loaded, monkeypatch: pytest.MonkeyPatch, disk_bytes: int
) -> None:
    plan = prepared_with(monkeypatch, target, TrainingOptions("eagle3", 60), FreeResources(disk_bytes, None, None)).plan
    assert plan.stored == (disk_bytes == 2**40)
    assert 0.8 * 3600 < sum(plan.stages_s.values()) <= 3600


@pytest.mark.parametrize(("sound", "rows"), [(True, 16), (False, 1)])
def test_targets_that_are_not_batched_write_one_reply_at_a_time(
    target: Loaded, monkeypatch: pytest.MonkeyPatch, sound: bool, rows: int
) -> None:
    monkeypatch.setattr(plan_measurement, "batching_is_exact", lambda network: sound)
    quick = replace(MEASURED, write=5000.0)
    plan = prepared_with(monkeypatch, target, TrainingOptions("medusa"), ROOMY, quick).plan
    assert plan.rows == rows and plan.shard >= 8


def test_too_few_prompts_are_refused_before_the_work(target: Loaded) -> None:
    with pytest.raises(FitError, match="fewer than 4 different prompts"):
        prepare_training(target, TrainingOptions("medusa"), ["one", "two", "two", "three", "x" * 2000], ROOMY)


@pytest.mark.slow
def test_a_prompt_that_is_much_longer_than_others_is_measured_with(target: Loaded) -> None:
    """And a reply that would be too short to learn from is lengthened for that."""
    prompts = ["x" * 200, "one", "two", "three"]
    options = TrainingOptions("eagle3", conversations=8, steps=1, reply_tokens=8)
    assert prepare_training(target, options, prompts, ROOMY).plan.conversations == 8
    assert plan_measurement._stretched(conversation((1, 2, 3, 4, 5), 3), 5).tokens.tolist() == [1, 2, 3, 4, 5, 4, 5, 4]
