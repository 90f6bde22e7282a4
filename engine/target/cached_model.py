"""A causal language model with a rewindable memory: prefill, forward, rewind.

The target is one; a draft model is another. It knows nothing of drafts, distributions or text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import mlx.core as mx

from engine import backend, together
from engine.backend.mlx_lm_imports import why_unsound
from engine.cache.model_cache import ModelCache
from engine.cache.snapshot import Snapshot, arrays_in
from engine.cache.tree_cache import TreeRows
from engine.errors import ModelError, UnsupportedCache, UsageError
from engine.rotary_embedding import RotationByLength
from engine.target.joint_pass import JointPass, why_not_joint
from engine.target.layer_taps import LayerTaps
from engine.target.recurrence_replay import RecurrenceReplay
from engine.tree.draft_tree import DraftTree
from engine.tree.rotary_positions import enable_row_positions

PREFILL_CHUNK = backend.prompt_chunk()  # the most tokens of a prompt that are read in one pass
MOST_READ_TOGETHER = 64  # the most tokens of a prompt that are read in one pass with those of others
WAIT_S = 0.05  # of evaluating layers before a stop is noticed; the number of layers doubles, so up to about twice this
REPLAY_LIMIT = 8


class PassListener(Protocol):
    """Hears of every pass before it is built; see `engine.target.sharded_target`. ranks: names of those who repeat
    it."""

    ranks: str

    def announce(self, tokens: mx.array, tree: DraftTree | None, logits: bool) -> None:
        """A pass over `tokens` (n,) comes. logits: whether it is evaluated as far as these, else only the cache."""

    def submit(self, outputs: Sequence[mx.array]) -> mx.array:
        """Has the pass announced last evaluated, as far as its `outputs`. Returns how many machines are missing from
        it, lazy: see `absent` of `CachedModel`."""

    def cancel(self, error: BaseException) -> None:
        """The pass announced last could not be built, because of `error`."""


@dataclass(eq=False)
class _Sharing:
    """What the replies that are written with one model at once share. size_bytes: of its weights. why_alone: why their
    passes cannot be joined, "" where they can, None where that was not tried."""

    size_bytes: int
    why_alone: str | None = None


class CachedModel:
    """An mlx-lm model and its cache.

    Invariants
    ----------
    1. `length` tokens of one sequence are in the cache. Whoever drives the model keeps the sequence and feeds
       `tokens[length:]`, whatever `length` a rewind has left.
    2. `owner` is the reply that drove the model last; another reply that finds it here starts from nothing.
    3. After a pass over a tree the cache holds no sequence until `keep_path`, or a rewind to the tree's root.
    4. All tokens in the cache were rotated by the same frequencies, and no pass whose logits count reaches past the
       length where `rotation` changes them: `draft_room` ends there, and `read_as` empties the cache.

    rotation: which frequencies LongRoPE uses. taps: where the states of every pass are recorded now, None for nowhere.
    vocabulary: width of the logits. leader: has other processes repeat every pass, None for a model that is whole in
    this one. absent: how many machines were missing from the pass built last, as a lazy integer a rank; None for a
    model that is whole. Only where all are 0 has the pass computed anything of use. Raises ModelError for a model
    that cannot be decoded exactly, UnsupportedCache for a cache that cannot be rewound.
    """

    def __init__(self, model: Any, kv_bits: int | None = None, kv_group_size: int = 64) -> None:
        if reason := why_unsound(model):
            raise ModelError(f"this architecture cannot be decoded exactly: {reason}; choose another model")
        self.model = model
        self.leader: PassListener | None = None
        self.absent: mx.array | None = None
        self.kv_bits, self._kv_group_size = kv_bits, kv_group_size
        self._sharing = _Sharing(sum(array.nbytes for array in arrays_in(model.parameters())))
        self.rotation = RotationByLength(model.modules())
        self._rotates_rows = False
        self._begin_empty()
        try:
            self.vocabulary = self._measure_vocabulary()
        except (AttributeError, TypeError, ValueError) as error:
            if kv_bits is None:
                raise
            # An attention that computes with whole keys and values meets the tuples of quantized ones.
            why = str(error) if isinstance(error, ValueError) else "its attention cannot read a quantized cache"
            raise UnsupportedCache(
                f"this model's KV cache cannot be quantized to {kv_bits} bits in groups of {kv_group_size} "
                f"({why}): leave it as it is"
            ) from error

    @property
    def length(self) -> int:
        """How many tokens are in the cache."""
        return self.cache.length

    def _begin_empty(self) -> None:
        """Makes everything that belongs to the replies of this object alone, other than to the weights."""
        self.owner: object = None
        self.taps: LayerTaps | None = None
        self.cache = self.new_cache()
        self._recurrence = RecurrenceReplay(self.model, self.cache)
        self._known_taps: dict[tuple[tuple[int, ...], bool], LayerTaps] = {}
        self._root: int | None = None
        self._feeds = False  # whether nobody reads the logits of the pass that is built
        self._joins_others = False  # whether such a pass is joined with those of other replies that read a prompt

    def new_cache(self) -> ModelCache:
        """Returns another cache for the same model, with nothing in it."""
        return ModelCache(self.model, self.kv_bits, self._kv_group_size)

    @property
    def shares_passes(self) -> bool:
        """Whether its passes are joined with those of other replies, where there are any."""
        return self._sharing.why_alone == ""

    @property
    def weights_key(self) -> object:
        """Stands for the weights: one object for this model and all that are made of it for other replies."""
        return self._sharing

    @property
    def why_alone(self) -> str | None:
        """Why its passes are not joined with those of other replies, None where they are or nobody has asked yet."""
        return self._sharing.why_alone or None

    def for_another_reply(self) -> CachedModel:
        """Returns one of the same weights with a cache and taps of its own, for a reply at the same time as those of
        this one (`engine.together`). The first time, a few short passes tell whether their passes can be joined. Raises
        UsageError where other machines hold parts of the model."""
        if self.leader is not None:
            raise UsageError("a model on several machines writes one reply at a time: wait for the other one")
        if self._sharing.why_alone is None:
            self._sharing.why_alone = why_not_joint(self.model, self.new_cache) or ""
        other = copy(self)
        other.rotation = self.rotation.for_another_reply()
        other._begin_empty()
        return other

    def _measure_vocabulary(self) -> int:
        """Returns the width of the logits, from a pass over one token that is never evaluated."""
        width = int(self.forward(mx.zeros(1, mx.int32)).shape[-1])
        self.cache.reset()
        return width

    def read_as(self, length: int) -> None:
        """Prepares for a text of `length` tokens: empties the cache where such a text is rotated by other frequencies
        than the tokens in it, which must then be read again."""
        if not self.rotation.fits(length):
            self.reset()
            self.rotation.switch(not self.rotation.is_long)

    def catch_up(self, sequence: Sequence[int], cancelled: Callable[[], bool] = lambda: False) -> bool:
        """Reads all but the last token of a `sequence` again once it has grown so long that it is rotated by other
        frequencies; returns False where that was cancelled."""
        if self.rotation.fits(len(sequence)):
            return True
        self.read_as(len(sequence))
        return not any(cancelled() for _ in self.prefill(sequence[:-1], cancelled=cancelled))

    def prefill(
        self, tokens: Sequence[int], chunk: int = PREFILL_CHUNK, cancelled: Callable[[], bool | None] = lambda: False
    ) -> Iterator[int]:
        """Feeds `tokens` in chunks; yields how many are in after each chunk. Once `cancelled`, yields one last time
        and ends; `cancelled` may also raise to break off.

        Closing the iterator between chunks is fine: `length` says how far it got.
        """
        for start, end in self._chunks(len(tokens), chunk):
            self.feed(tokens[start:end], joins_others=end - start <= MOST_READ_TOGETHER)
            stopped = self._evaluate_layers(cancelled)
            mx.clear_cache()  # a chunk's buffers fit no decoding step
            yield end
            if stopped:
                return

    def _evaluate_layers(self, cancelled: Callable[[], bool | None]) -> bool:
        """Evaluates what a pass has put into the cache, a few layers at a time; returns whether that was cancelled.

        On a large model a chunk takes seconds, and a stop waits only for the layers under way. The others stay lazy:
        the cache is as long as if they were done, and whatever needs them has them done. What is computed does not
        depend on where the evaluation is cut, so the clock may decide that.
        """
        layers, at_once = self.cache.arrays_by_layer(), 1
        while layers:
            began_s = time.monotonic()
            mx.eval(layers[:at_once])
            del layers[:at_once]
            if time.monotonic() - began_s < WAIT_S:
                at_once *= 2
            if layers and cancelled():
                return True
            together.between_pieces()
        mx.eval(self.taps.arrays() if self.taps else [])
        return False

    def _chunks(self, count: int, chunk: int) -> list[tuple[int, int]]:
        """Returns how the next `count` tokens are cut into passes: start and end of each, counted from here."""
        return [(start, min(start + chunk, count)) for start in range(0, count, chunk)]

    def feed(self, tokens: Sequence[int], joins_others: bool = False) -> None:
        """Puts tokens into the cache; nothing is evaluated and no logits are kept. joins_others: whether they are read
        in one pass with the prompts of other replies."""
        self._feeds, self._joins_others = True, joins_others
        try:
            self.forward(mx.array(list(tokens), mx.int32))
        finally:
            self._feeds = self._joins_others = False

    def forward(self, tokens: mx.array, tree: DraftTree | None = None) -> mx.array:
        """Feeds (n,) token ids, which may be lazy; returns lazy logits (n, vocabulary).

        With a `tree`, the last of the tokens are its nodes, and it grows from the token before them.
        """
        if tree is None:
            return self._run(tokens, self.cache.entries)
        if not self._rotates_rows:
            enable_row_positions(self.model)
            self._rotates_rows = True
        missing = tokens.size - tree.size
        rows = TreeRows.of(tree, self.length, missing)
        self._root = self.length + missing
        return self._run(tokens, self.cache.for_tree(rows), tree, rows)

    def _run(
        self, tokens: mx.array, entries: Any, tree: DraftTree | None = None, rows: TreeRows | None = None
    ) -> mx.array:
        """One pass: lazy logits (n, vocabulary). If it fails, it has reached some layers only, so all is forgotten."""
        wanted = not self._feeds or (self.taps is not None and self.taps.reaches_output)
        if self.leader is not None:
            self.leader.announce(tokens, tree, wanted)
        try:
            logits = self._build(tokens, entries, rows)
        except BaseException as error:
            if self.leader is not None:
                self.leader.cancel(error)
            self.reset()
            raise
        self.cache.advance(tokens.size)
        if self.leader is not None:  # as far as every other process evaluates it: see `sharded_target`
            seen = self.taps.arrays() if self.taps is not None else []
            self.absent = self.leader.submit([*([logits] if wanted else []), *self.cache.arrays(), *seen])
        return logits

    def _build(self, tokens: mx.array, entries: Any, rows: TreeRows | None) -> mx.array:
        """Returns the lazy logits (n, vocabulary) of a pass, which other replies may share, and has the taps record."""
        if self.shares_passes and (self._joins_others or not self._feeds) and together.takes_part():
            return together.run(self._joint_pass(tokens, entries, rows))
        self.rotation.apply()
        with self._recurrence.pass_over(tokens.size):
            logits: mx.array = self.model(tokens[None], cache=entries).squeeze(0)
        if self.taps is not None:
            self.taps.record(self.length)
        return logits

    def _joint_pass(self, tokens: mx.array, entries: Any, rows: TreeRows | None) -> JointPass:
        def record(place: slice) -> None:
            if self.taps is not None:
                self.taps.record(self.length, place)

        positions = mx.arange(self.length, self.length + tokens.size) if rows is None else rows.positions
        size_bytes = self._sharing.size_bytes
        tokens = tokens.astype(mx.int32)
        return JointPass(self.model, [tokens], entries, positions, self.rotation, record, size_bytes, self._feeds)

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, tree: DraftTree | None = None
    ) -> tuple[mx.array, int]:
        """Returns lazy logits (k + 1, vocabulary) after the last token of `sequence` and after each of `draft` (k,), a
        chain or, with a `tree`, its nodes; and the width of the pass in rows.

        Whatever the cache lacks of `sequence` (at least its last token; more after a rewind that fell short) rides in
        the same pass, unless that is more than REPLAY_LIMIT tokens: then all but the last go through first, so that
        passes do not grow with a run of refusals. The place is marked where the certain tokens end: after them when
        there is no draft, else before the pass.
        """
        self.catch_up(sequence)
        missing = sequence[self.length :]
        if not missing:
            raise ValueError("the cache already holds the whole sequence: rewind it by one token first")
        if len(missing) > REPLAY_LIMIT:
            self.feed(missing[:-1])
            missing = missing[-1:]
        rows = mx.array(list(missing), mx.int32)
        if draft.size:
            self.cache.mark()
            self._recurrence.record_next()
            rows = mx.concatenate([rows, draft.astype(mx.int32)])
        logits = self.forward(rows, tree if draft.size else None)
        if not draft.size:
            self.cache.mark()
        return logits[len(missing) - 1 :], rows.size

    def continue_after(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        """Returns lazy logits (1, vocabulary) after a `token` (1,) that is not known yet, after a pass over all of
        `sequence`; and the width of the pass."""
        self.cache.mark()
        return self.forward(token), 1

    def draft_room(self, length: int) -> int:
        """Returns the most tokens that a draft after `length` tokens may have."""
        return self.rotation.tokens_left(length)

    def checksums(self, logits: mx.array) -> mx.array:
        """Returns checksums of the rows of logits, (rows, 2), where they are kept (exact-verify), else (0, 2)."""
        return self._no_checksums

    @cached_property
    def _no_checksums(self) -> mx.array:
        """Made once: an operation less in every round."""
        return mx.zeros((0, 2), mx.uint32)

    def pin_mark(self, needed: Sequence[int] = ()) -> None:
        """Keeps this place reachable for later turns, in models whose state cannot drop tokens. needed: lengths that
        must stay reachable too, as far as they are."""
        self.cache.mark(pinned=True, needed=needed)

    def keep_path(self, path: Sequence[int]) -> None:
        """Keeps of the tree of the latest pass the nodes on `path`, and with them the root."""
        if self._root is None:
            raise ValueError("the latest pass was over no tree, so there is no path to keep")
        self.cache.keep_path(self._root, path)
        if self.taps is not None:
            self.taps.select(self._root, path)
        self._root = None

    def rewind(self, length: int) -> int:
        """Forgets all but the first `length` tokens, or a few more where needed; returns how many are left."""
        if self._root is not None:  # rows after it are no sequence
            length, self._root = min(length, self._root), None
        kept = self._rewind_cache(length)
        if self.taps is not None:
            self.taps.cut(length)  # what the cache lost of them is fed again, but was seen
        return kept

    def _rewind_cache(self, length: int) -> int:
        return length if self._recurrence.rewind(length) else self.cache.rewind(length)

    def snapshot(self) -> Snapshot:
        """Returns what the cache holds, and what the taps have recorded."""
        taps = self.taps
        recorded = None if taps is None else (taps.points, taps.latest_only, taps.snapshot())
        return {"cache": self.cache.snapshot(), "recorded": recorded, "is_long": self.rotation.is_long}

    def restore(self, snapshot: Snapshot) -> None:
        """Goes back to where the snapshot was taken, whatever has gone through the model since."""
        self.reset()
        self.rotation.switch(snapshot["is_long"])
        self.cache.restore(snapshot["cache"])
        if snapshot["recorded"] is not None:
            points, latest_only, rows = snapshot["recorded"]
            self.record(tuple(points), latest_only)
            self.layer_taps(tuple(points), latest_only).restore(rows)

    def reset(self) -> None:
        """Forgets everything, and lets go of the memory that it took."""
        self._root = None
        self._recurrence.forget()
        self.cache.reset()
        if self.taps is not None:
            self.taps.drop()

    def layer_taps(self, points: tuple[int, ...], latest_only: bool = False) -> LayerTaps:
        """Returns the taps at `points`, one object for all who ask for the same. Raises as `LayerTaps` does."""
        key = points, latest_only
        if key not in self._known_taps:
            self._known_taps[key] = LayerTaps(self.model, points, latest_only)
        return self._known_taps[key]

    def forget_taps(self, points: tuple[int, ...], latest_only: bool = False) -> None:
        """Takes the taps at `points` off the model, so that no pass notes anything there; those that other taps share
        stay. Whoever reads there next asks for them again."""
        taps = self._known_taps.pop((points, latest_only), None)
        if taps is None:
            return
        if self.taps is taps:
            self.taps = None
        taps.unhook({point for others, _ in self._known_taps for point in others})

    def forget_all_taps(self) -> None:
        """Takes every tap off the model, once no drafter is left that read there."""
        for points, latest_only in list(self._known_taps):
            self.forget_taps(points, latest_only)

    def record(self, points: tuple[int, ...] = (), latest_only: bool = False) -> None:
        """From here on records the states at `points` of every pass, in place of what was recorded before; without
        points, none."""
        taps = self.layer_taps(points, latest_only) if points else None
        if self.taps is not None and self.taps is not taps:
            self.taps.drop()
        self.taps = taps
