"""The folder of an unfinished fit, which is published by a rename when it is complete.

    .NAME.fit/          next to OUT = .../NAME, hidden
      plan.json         written first; without it nothing can be resumed
      prompts.json      the user's prompts, if any
      corpus/           conversations, one file per shard
      states/           hidden states of the target, one file per shard, if they are stored
      training/         the newest checkpoint
      drafter/          the new drafter, renamed to OUT at the end

Files are renamed into place too, so every file that exists is complete, and a missing one is made again. A lock next
to the folder, released even if its process is killed, admits one process at a time.
"""

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.errors import FitError
from models.durable_files import locked, read_json_object, sync_folder
from models.training.training_plan import TrainingPlan, read_plan

MANIFEST = "redline-fit.json"


class Workspace:
    """The folder of one fit, whose drafter will be published as `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(f".{out.name}.fit")
        self.plan_file = self.path / "plan.json"
        self.prompts_file = self.path / "prompts.json"
        self.corpus, self.states = self.path / "corpus", self.path / "states"
        self.training, self.drafter = self.path / "training", self.path / "drafter"

    @property
    def started(self) -> bool:
        """Whether there is an unfinished fit with a plan."""
        return self.plan_file.is_file()

    @property
    def finished(self) -> bool:
        """Whether `out` holds a drafter that a fit made."""
        return (self.out / MANIFEST).is_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the folder by a file beside it, gone afterwards. Raises FitError if another process holds the lock."""
        busy = FitError(f"another process is fitting {self.out} already: wait for it, end it, or give another --out")
        file = self.out.with_name(f".{self.out.name}.fit.lock")
        with locked(file, 0, busy):
            try:
                yield
            finally:
                file.unlink(missing_ok=True)  # while it is held: who locks a file that is gone by then notices

    def begin(self) -> None:
        """Creates empty folders for a new fit and deletes the remains of one that never had a plan."""
        if self.path.exists():
            shutil.rmtree(self.path)
        for folder in (self.path, self.corpus, self.states, self.training):
            folder.mkdir()

    @property
    def is_result_of_plan(self) -> bool:
        """Whether the drafter at `out` was made by the plan here, if there is one. Raises FitError, ModelError."""
        if not self.finished or not self.started:
            return self.finished
        plan, about = self.read_plan(), read_json_object(self.out / MANIFEST)
        mine = {"target_fingerprint": plan.fingerprint, "kind": plan.kind, "seed": plan.seed, "steps": plan.steps}
        return about.items() >= mine.items()

    def read_plan(self) -> TrainingPlan:
        return read_plan(self.plan_file)

    def publish(self) -> None:
        """Renames the finished drafter to `out`, unless that was done already, and deletes the rest. Raises FitError if
        something else exists at `out`."""
        if not self.finished:
            for made in (*self.drafter.iterdir(), self.drafter):
                sync_folder(made)
            try:
                self.drafter.rename(self.out)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                raise FitError(
                    f"{self.out} was created in the meantime: move it, then continue with --resume"
                ) from error
            sync_folder(self.out.parent)
        shutil.rmtree(self.path, ignore_errors=True)

    def report(self) -> dict[str, object]:
        """Returns the report of the finished fit."""
        return read_json_object(self.out / "report.json")


def fit_stopped(out: Path, reason: str) -> FitError:
    """Returns the error for a fit whose disk refused to go on."""
    to_do = "free disk space or allow writing there, then continue with --resume; or start again with another --out"
    return FitError(f"{out}: the fit stopped ({reason}); {to_do}")
