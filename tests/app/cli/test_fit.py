"""The fit command: what it says, what it refuses, and how it is gone on with. Toy targets."""

import io
import re
import signal
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.fit import announcement
from app.cli.terminal.progress import StageClock
from models.loader import load
from models.training import resource_needs
from models.training.pipeline import STAGES, TrainingPipeline, TrainingProgress
from models.training.plan_measurement import PreparedTraining
from models.training.training_plan import write_plan
from models.training.workspace import Workspace
from tests.app.command import Redline, run_on_terminal
from tests.models.training.training_plans import plan_for
from tests.toys.folders import make_folder

SMALL = ["--conversations", "16", "--steps", "4", "--reply-tokens", "16"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "magic"], "invalid choice: 'magic'"),
        (["--minutes", "0"], "minutes is 0.0"),
        (["--steps", "3"], "give both or neither"),
        (["--layers", "3"], "layers is for --kind draft"),
        (["--depths", "12"], "depths is 12"),
        (["--seed", "-1"], "seed is -1"),
        (["--kind", "draft", "--depths", "2"], "drafts any length"),
        (["--resume"], "there is no unfinished fit"),
        (["--prompts", "gone.txt"], "gone.txt cannot be read"),
        (["--out", "."], "give the drafter's folder a name"),
    ],
)
def test_nonsense_is_a_usage_error(redline: Redline, toy_folder: Path, here: Path, words: list[str], said: str) -> None:
    done = redline("fit", toy_folder, *words)
    assert done.code == 2 and said in done.complaint and not done.out
    assert not list(here.iterdir())


