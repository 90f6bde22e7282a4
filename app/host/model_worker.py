"""The worker with a real model: loads one pair at a time and replies with it. Imports MLX with the first use."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from threading import Event
from typing import TYPE_CHECKING

from app.host.worker import NotLoaded
from app.protocol import AnyAnswer, Count, Counted, Load, Loading, Pair, Race, Reply, Unload, Unloaded, Verify
from engine.errors import BackendError, RedlineError

if TYPE_CHECKING:  # imports mlx and mlx-lm, which takes seconds
    from app.host.hosted_pair import HostedPair


class ModelWorker:
    """A worker with a real model.

    Invariant: `_hosted` is None, or a pair that can reply. A Load that can be refused by looking at files leaves
    what was there; one that fails later leaves nothing, because two targets may not fit into memory.
    """

    def __init__(self) -> None:
        self._hosted: HostedPair | None = None

    @property
    def pair(self) -> Pair | None:
        return self._hosted.request if self._hosted else None

    def prepare(self) -> None:
        try:
            _import()
        except BackendError as error:  # a later Load reports it again
            print(f"redline: {error}", file=sys.stderr)

    def load(self, request: Load) -> Iterator[AnyAnswer]:
        pair = request.pair
        yield Loading(id=request.id, message=f"looking at {_target(pair.target)}")
        _import()
        from app.host import hosted_pair

        hosted_pair.check(pair, self._hosted)
        fresh = self._hosted is None or self._hosted.request.target != pair.target
        if fresh:
            yield Loading(id=request.id, message=f"loading {_target(pair.target)}")
            self._open_target(pair)
        hosted = self._loaded()
        if fresh or not hosted.fits_drafter(pair):
            if pair.drafter != "none":
                yield Loading(id=request.id, message=f"loading the drafter{_drafter(pair.drafter)}")
            hosted.load_drafter(pair)
        hosted.serve(pair)
        yield hosted.answer(request.id)

    def reply(self, request: Reply, stop: Event) -> Iterator[AnyAnswer]:
        hosted = self._loaded()
        from app.host.reply_job import ReplyJob

        return ReplyJob(hosted, request, stop).answers()

    def verify(self, request: Verify, stop: Event) -> Iterator[AnyAnswer]:
        hosted = self._loaded()
        from app.host.verify_job import VerifyJob

        return VerifyJob(hosted, request, stop).answers()

    def race(self, request: Race, stop: Event) -> Iterator[AnyAnswer]:
        hosted = self._loaded()
        from app.host.race_job import RaceJob

        return RaceJob(hosted, request, stop).answers()

    def count(self, request: Count) -> Iterator[AnyAnswer]:
        hosted = self._loaded()
        tokens = len(hosted.prompt_ids(request.messages))
        yield Counted(id=request.id, tokens=tokens, context=hosted.pair.session.context)

    def unload(self, request: Unload) -> Iterator[AnyAnswer]:
        self._unload()
        yield Unloaded(id=request.id)

    def recover(self) -> None:
        if self._hosted is not None:
            self._hosted.pair.reset()

    def _open_target(self, pair: Pair) -> None:
        """Exchange the target. Raises RedlineError that says so if the old one is lost."""
        from app.host import hosted_pair

        lost = self._hosted is not None
        self._unload()
        try:
            self._hosted = hosted_pair.open_target(pair)
        except RedlineError as error:
            if lost:
                error.args = (f"{error}; what was loaded before is gone: load it again",)
            raise

    def _unload(self) -> None:
        """Of what is loaded, and give its memory back."""
        if self._hosted is not None:
            from app.inference.loaded_pair import release_models

            self._hosted = None
            release_models()

    def _loaded(self) -> HostedPair:
        if self._hosted is None:
            raise NotLoaded("no model is loaded: load one first")
        return self._hosted


def _import() -> None:
    """Import MLX and what stands on it. Raises BackendError where that is impossible."""
    try:
        import app.host.hosted_pair
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
