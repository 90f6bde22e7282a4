"""A target split over several processes by mlx-lm's own sharding: tensor parallel (`Model.shard`) or a pipeline.

Every process, a rank, holds a part of every layer, or some of the layers, and a cache of its part of the keys and
values. Rank 0 alone knows of drafts, noise and text: it drives a `CachedModel` as ever, and its `Leader` has the other
ranks repeat each pass and what was done to the cache before it. They run `follow`.

    rank 0                                                   the others
    tell: rows, tree, what to evaluate, and the              hear it
      marks and rewinds since the pass before                do the same to their caches
    all_sum(token ids, lazy): never waited for               all_sum(zeros): the token ids
    the pass, its layers summed over all ranks               the same pass
    all_sum(ones): how many ranks were there                 all_sum(ones)

Invariant: every rank evaluates the same collectives in the same order, because MLX's ring is a stream of bytes without
names. So a pass that was announced is evaluated at once and as a whole, to the logits or, where nobody reads those, to
what it puts into the caches; a pass that could not be built was built nowhere.

A rank that is gone leaves a sum unfinished: mostly that waits for ever, but MLX may also go on with what it has, and
tell of it once, to whoever submits or waits next on a CPU stream; a GPU stream that waited for the sum computes with
those numbers (0.32.4). What a ring has lost it never gets back, so the sum of ones that ends a pass, with which each
round is waited for, vouches for all that came before it.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import mlx.core as mx

from engine.errors import BackendError, MachineLostError
from engine.target.cached_model import CachedModel
from engine.tree.draft_tree import DraftTree

SUMS = 50  # of a measurement
SUMS_A_LAYER = 2  # behind the attention and behind the MLP, as mlx-lm splits them
PIPELINE_SUMS = 1  # from rank to rank and back to all takes about as many hops as a sum does

REPEATED = ("mark", "rewind", "reset", "keep_path", "record_next", "forget", "switch")


Message = Mapping[str, Any]  # what JSON can say


class _Recorded:
    """Stands in for the leader's cache, recurrence or rotation: notes the calls that the other ranks must repeat."""

    def __init__(self, part: str, inner: Any, calls: list[list[Any]]) -> None:
        self._part, self._inner, self._calls = part, inner, calls

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if name in ("snapshot", "restore"):
            raise BackendError("a target on several machines keeps no conversation but the latest")
        return self._noting(name, found) if name in REPEATED else found

    def _noting(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **named: Any) -> Any:
            self._calls.append([self._part, name, args, named])
            return call(*args, **named)

        return noted


class Leader:
    """Rank 0's side: from here on, has the other ranks of `group` repeat the passes of `target`.

    tell: sends a message to every other rank; raises BackendError once one is gone. ranks: their names. passes:
    announced so far.
    """

    def __init__(
        self, target: CachedModel, group: mx.distributed.Group, tell: Callable[[Message], None], ranks: str = ""
    ) -> None:
        self._group, self._tell, self.ranks = group, tell, ranks
        self._calls: list[list[Any]] = []
        self._interrupted = False
        self.passes = 0
        target.cache = cast(Any, _Recorded("cache", target.cache, self._calls))
        target._recurrence = cast(Any, _Recorded("_recurrence", target._recurrence, self._calls))
        target.rotation = cast(Any, _Recorded("rotation", target.rotation, self._calls))
        target.leader = self

    def announce(self, tokens: mx.array, tree: DraftTree | None, logits: bool) -> None:
        """Has the other ranks build and evaluate the pass over `tokens` (n,), as far as its logits or its caches."""
        if self._interrupted:
            raise BackendError("a pass was interrupted while other machines worked on it: load the model again")
        shape = {"nodes": tree.size, "depth": tree.depth, "breadth": tree.breadth} if tree is not None else {}
        self.passes += 1
        self._tell({"rows": tokens.size, "logits": logits, "before": [*self._calls], **shape})
        self._calls.clear()
        numbers = tokens.astype(mx.int32)
        if tree is not None:
            numbers = mx.concatenate([numbers, tree.parents.astype(mx.int32)])
        mx.async_eval(mx.distributed.all_sum(numbers, group=self._group))

    def submit(self, outputs: Sequence[mx.array]) -> mx.array:
        """Has the pass announced last evaluated, as far as its `outputs`. Returns how many ranks are missing from it,
        (ranks,) int32, lazy."""
        absent = _absent(self._group, outputs)
        mx.async_eval([*outputs, absent])
        return absent

    def cancel(self, error: BaseException) -> None:
        """Tells the other ranks that the pass announced last could not be built here. What interrupts this process
        alone, such as Ctrl-C, leaves them in the midst of that pass: no other can follow."""
        if isinstance(error, Exception):
            self._tell({"failed": True})
        else:
            self._interrupted = True


def is_pass(message: Message) -> bool:
    """Returns whether a message is for `follow`."""
    return "rows" in message or "failed" in message


def follow(model: CachedModel, group: mx.distributed.Group, messages: Iterable[Message]) -> None:
    """Repeats what rank 0 announces, until there are no more messages. Raises what a pass raises that rank 0 built."""
    failure: Exception | None = None
    for message in messages:
        if "failed" not in message:
            if failure is not None:
                raise failure
            failure = _repeat(model, group, message)
        elif failure is None:
            raise BackendError("rank 0 could not build a pass that was built here: load the model again")
        else:
            failure = None


def _repeat(model: CachedModel, group: mx.distributed.Group, message: Message) -> Exception | None:
    """Repeats one pass; returns why it could not be built."""
    for part, name, args, named in message["before"]:
        getattr(getattr(model, part), name)(*args, **named)
    rows, nodes = message["rows"], message.get("nodes", 0)
    numbers = mx.distributed.all_sum(mx.zeros(rows + nodes, mx.int32), group=group)
    mx.async_eval(numbers)  # first, as on rank 0: in a pipeline what a rank receives does not depend on it
    tree = DraftTree(numbers[rows:], message["depth"], message["breadth"]) if nodes else None
    try:
        logits = model.forward(numbers[:rows], tree)
    except Exception as error:  # noqa: BLE001  broad: a hundred models' code; rank 0 says whether it failed there too
        mx.eval(numbers)
        return error
    outputs = [logits] if message["logits"] else model.cache.arrays()
    mx.eval(outputs, numbers, _absent(group, outputs))
    return None


def _absent(group: mx.distributed.Group, outputs: Sequence[mx.array]) -> mx.array:
    """Returns how many ranks are missing, (ranks,) int32: none, if all have come so far as to have `outputs`. As many
    numbers as ranks, as MLX sums fewer over other sockets than the layers."""
    (ones,) = mx.depends([mx.ones(group.size(), mx.int32)], list(outputs))
    return group.size() - mx.distributed.all_sum(ones, group=group)


def check_present(absent: mx.array | None) -> None:
    """Waits for the pass whose missing ranks `absent` counts, None for one of a model that is whole. Raises
    MachineLostError where one was missing: what the pass computed is then of no use."""
    if absent is not None and any(absent.tolist()):  # type: ignore[arg-type]
        raise MachineLostError


def trip_s(group: mx.distributed.Group, rows: int, width: int, sums: int = SUMS) -> float:
    """Returns the seconds that a sum over all ranks takes, of (rows, width) float16, as a layer waits for it twice.
    Every rank must call it."""
    ones = mx.ones((rows, width), mx.float16)
    for _ in range(2):  # the first time warms up
        began_s = time.monotonic()
        for _ in range(sums):
            mx.eval(mx.distributed.all_sum(ones, group=group))
    return (time.monotonic() - began_s) / sums
