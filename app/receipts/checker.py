"""Checks cases one after the other, each target loaded once for those that stand together. As the host does it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from threading import Event

from app.host.verify_job import verify
from app.inference.loaded_pair import LoadedPair, open_target, release_memory
from app.inference.options import BUILTIN, Options
from app.protocol import Pair, VerifyDone, VerifyProgress
from app.receipts.exported_replies import Case, Result
from app.store.records import StoredReceipt
from engine.errors import ModelError, RedlineError, UsageError

Step = Callable[[Case, int], None]


class TargetCache:
    """Holds the target of the latest case. target: takes the place of those that the files name."""

    def __init__(self, target: str | None) -> None:
        self._target = target
        self._opened: LoadedPair | None = None
        self._wanted: Pair | None = None
        self._trouble: RedlineError | None = None

    def opened(self, pair: Pair) -> LoadedPair:
        """Raises RedlineError: it is not here, the second time without looking."""
        wanted = Pair(target=self._target or pair.target, drafter="none", context=pair.context)
        if wanted != self._wanted:
            self._wanted, self._opened, self._trouble = wanted, None, None
            release_memory()
            try:
                self._opened = open_target(Options(wanted.target, ("none",), context=wanted.context))
            except (UsageError, ModelError) as error:
                self._trouble = _not_here(wanted, error)
        if self._opened is None:
            raise self._trouble or ModelError(f"{wanted.target} is not loaded: try again")
        return self._opened


def results_of(cases: Sequence[Case], target: str | None, step: Step, stopped: Callable[[], bool]) -> Iterator[Result]:
    """Yields the result of each case in order; fewer if `stopped`. step(case, tokens) receives the progress."""
    bench = TargetCache(target)
    for case in cases:
        result = _result(case, bench, step, stopped)
        if result is None:
            return
        yield result


def _result(case: Case, bench: TargetCache, step: Step, stopped: Callable[[], bool]) -> Result | None:
    """None where it was stopped."""
    step(case, 0)
    if stopped():
        return None
    if case.unknown:
        return Result(case, error=case.unknown)
    stop = Event()
    try:
        for answer in verify(bench.opened(case.pair), case.request(), stop):
            if isinstance(answer, VerifyProgress):
                step(case, answer.done)
            elif isinstance(answer, VerifyDone):
                return Result(
                    case, StoredReceipt(receipt=answer.receipt, made_s=time.time(), redline=version("redline"))
                )
            if stopped():
                stop.set()
    except RedlineError as error:
        return Result(case, error=" ".join(str(error).split()))
    return None


def _not_here(pair: Pair, error: RedlineError) -> RedlineError:
    """What the file names, and what can be done about it."""
    if pair.target == BUILTIN:
        return error
    return ModelError(
        f"the model of this reply, {pair.target}, cannot be loaded here ({error}): name its folder with --target"
    )
