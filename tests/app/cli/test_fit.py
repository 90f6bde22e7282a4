"""The fit command: what it says, what it refuses, and how it is gone on with. Toy targets."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli.fit import KINDS, announcement
from app.cli.main import main
from app.cli.terminal.progress import StageClock
from models import durable_files
from models.loader import load
from models.training import resource_needs, training_plan
from models.training.pipeline import STAGES, TrainingProgress
from models.training.plan_measurement import PreparedTraining
from models.training.training_plan import write_plan
from models.training.workspace import Workspace
from tests.models.training.training_plans import plan_for
from tests.toys.folders import make_folder

SMALL = ["--conversations", "16", "--steps", "4", "--reply-tokens", "16"]


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """The exit code and the last line on standard error."""
    code = main(["fit", *words])
    out, err = capsys.readouterr()
    assert out == ""
    return code, err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "magic"], "invalid choice: 'magic'"),
        (["--minutes", "0"], "minutes is 0.0"),
        (["--minutes", "soon"], "invalid float value: 'soon'"),
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
def test_nonsense_is_a_usage_error(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    toy_folder: Path,
    tmp_path: Path,
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    code, err = refused(capsys, str(toy_folder), *words)
    assert code == 2 and said in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [[], ["--kind", "medusa"], ["--minutes", "5"], ["--json"]])
def test_a_fit_that_nobody_asked_for_says_what_it_would_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    monkeypatch.setattr("app.cli.fit._train", lambda *_: pytest.fail("it begins"))
    code, err = refused(capsys, *words)
    assert code == 2 and "for the built-in model, for about" in err and "`redline fit builtin` or --yes" in err
    assert ("medusa" in err, "5 minutes" in err) == ("medusa" in words, "5" in words)
    assert not list(tmp_path.iterdir())


def test_a_terminal_is_asked_and_no_is_no(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trained: list[str] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.cli.fit._train", lambda args, *_: trained.append(args.target))
    monkeypatch.setattr("app.cli.fit._report", lambda *_: 0)
    for answer, code, fits in (("", 1, 0), ("n", 1, 0), ("Y", 0, 1)):
        stdin = io.StringIO(f"{answer}\n")
        monkeypatch.setattr(stdin, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", stdin)
        assert (main(["fit"]), len(trained)) == (code, fits)
        assert "for about 60 minutes" in capsys.readouterr().err
    assert main(["fit", "--yes"]) == main(["fit", "builtin"]) == 0
    assert trained == ["builtin"] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_fit_that_is_terminated_leaves_no_lock(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: signal.Signals
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("app.cli.fit._train", lambda *_: signal.raise_signal(number))
    assert main(["fit", "builtin"]) == 130
    assert not list(tmp_path.iterdir())


def test_kinds_are_those_that_can_be_made() -> None:
    assert KINDS == training_plan.KINDS


@pytest.mark.slow
def test_a_fit_says_what_it_takes_and_what_came_of_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, toy_folder: Path, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["fit", str(toy_folder), "--kind", "medusa", *SMALL]) == 0
    told = capsys.readouterr()
    assert "16 conversations, 4 steps of training" in told.err
    assert re.search(r"takes about .*judging .*\); Ctrl-C stops it, --resume continues", told.err)
    assert re.search(r"needs at most [\d.]+ [MG]B of memory and [\d.]+ [MG]B of disk", told.err)
    assert all(f"redline: {stage} " in told.err for stage in STAGES)
    assert told.out.startswith(("worth using", "not worth using"))
    assert "the drafter is in target-medusa" in told.out
    assert main(["chat", "--target", str(toy_folder), "--drafter", "target-medusa", "--prompt", "hi"]) == 0
    capsys.readouterr()

    code, err = refused(capsys, str(toy_folder), "--kind", "medusa", *SMALL)
    assert code == 2 and "target-medusa exists: move it away" in err
    assert main(["fit", str(toy_folder), "--kind", "medusa", "--resume", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "medusa"
    assert max(map(int, report["pass_s"])) == len(report["tau_by_tree_size"]) > 1  # as wide as its trees


def test_a_folder_named_by_a_dot_has_a_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, toy_folder: Path
) -> None:
    monkeypatch.chdir(toy_folder)
    monkeypatch.setattr(durable_files, "free_disk_bytes", lambda folder: 1000)
    assert main(["fit", ".", "--kind", "medusa", *SMALL]) == 1
    assert f"fitting a drafter of kind medusa for {toy_folder.name}: " in capsys.readouterr().err


@pytest.mark.slow
def test_a_finished_drafter_does_not_end_another_fit_beside_it(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, tmp_path: Path
) -> None:
    place = Workspace(tmp_path / "drafter")
    assert main(["fit", str(toy_folder), "--kind", "medusa", *SMALL, "--out", str(place.out)]) == 0
    place.begin()
    write_plan(place.plan_file, plan_for(load(toy_folder), "medusa"))
    capsys.readouterr()
    code, err = refused(capsys, str(toy_folder), "--out", str(place.out), "--resume")
    assert code == 2 and "is the result of another fit" in err and place.started


@pytest.mark.slow
def test_an_unfinished_fit_is_gone_on_with_only_by_resume(
    capsys: pytest.CaptureFixture[str], toy_folder: Path, tmp_path: Path
) -> None:
    out, other = tmp_path / "drafter", make_folder(tmp_path / "other", words=300)
    words = ["--kind", "medusa", "--out", str(out)]
    much = ["--conversations", "400", "--steps", "40"]  # or a quick machine is done before it is stopped
    command = [sys.executable, "-m", "app", "fit", str(toy_folder), *words, *SMALL, *much]

    def heeds_ctrl_c() -> None:  # what a shell starts in the background, these tests too, inherits deafness to it
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heeds_ctrl_c) as child:
        assert child.stderr is not None
        for line in child.stderr:
            if "writing" in line and "takes" not in line:
                child.send_signal(signal.SIGINT)
                break
        rest = child.stderr.read()
    assert child.returncode == 130 and f"redline fit {toy_folder} --out {out} --resume" in rest
    assert "Traceback" not in rest

    assert "there is an unfinished fit; continue with --resume" in refused(capsys, str(toy_folder), *words)[1]
    again = [*words, "--resume"]
    assert "is for another target, target" in refused(capsys, str(other), *again)[1]
    assert "is of kind medusa" in refused(capsys, str(toy_folder), *again[2:], "--kind", "draft")[1]
    code, err = refused(capsys, str(toy_folder), *again, "--minutes", "3")
    assert code == 2 and "minutes was fixed when the fit began" in err
    assert main(["fit", str(toy_folder), *again]) == 0
    assert "resuming a drafter of kind medusa" in capsys.readouterr().err
    assert Workspace(out).finished and not Workspace(out).started


@pytest.mark.parametrize(
    ("patched", "found", "said"),
    [
        ("models.durable_files.free_disk_bytes", 1000, "of disk space, but only 0 MB is free"),
        ("app.inference.machine.memory", (2**27, 2**26), "of memory, but this machine has only 128 MB"),
    ],
)
def test_a_machine_that_is_too_small_is_a_failure(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    toy_folder: Path,
    tmp_path: Path,
    patched: str,
    found: object,
    said: str,
) -> None:
    monkeypatch.setattr(patched, lambda *_: found)
    code, err = refused(capsys, str(toy_folder), *SMALL, "--kind", "medusa", "--out", str(tmp_path / "drafter"))
    assert code == 1 and said in err
    assert not Workspace(tmp_path / "drafter").started


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
    ours, theirs = os.openpty()
    words = ["fit", str(toy_folder), "--kind", "medusa", *SMALL, "--out", str(tmp_path / "drafter")]
    surroundings = os.environ | {"TERM": "xterm-256color", "COLUMNS": "120"}
    child = subprocess.Popen(
        [sys.executable, "-m", "app", *words], stdout=subprocess.DEVNULL, stderr=theirs, env=surroundings
    )
    os.close(theirs)
    shown = b""
    try:
        while piece := os.read(ours, 1 << 16):
            shown += piece
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert child.wait() == 0
    assert all(name.encode() in shown for name in ("writing", "training", "judging", "steps", "left", "all"))


def test_time_left_is_what_was_expected_and_then_what_is_seen() -> None:
    clock = StageClock({"writing": 100.0, "training": 50.0})
    assert clock.left_s(TrainingProgress("writing", 0, 10, "tokens"), 0.0) == (100.0, 150.0)
    clock.left_s(TrainingProgress("writing", 2, 10, "tokens"), 60.0)
    assert clock.left_s(TrainingProgress("writing", 5, 10, "tokens"), 150.0) == (150.0, 200.0)
    assert clock.left_s(TrainingProgress("training", 10, 10, "steps"), 400.0) == (0.0, 0.0)
    assert clock.left_s(TrainingProgress("training", 12, 10, "steps"), 500.0) == (0.0, 0.0)
