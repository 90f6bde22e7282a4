"""A fit from beginning to end, on a tiny random target: what lands, and what it says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from app.inference.pair_loader import open_drafter
from engine import backend
from engine.errors import FitError
from models.loader import Loaded, load
from models.training import workspace
from models.training.eagle3_trainee import Eagle3Trainee
from models.training.pipeline import STAGES, TrainingPipeline
from models.training.training_plan import TrainingKind, write_plan
from models.training.workspace import MANIFEST, Workspace
from tests.models.training.training_plans import CHEAP, begin_fit, contents, fit, plan_for
from tests.toys.folders import quantize_folder

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["eagle3", "medusa", "draft", "mtp", "dflash"])
def test_what_a_fit_leaves_is_a_drafter_with_a_report(
    target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: TrainingKind
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(workspace, "sync_folder", lambda path: synced.append(path.name))
    events = list(begin_fit(target, tmp_path / "drafter", plan_for(target, kind, tokens=300)))
    place = Workspace(tmp_path / "drafter")
    assert {path.name for path in place.out.iterdir()} <= set(synced)
    assert list(dict.fromkeys(event.stage for event in events)) == [*STAGES]
    for stage in STAGES:
        done = [event.done for event in events if event.stage == stage]
        assert done == sorted(done) and done[-1] == next(event.total for event in events if event.stage == stage)
    names = {path.name for path in place.out.iterdir()}
    assert {"config.json", "report.json", "report.png", MANIFEST} <= names
    assert [path.name for path in tmp_path.iterdir()] == ["drafter"]
    assert open_drafter(str(place.out), target).drafter is not None
    report = place.report()
    assert report["kind"] == kind and report["target"] == "target"
    assert str(report["verdict"]).startswith(("worth", "not worth"))
    assert len(report["acceptance_by_position"]) >= 1  # type: ignore[arg-type]
    assert str(tmp_path) not in (place.out / "report.json").read_text()
    about = json.loads((place.out / "config.json").read_text())["redline"]
    usual, told = about["acceptance_by_position"], report["acceptance_by_position"]
    assert len(usual) >= 1 and usual == told[: len(usual)]  # type: ignore[index]
    assert "licence applies" in about["licence"] and about["reply_tokens"] >= 300


def test_states_that_are_not_stored_give_the_same_training(target: Loaded, tmp_path: Path) -> None:
    plans = [plan_for(target, "eagle3", stored=stored, steps=6) for stored in (True, False)]
    kept, anew = (fit(target, tmp_path / f"{n}", plan) for n, plan in enumerate(plans))
    losses = [place.report()["loss"]["training"] for place in (kept, anew)]  # type: ignore[index,call-overload]
    assert losses[0][0] == pytest.approx(losses[1][0], rel=1e-3)
    assert losses[0] == pytest.approx(losses[1], rel=0.1)  # Adam's first steps are large, whatever the gradient


def test_the_same_plan_gives_the_same_files(target: Loaded, tmp_path: Path) -> None:
    first, second, other = (
        fit(target, tmp_path / f"{n}", plan_for(target, "draft", seed=seed), [f"the sky {n}" for n in range(9)])
        for n, seed in enumerate((0, 0, 1))
    )
    assert contents(first.out) == contents(second.out) != contents(other.out)
    assert "mind that of the prompts" in str(first.report()["licence"])


def test_a_head_begins_with_an_induction_head(target: Loaded, tmp_path: Path) -> None:
    """Its queries read the embedding, its keys the state, which the other heads read both."""
    place = fit(target, tmp_path / "drafter", plan_for(target, "eagle3", steps=1, learning_rate=1e-12))
    weights: Any = mx.load(str(place.out / "model.safetensors"))
    hidden, size = 32, 8
    queries, keys = (weights[f"layers.0.self_attn.{name}_proj.weight"] for name in "qk")
    assert mx.any(queries[-size:, :hidden]).item() and not mx.any(queries[-size:, hidden:]).item()
    assert mx.any(keys[-size:, hidden:]).item() and not mx.any(keys[-size:, :hidden]).item()
    assert mx.any(queries[:size, hidden:]).item() and mx.any(keys[:size, :hidden]).item()


def test_an_initialized_head_is_not_initialized_again(
    target: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped while it looks it begins anew, stopped after that it does not; in both cases with the same files."""
    looks: list[int] = []
    initialize = Eagle3Trainee.initialize

    def noted(self: Eagle3Trainee, *args: Any) -> Iterator[int]:
        looks.append(0)
        return initialize(self, *args)

    monkeypatch.setattr(Eagle3Trainee, "initialize", noted)
    plan = plan_for(target, "eagle3", steps=2)
    whole = fit(target, tmp_path / "whole", plan)
    for folder, looking in (("while", True), ("after", False)):
        events = begin_fit(target, tmp_path / folder, plan)
        while (event := next(events)).stage != "training" or bool(event.note) != looking:
            pass
        events.close()
        place = Workspace(tmp_path / folder)
        for _ in TrainingPipeline(target, place, plan, [], lambda folder: CHEAP).run():
            pass
        assert contents(place.out) == contents(whole.out)
    assert len(looks) == 1 + 2 + 1


