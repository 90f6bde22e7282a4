"""Checks the replies of exported conversations one after the other, as the host does."""

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from app.inference.loaded_pair import LoadedPair, open_target, release_memory
from app.inference.options import Options
from app.inference.verification import verify
from app.protocol import Pair, VerifyDone, VerifyProgress
from app.receipts.exported_replies import Case, Result
from app.store.records import StoredReceipt
from engine.errors import ModelError, RedlineError, UsageError
from models.package_versions import version_of
from models.paths import BUILTIN

Step = Callable[[int, str], None]


class TargetCache:
    """Holds the target of the latest case, or why it cannot be loaded. target: replaces those that the files name.
    cache_root: as in `Options`."""

    def __init__(self, target: str | None, cache_root: Path | None = None) -> None:
        self._target, self._cache_root = target, cache_root
        self._wanted: Pair | None = None
        self._found: LoadedPair | RedlineError | None = None

    def load(self, pair: Pair) -> LoadedPair:
        """Returns the target of a pair, loaded unless it was that of the case before. Raises RedlineError."""
        wanted = Pair(target=self._target or pair.target, drafter="none", context=pair.context)
        if wanted != self._wanted:
            self._wanted, self._found = wanted, None
            release_memory()
            try:
                options = Options(wanted.target, ("none",), context=wanted.context, cache_root=self._cache_root)
                self._found = open_target(options)
            except (UsageError, ModelError) as error:
                self._found = _not_here(wanted, error)
        if isinstance(self._found, LoadedPair):
            return self._found
        raise self._found or ModelError(f"{wanted.target} is not loaded: try again")


def results_of(
    cases: Sequence[Case], targets: TargetCache, step: Step, stopped: Callable[[], bool]
) -> Iterator[Result]:
    """Yields the result of each case in order; fewer if `stopped`. step: receives how many tokens of all cases are
    checked, and the name of the case."""
    done = 0
    several = len({case.export.path for case in cases}) > 1
    for case in cases:
        name = f"{case.export.path.name}, message {case.number}" if several else f"message {case.number}"
        step(done, name)
        result = None if stopped() else _result(case, targets, _after(step, done, name), stopped)
        if result is None:
            return
        yield result
        done += case.tokens


def _after(step: Step, done: int, name: str) -> Callable[[int], None]:
    """Returns `step` for the tokens of one case, after `done` tokens of others."""
    return lambda tokens: step(done + tokens, name)


def _result(
    case: Case, targets: TargetCache, step: Callable[[int], None], stopped: Callable[[], bool]
) -> Result | None:
    """Returns the result of a case, or None if it was stopped."""
    if case.obstacle:
        return Result(case, error=case.obstacle)
    try:
        for answer in verify(targets.load(case.pair), case.request(), stopped):
            if isinstance(answer, VerifyProgress):
                step(answer.done)
            elif isinstance(answer, VerifyDone):
                return Result(case, _stored(answer))
    except RedlineError as error:
        return Result(case, error=" ".join(str(error).split()))
    return None


def _stored(answer: VerifyDone) -> StoredReceipt:
    return StoredReceipt(
        receipt=answer.receipt, made_s=time.time(), redline=version_of("redline"), reference=answer.reference
    )


def _not_here(pair: Pair, error: RedlineError) -> RedlineError:
    """Returns an error that names what the file names, and what can be done about it."""
    if pair.target == BUILTIN:
        return error
    return ModelError(
        f"the model of this reply, {pair.target}, cannot be loaded here ({error}): name its folder with --target"
    )
