"""A fit that is killed at any moment goes on, and ends with the same files, byte for byte."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from models.training.training_plan import TrainingKind
from tests.models.training.training_plans import contents
from tests.toys.folders import make_folder

ROOT = Path(__file__).parents[3]

# Runs or resumes the fit at argv[2] of the target at argv[1]; dies of SIGKILL at the nth event, argv[4], if given.
FITTER = """
import os, signal, sys
from pathlib import Path
from models.training import trainer
from models.training.pipeline import TrainingPipeline
from models.training.training_plan import write_plan
from models.training.workspace import Workspace
from models.loader import load
from tests.models.training.training_plans import CHEAP, plan_for
target, place = load(Path(sys.argv[1])), Workspace(Path(sys.argv[2]))
trainer.CHECKPOINT_S = 0.0  # so that kills meet checkpoints
with place.locked():
    if not place.started:
        place.begin()
        write_plan(place.plan_file, plan_for(target, sys.argv[3], tokens=500))
    last = int(sys.argv[4]) if len(sys.argv) > 4 else -1
    for number, event in enumerate(TrainingPipeline(target, place, place.read_plan(), [], lambda folder: CHEAP).run()):
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)
    print(number)
"""


def run(target: Path, out: Path, kind: TrainingKind, *last: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FITTER, str(target), str(out), kind, *map(str, last)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=400)


def killed_and_resumed(base: Path, kind: TrainingKind, moments: tuple[float, ...]) -> None:
    """moments: when to kill, each as a share of the events of a fit that nobody stops."""
    target = make_folder(base / "target")
    whole = run(target, base / "whole", kind)
    assert whole.returncode == 0, whole.stderr
    events = int(whole.stdout)
    for moment in moments:
        done = run(target, base / "killed", kind, int(moment * events))
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (base / "killed").exists()
    done = run(target, base / "killed", kind)
    assert done.returncode == 0, done.stderr
    assert contents(base / "killed") == contents(base / "whole")
    hidden = [path.name for path in base.iterdir() if path.name.startswith(".") and not path.name.endswith(".lock")]
    assert not hidden


@pytest.mark.slow
def test_a_killed_fit_ends_with_the_same_files(tmp_path: Path) -> None:
    killed_and_resumed(tmp_path, "eagle3", (0.3, 0.5))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["medusa", "draft", "mtp", "dflash"])
def test_every_kind_of_killed_fit_ends_with_the_same_files(tmp_path: Path, kind: TrainingKind) -> None:
    killed_and_resumed(tmp_path, kind, (0.2, 0.4, 0.1))


@pytest.mark.slow
def test_a_fit_of_a_minute_survives_three_kills_at_random_moments(tmp_path: Path) -> None:
    """The command itself, killed by the clock: wherever it is then."""
    target = make_folder(tmp_path / "target")
    words = ["fit", str(target), "--kind", "eagle3", "--reply-tokens", "48", "--json"]
    first = [*words, "--minutes", "1", "--out", str(tmp_path / "killed")]
    chance = random.Random(time.time_ns())
    killed = 0
    for kill in range(3):
        resume = [*words[:2], "--out", str(tmp_path / "killed"), "--resume"] if kill else first
        command = [sys.executable, "-m", "app", *resume]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
            plan = tmp_path / ".killed.fit" / "plan.json"
            while not plan.exists() and child.poll() is None:
                time.sleep(0.1)
            time.sleep(chance.uniform(1, 8))
            killed += child.poll() is None
            child.send_signal(signal.SIGKILL)
        if kill == 0:  # the same plan, never stopped
            copy = tmp_path / ".whole.fit"
            for folder in ("corpus", "states", "training"):
                (copy / folder).mkdir(parents=True)
            (copy / "plan.json").write_bytes(plan.read_bytes())
            (copy / "prompts.json").write_bytes((plan.parent / "prompts.json").read_bytes())
    assert killed == 3
    for name in ("killed", "whole"):
        command = [sys.executable, "-m", "app", *words[:2], "--out", str(tmp_path / name), "--resume"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=os.environ)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
