"""Where the engine works: one pair at a time, loaded, exchanged and asked. MLX comes in with the first use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

from app.host.worker import NotLoaded
from app.protocol import AnyAnswer, Count, Counted, Load, Loading, Pair, Race, Reply, Unload, Unloaded, Verify
from engine.errors import BackendError, RedlineError

if TYPE_CHECKING:  # imports mlx and mlx-lm, which takes seconds
    from app.host.loaded_pair import LoadedPair


class ModelWorker:
    """A worker with a real model.

    Invariant: `_opened` is None, or a pair that can be asked. A Load that can be refused by looking at files leaves
    what was there; one that fails later leaves nothing, because two targets may not fit into memory.
    """

    def __init__(self) -> None:
        self._opened: LoadedPair | None = None

    @property
    def pair(self) -> Pair | None:
        return self._opened.pair if self._opened else None

    def prepare(self) -> None:
        try:
            _import()
        except BackendError as error:  # whoever wants to load something is told again
            print(f"redline: {error}", file=sys.stderr)

    def load(self, request: Load) -> Iterator[AnyAnswer]:
        pair = request.pair
        yield Loading(id=request.id, message=f"looking at {_target(pair.target)}")
        _import()
        from app.host import loaded_pair

        loaded_pair.check(pair, self._opened)
        fresh = self._opened is None or self._opened.pair.target != pair.target
        if fresh:
            yield Loading(id=request.id, message=f"loading {_target(pair.target)}")
            self._open_target(pair)
        there = self._there()
        if fresh or not there.has_drafter(pair):
            if pair.drafter != "none":
                yield Loading(id=request.id, message=f"loading the drafter{_drafter(pair.drafter)}")
            there.take_drafter(pair)
        there.take(pair)
        yield there.loaded(request.id)

    def reply(self, request: Reply, stop: Event) -> Iterator[AnyAnswer]:
        there = self._there()
        from app.host.reply_job import ReplyJob

        return ReplyJob(there, request, stop).answers()

    def verify(self, request: Verify, stop: Event) -> Iterator[AnyAnswer]:
        there = self._there()
        from app.host.verify_job import VerifyJob

        return VerifyJob(there, request, stop).answers()

    def race(self, request: Race, stop: Event) -> Iterator[AnyAnswer]:
        there = self._there()
        from app.host.race_job import RaceJob

        return RaceJob(there, request, stop).answers()

    def count(self, request: Count) -> Iterator[AnyAnswer]:
        there = self._there()
        yield Counted(id=request.id, tokens=there.count(request.messages), context=there.session.context)

    def unload(self, request: Unload) -> Iterator[AnyAnswer]:
        self._let_go()
        yield Unloaded(id=request.id)

    def recover(self) -> None:
        if self._opened is not None:
            self._opened.reset()

    def _open_target(self, pair: Pair) -> None:
        """Exchange the target. Raises RedlineError that says so if the old one is lost."""
        from app.host import loaded_pair

        lost = self._opened is not None
        self._let_go()
        try:
            self._opened = loaded_pair.open_target(pair)
        except RedlineError as error:
            if lost:
                error.args = (f"{error}; what was loaded before is gone: load it again",)
            raise

    def _let_go(self) -> None:
        """Of what is loaded, and give its memory back."""
        if self._opened is not None:
            from app.host import loaded_pair

            self._opened = None
            loaded_pair.release()

    def _there(self) -> LoadedPair:
        if self._opened is None:
            raise NotLoaded("no model is loaded: load one first")
        return self._opened


def _import() -> None:
    """Import MLX and what stands on it. Raises BackendError where that is impossible."""
    try:
        import app.host.loaded_pair
        import app.host.race_job
        import app.host.reply_job
        import app.host.verify_job  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:  # MLX raises the latter where there is no device
        reason = " ".join(str(error).split())
        raise BackendError(f"the engine cannot be loaded ({reason}): run `redline doctor`") from error


def _target(spec: str) -> str:
    """What to call it before it is known."""
    return "the built-in model" if spec == "builtin" else spec.rstrip("/").rpartition("/")[2] or spec


def _drafter(spec: str) -> str:
    return "" if spec == "auto" else f" {spec.rstrip('/').rpartition('/')[2] or spec}"