@pytest.mark.parametrize("words", [[], ["--kind", "medusa", "--minutes", "5", "--json"]])
def test_a_fit_that_nobody_asked_for_says_what_it_would_do(
    redline: Redline, monkeypatch: pytest.MonkeyPatch, here: Path, words: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr("app.cli.fit._train", lambda *_: pytest.fail("it begins"))
    done = redline("fit", *words)
    assert done.code == 2 and not done.out
    assert "for the built-in model, for about" in done.err and "`redline fit builtin` or --yes" in done.err
    assert ("medusa" in done.err, "5 minutes" in done.err) == ("medusa" in words, "5" in words)
    assert not list(here.iterdir())


def test_a_terminal_is_asked_and_no_is_no(redline: Redline, monkeypatch: pytest.MonkeyPatch, here: Path) -> None:
    trained: list[str] = []
    monkeypatch.setattr("app.cli.fit._train", lambda args, *_: trained.append(args.target))
    monkeypatch.setattr("app.cli.fit._report", lambda *_: 0)
    for answer, code, fits in (("", 1, 0), ("n", 1, 0), ("Y", 0, 1)):
        stdin = io.StringIO(f"{answer}\n")
        monkeypatch.setattr(stdin, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", stdin)
        done = redline("fit")
        assert (done.code, len(trained)) == (code, fits) and "for about 60 minutes" in done.err
    assert redline("fit", "--yes").code == redline("fit", "builtin").code == 0
    assert trained == ["builtin"] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_fit_that_is_terminated_leaves_no_lock(
    redline: Redline, monkeypatch: pytest.MonkeyPatch, here: Path, number: signal.Signals
) -> None:
    monkeypatch.setattr("app.cli.fit._train", lambda *_: signal.raise_signal(number))
    assert redline("fit", "builtin").code == 130
    assert not list(here.iterdir())


@pytest.mark.slow
def test_a_fit_says_what_it_takes_and_what_came_of_it(redline: Redline, toy_folder: Path, here: Path) -> None:
    words = ["fit", toy_folder, "--kind", "medusa"]
    done = redline(*words, *SMALL)
    assert done.code == 0 and "16 conversations, 4 steps of training" in done.err
    assert re.search(r"takes about .*judging .*\); Ctrl-C stops it, --resume continues", done.err)
    assert re.search(r"needs at most [\d.]+ [MG]B of memory and [\d.]+ [MG]B of disk", done.err)
    assert all(f"redline: {stage} " in done.err for stage in STAGES)
    assert done.out.startswith(("worth using", "not worth using"))
    assert "the drafter is in target-medusa" in done.out
    assert redline("chat", "--target", toy_folder, "--drafter", "target-medusa", "--prompt", "hi").code == 0

    done = redline(*words, *SMALL)
    assert done.code == 2 and "target-medusa exists: move it away" in done.complaint
    report = redline(*words, "--resume", "--json").json
    assert report["kind"] == "medusa"
    assert max(map(int, report["round_s"])) >= len(report["speedup_by_tree_size"]) - 1 > 0  # as large as its trees

    place = Workspace(here / "target-medusa")
    place.begin()
    write_plan(place.plan_file, plan_for(load(toy_folder), "medusa"))
    done = redline(*words, "--resume")
    assert done.code == 2 and "is the result of another fit" in done.complaint and place.started


@pytest.mark.slow
def test_an_unfinished_fit_is_gone_on_with_only_by_resume(
    redline: Redline, toy_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, other = tmp_path / "drafter", make_folder(tmp_path / "other", words=300)
    words = ["--kind", "medusa", "--out", out]
    run = TrainingPipeline.run

    def interrupted(pipeline: TrainingPipeline) -> Iterator[TrainingProgress]:
        for event in run(pipeline):
            yield event
            if event.stage == "training":
                signal.raise_signal(signal.SIGINT)

    with monkeypatch.context() as patched:
        patched.setattr(TrainingPipeline, "run", interrupted)
        done = redline("fit", toy_folder, *words, *SMALL)
    assert done.code == 130 and f"redline fit {toy_folder} --out {out} --resume" in done.err

    def complaint(*more: object) -> str:
        done = redline("fit", *more)
        assert done.code == 2 and not done.out
        return done.complaint

    assert "there is an unfinished fit; continue with --resume" in complaint(toy_folder, *words)
    again = [*words, "--resume"]
    assert "is for another target, target" in complaint(other, *again)
    assert "is of kind medusa" in complaint(toy_folder, *again[2:], "--kind", "draft")
    assert "minutes was fixed when the fit began" in complaint(toy_folder, *again, "--minutes", "3")
    done = redline("fit", toy_folder, *again)
    assert done.code == 0 and "resuming a drafter of kind medusa" in done.err
    assert Workspace(out).finished and not Workspace(out).started


@pytest.mark.parametrize(
    ("patched", "found", "said"),
    [
        ("models.durable_files.free_disk_bytes", 1000, "of disk space, but only 0 MB is free"),
        ("app.inference.machine.memory", (2**27, 2**26), "of memory, but this machine has only 128 MB"),
    ],
)
def test_a_machine_that_is_too_small_is_a_failure(
    redline: Redline,
    monkeypatch: pytest.MonkeyPatch,
    toy_folder: Path,
    here: Path,
    patched: str,
    found: object,
    said: str,
) -> None:
    monkeypatch.setattr(patched, lambda *_: found)
    monkeypatch.chdir(toy_folder)  # so that the target is named by a dot, and has a name all the same
    done = redline("fit", ".", *SMALL, "--kind", "medusa", "--out", here / "drafter")
    assert done.code == 1 and said in done.complaint
    announced = f"fitting a drafter of kind medusa for {toy_folder.name}: " in done.err
    assert announced == ("disk" in said)  # memory is asked for before the target is loaded
    assert not Workspace(here / "drafter").started


def test_few_prompts_and_long_replies_are_spoken_of_beforehand(toy_folder: Path) -> None:
    usual = PreparedTraining(
        plan_for(load(toy_folder), "medusa"),
        resource_needs.ResourceNeeds(2**30, 2**30, 0),
        max_lost_s=50.0,
        answers_per_prompt=1.0,
    )
    odd = replace(usual, max_lost_s=300.0, answers_per_prompt=12.4, left_out=3)
    said = announcement(odd)[len(announcement(usual)) :]
    assert said[0] == "prompts longer than 96 tokens are left out: 3"
    assert said[1].startswith("each prompt is answered about 12 times: more prompts would train")
    assert said[2].endswith("stopping loses up to 5 min of work")


@pytest.mark.slow
def test_a_terminal_gets_a_bar_for_each_stage(toy_folder: Path, tmp_path: Path) -> None:
    code, shown = run_on_terminal("fit", toy_folder, "--kind", "medusa", *SMALL, "--out", tmp_path / "drafter")
    assert code == 0 and all(name in shown for name in ("writing", "training", "judging", "steps", "left", "all"))


def test_time_left_is_what_was_expected_and_then_what_is_seen() -> None:
    clock = StageClock({"writing": 100.0, "training": 50.0})
    assert clock.left_s(TrainingProgress("writing", 0, 10, "tokens"), 0.0) == (100.0, 150.0)
    clock.left_s(TrainingProgress("writing", 2, 10, "tokens"), 60.0)
    assert clock.left_s(TrainingProgress("writing", 5, 10, "tokens"), 150.0) == (150.0, 200.0)
    assert clock.left_s(TrainingProgress("training", 10, 10, "steps"), 400.0) == (0.0, 0.0)
    assert clock.left_s(TrainingProgress("training", 12, 10, "steps"), 500.0) == (0.0, 0.0)
