"""A fit that is killed at any moment goes on, and ends with the same files, byte for byte."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models.training.training_plan import TrainingKind
from tests.models.training.training_plans import contents
from tests.toys.folders import make_folder

ROOT = Path(__file__).parents[3]

# Runs or resumes the fit at argv[2] of the target at argv[1]; dies of SIGKILL at the moment argv[4], if given.
# Moments are its events and its operations on files; how many there were is printed at the end.
FITTER = """
import os, signal, sys
from pathlib import Path
from models.training import trainer
from models.training.pipeline import TrainingPipeline
from models.training.training_plan import write_plan
from models.training.workspace import Workspace
from models.loader import load
from tests.models.training.training_plans import CHEAP, plan_for
target, out = load(Path(sys.argv[1])), Path(sys.argv[2])
watched = {"open", "os.mkdir", "os.rename", "os.rmdir", "os.remove", "shutil.rmtree"}
last, moment = int(sys.argv[4]) if len(sys.argv) > 4 else -1, 0
def count():
    global moment
    moment += 1
    if moment == last:
        os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(lambda event, details: event in watched and f".{out.name}." in str(details) and count())
trainer.CHECKPOINT_S = 0.0  # so that kills meet checkpoints
place = Workspace(out)
with place.locked():
    if not place.started:
        place.begin()
        write_plan(place.plan_file, plan_for(target, sys.argv[3], tokens=500))
    for event in TrainingPipeline(target, place, place.read_plan(), [], lambda folder: CHEAP).run():
        count()
    print(moment)
"""


def run(target: Path, out: Path, kind: TrainingKind, *last: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", FITTER, str(target), str(out), kind, *map(str, last)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "shares"),
    [("eagle3", (0.2, 0.4, 0.1, 0.07)), *((kind, (0.2, 0.4)) for kind in ("medusa", "draft", "mtp", "dflash"))],
    ids=["eagle3", "medusa", "draft", "mtp", "dflash"],
)
def test_a_killed_fit_ends_with_the_same_files(tmp_path: Path, kind: TrainingKind, shares: tuple[float, ...]) -> None:
    """Shares: after how much of a whole fit each run is killed. What a fit keeps is one for all kinds; what a trainee
    adds to it is its own."""
    target = make_folder(tmp_path / "target")
    whole = run(target, tmp_path / "whole", kind)
    assert whole.returncode == 0, whole.stderr
    for share in shares:
        done = run(target, tmp_path / "killed", kind, max(20, int(share * int(whole.stdout))))
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert not (tmp_path / "killed").exists()
    done = run(target, tmp_path / "killed", kind)
    assert done.returncode == 0, done.stderr
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")
    hidden = [path for path in tmp_path.iterdir() if path.name.startswith(".") and not path.name.endswith(".lock")]
    assert not hidden