# --- the folder that is worked in -----------------------------------------------------------------


def test_two_fits_do_not_share_a_folder(tmp_path: Path) -> None:
    place = Workspace(tmp_path / "drafter")
    code = (
        "import sys; from pathlib import Path; from models.training.workspace import Workspace\n"
        "try:\n    with Workspace(Path(sys.argv[1])).locked(): print('in')\n"
        "except Exception as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(place.out)]
    with place.locked():
        said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert "another process is fitting" in said
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "in\n"


def test_a_kill_between_publishing_and_cleaning_up_loses_nothing(target: Loaded, tmp_path: Path) -> None:
    place = fit(target, tmp_path / "drafter", plan_for(target, "medusa"))
    before = contents(place.out)
    place.begin()
    write_plan(place.plan_file, plan_for(target, "medusa"))
    place.drafter.mkdir()
    place.publish()
    assert contents(place.out) == before and [path.name for path in tmp_path.iterdir()] == ["drafter"]


def test_something_at_the_target_path_is_reported_at_the_end(target: Loaded, tmp_path: Path) -> None:
    place = Workspace(tmp_path / "drafter")
    place.begin()
    write_plan(place.plan_file, plan_for(target, "medusa"))
    place.drafter.mkdir()
    (place.drafter / MANIFEST).write_text("{}")
    place.out.write_text("a file")
    with pytest.raises(FitError, match="was created in the meantime: move it, then continue with --resume"):
        place.publish()
    place.out.unlink()
    place.out.mkdir()
    (place.out / "mine").write_text("mine")
    with pytest.raises(FitError, match="was created in the meantime"):
        place.publish()
    assert (place.out / "mine").read_text() == "mine" and place.started


def test_a_finished_drafter_is_distinguished_from_that_of_another_fit(target: Loaded, tmp_path: Path) -> None:
    place = fit(target, tmp_path / "drafter", plan_for(target, "medusa"))
    assert place.is_result_of_plan
    place.begin()
    for changes, mine in (({}, True), ({"seed": 1}, False), ({"kind": "eagle3"}, False), ({"steps": 13}, False)):
        write_plan(place.plan_file, replace(plan_for(target, "medusa"), **changes))
        assert place.is_result_of_plan is mine


@pytest.mark.parametrize("kind", ["eagle3", "medusa", "draft", "mtp", "dflash"])
def test_a_target_that_stays_quantized_as_on_metal_is_fitted_too(
    toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: TrainingKind
) -> None:
    folder = quantize_folder(toy_folder, tmp_path / "target", dtype=mx.bfloat16)
    monkeypatch.setattr(backend, "describe", lambda: backend.Backend("gpu", "metal", dequantize=False, detail=""))
    target = load(folder)
    plan = plan_for(target, kind, conversations=8, shard=8, held_out=2, steps=3, reply_tokens=12)
    place = fit(target, tmp_path / "drafter", plan)
    assert open_drafter(str(place.out), target).drafter is not None
