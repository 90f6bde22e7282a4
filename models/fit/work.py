"""Where an unfinished fit lies, and how the finished one appears: by a rename, whole or not at all.

    .NAME.fit/          beside OUT = .../NAME, hidden while it is worked on
      plan.json         written first; without it there is nothing to resume
      prompts.json      the user's prompts, if there are any
      corpus/           conversations, a file a shard
      states/           hidden states of the target over them, a file a shard, where they are stored
      training/         the newest checkpoint
      drafter/          the folder in the making, renamed to OUT at the end

Every file appears by a rename too, so what is there is whole, and what is not there is made again. One process works
at a time: a lock beside the folder, which a killed process leaves free.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from engine.errors import FitError
from models.disk import read_json_object, sync_folder
from models.fit.plan import Plan, read_plan

MANIFEST = "redline-fit.json"


class Workplace:
    """The folder of one fit, for the drafter that will be `out`."""

    def __init__(self, out: Path) -> None:
        self.out = out
        self.path = out.with_name(f".{out.name}.fit")
        self.plan_file = self.path / "plan.json"
        self.prompts_file = self.path / "prompts.json"
        self.corpus, self.states = self.path / "corpus", self.path / "states"
        self.training, self.drafter = self.path / "training", self.path / "drafter"

    @property
    def begun(self) -> bool:
        return self.plan_file.is_file()

    @property
    def finished(self) -> bool:
        """Whether `out` holds a drafter that a fit made."""
        return (self.out / MANIFEST).is_file()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody else works here. Raises FitError when someone does."""
        self.out.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.out.with_name(f".{self.out.name}.fit.lock"), timeout=0)
        try:
            lock.acquire()
        except Timeout as error:
            what = f"another process is fitting {self.out} already"
            raise FitError(f"{what}: wait for it, end it, or give another --out") from error
        try:
            yield
        finally:
            lock.release()

    def begin(self) -> None:
        """An empty place for a new fit; what a fit left that never had a plan goes."""
        if self.path.exists():
            shutil.rmtree(self.path)
        for folder in (self.path, self.corpus, self.states, self.training):
            folder.mkdir()

    @property
    def made_this(self) -> bool:
        """Whether the drafter at `out` is what came of the work here, if any is left. Raises FitError, ModelError."""
        if not self.finished or not self.begun:
            return self.finished
        plan, about = self.read_plan(), read_json_object(self.out / MANIFEST)
        mine = {"target_fingerprint": plan.fingerprint, "kind": plan.kind, "seed": plan.seed, "steps": plan.steps}
        return about.items() >= mine.items()

    def read_plan(self) -> Plan:
        return read_plan(self.plan_file)

    def publish(self) -> None:
        """Show the finished folder as `out`, unless it is there already, and clear the work away. Raises FitError:
        something else is there."""
        if not self.finished:
            for made in (*self.drafter.iterdir(), self.drafter):
                sync_folder(made)
            try:
                self.drafter.rename(self.out)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
                raise FitError(f"{self.out} is there meanwhile: move it away, then go on with --resume") from error
            sync_folder(self.out.parent)
        shutil.rmtree(self.path, ignore_errors=True)

    def report(self) -> dict[str, object]:
        """The report of the finished fit."""
        return read_json_object(self.out / "report.json")


def write_whole(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` make a file under another name, then give it its own: it is there whole or not at all.

    The other name keeps the ending, which numpy and MLX go by.
    """
    draft = path.with_name(f".partial-{path.name}")
    write(draft)
    descriptor = os.open(draft, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    draft.replace(path)
    sync_folder(path.parent)


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """What the disk refuses, as a FitError."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        to_do = "free disk space or allow writing there, then go on with --resume; or begin anew with another --out"
        raise FitError(f"{place}: the fit stopped ({reason}); {to_do}") from error
