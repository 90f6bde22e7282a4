"""What a model remembers, and how to make it forget: rewind(length) over every cache kind of mlx-lm.

Invariants
----------
1. `length` tokens have gone through the model; every layer's state is exactly the state after
   those tokens, and `length` is the only thing anyone outside needs to know.
2. `rewind(n)` with n <= length leaves some length m <= n and returns m. The caller feeds
   tokens[m:] again. m == n wherever a layer can drop its newest entries; else m is the newest
   mark at or before n; else 0. So a rewind never fails and never lies.
3. A mark holds copies of array handles, never of arrays, and only for layers that cannot drop
   entries. MLX writes out of place while a handle is held, so a mark cannot be overwritten.
4. `mark()` is called before every pass that may be taken back; therefore taking back any part of
   the latest pass never costs more than feeding that pass's kept prefix again.
   `restore_states` is for who can bring states forward without feeding (`target/recurrence_replay.py`).
5. A sliding window keeps at least SLACK tokens more than it shows, so taking back up to SLACK
   tokens is exact past the window's edge too (mlx-lm's own rotating cache cannot be trimmed there).

What each of mlx-lm's cache classes can forget is decided here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import mlx.core as mx

from engine.backend import mlx_lm_imports as kinds
from engine.cache.sliding_window import SLACK, SlidingKVCache
from engine.cache.snapshot import Snapshot, arrays_in, capture, new_handles, restore
from engine.cache.tree_cache import TreeCache, TreeRows, can_drop_rows
from engine.errors import UnsupportedCache

PINNED_MARKS = 5  # the oldest, which is mostly the end of a system prompt that conversations share, and the newest


@dataclass(frozen=True)
class CacheGrowth:
    """The memory of one layer's cache as a conversation grows.

    step_bytes: for every `rows` tokens begun; a state of a fixed size has no rows. window: how many tokens are seen,
    where older ones are dropped; None where all are kept.
    """

    step_bytes: int
    rows: int = 0
    window: int | None = None

    def bytes_at(self, tokens: int, chunk: int) -> int:
        """Returns its bytes with `tokens` tokens in it, read in passes of up to `chunk` tokens."""
        if not self.rows:
            return self.step_bytes
        held = self._in_steps(tokens)
        if self.window is not None:
            held = min(held, self.window + SLACK + self._in_steps(chunk))
        return self.step_bytes * held // self.rows

    def marked_bytes(self, chunk: int) -> int:
        """Returns the most bytes that marks keep beside it: none of what can drop tokens, else a copy for each mark."""
        if not self.rows:
            return self.step_bytes * (PINNED_MARKS + 1)
        return 0 if self.window is None else self.bytes_at(self.window + chunk, chunk) * PINNED_MARKS

    def _in_steps(self, tokens: int) -> int:
        return -(-tokens // self.rows) * self.rows


class LayerKV(NamedTuple):
    """The keys and values of one layer, oldest token first, lazy.

    keys, values: (heads, n, head_dim) as the layer stores them, keys after rotary positions; quantized ones are
    dequantized. start: the first token that they hold, so that row i belongs to token `start + i`.
    """

    keys: mx.array
    values: mx.array
    start: int


@dataclass(frozen=True)
class _Mark:
    """The state at `length`: for each leaf, a saved state or None where the leaf can drop entries."""

    length: int
    states: tuple[Any, ...]
    pinned: bool


class ModelCache:
    """All layers' caches of one model, seen as one thing of `length` tokens.

    entries: what the model's forward takes as `cache`. Built by the model's own `make_cache`;
    rotating caches are replaced by `SlidingKVCache`, and KV caches by quantized ones when
    `kv_bits` is given.

    Raises UnsupportedCache, naming the class, for a cache kind that cannot be rewound.
    """

    def __init__(self, model: Any, kv_bits: int | None = None, kv_group_size: int = 64) -> None:
        def make() -> list[Any]:
            return [_adopt(c, kv_bits, kv_group_size) for c in kinds.make_prompt_cache(model)]

        self._make = make
        self._marks: list[_Mark] = []
        self._tree: list[TreeCache] = []  # of the latest pass, if that was over a tree
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self.entries = self._make()
        self.length = 0
        self._marks, self._tree = [], []
        found = [_kind(leaf) for leaf in self._leaves()]
        self._replays = any(not kind.drops for kind in found)

    @property
    def replays(self) -> bool:
        """Whether a rewind may leave fewer tokens than requested, so that tokens are fed again."""
        return self._replays

    @property
    def needs_pins(self) -> bool:
        """Whether only a pinned mark lets a later turn go back behind a reply."""
        return self.replays or self._has_window()

    @property
    def classes(self) -> set[str]:
        """The names of the cache classes, which decide what a rewind leaves."""
        return {type(leaf).__name__ for leaf in self._leaves()}

    def snapshot(self) -> Snapshot:
        """Returns what is remembered, marks included."""
        marks = [(mark.length, list(mark.states), mark.pinned) for mark in self._marks]
        return {"length": self.length, "layers": capture(self._leaves()), "marks": marks, "reach": self.reach()}

    def restore(self, snapshot: Snapshot) -> None:
        """Remembers what a cache of the same model did when the snapshot was taken, and nothing else."""
        self.reset()
        restore(self._leaves(), snapshot["layers"])
        self.length = snapshot["length"]
        self._marks = [_Mark(length, tuple(states), pinned) for length, states, pinned in snapshot["marks"]]

    def advance(self, tokens: int) -> None:
        """Notes that `tokens` more tokens have gone through the model."""
        self.length += tokens

    def mark(self, pinned: bool = False, needed: Sequence[int] = ()) -> None:
        """Remembers this place. The newest unpinned mark replaces the one before. Of the pinned ones, which are for
        later turns, edits and other conversations that begin alike, PINNED_MARKS stay: the oldest, those from which the
        `needed` lengths are reached, and the newest."""
        if not self.replays and not (pinned and self._has_window()):
            return
        pinned = pinned or any(m.pinned and m.length == self.length for m in self._marks)
        kept = [m for m in self._marks if m.pinned and m.length < self.length]
        if pinned and len(kept) >= PINNED_MARKS:
            used = {max((m.length for m in kept if m.length <= length), default=0) for length in needed}
            least = min(kept[1:], key=lambda m: (m.length in used, m.length))
            kept = [m for m in kept if m is not least]
        self._marks = [*kept, _Mark(self.length, tuple(_save(leaf, pinned) for leaf in self._leaves()), pinned)]

    def reach(self) -> tuple[int, list[int]]:
        """Returns where a rewind can go back to exactly: the fewest tokens that dropping leaves, and the marks."""
        kinds_of = [(leaf, _kind(leaf)) for leaf in self._leaves()]
        least = max((kind.least(leaf) if kind.drops else self.length for leaf, kind in kinds_of), default=0)
        return least, [mark.length for mark in self._marks if self._ways_back(mark.length, mark) is not None]

    def shrink(self) -> None:
        """Lets go of the rows behind the tokens held. A conversation that went on from a longer one, which stays kept,
        would take as much memory as that one, and copy all of it at its first pass."""
        if not self.length:
            self.reset()
        for leaf in self._leaves():
            if type(leaf) in (kinds.KVCache, kinds.QuantizedKVCache) and leaf.keys is not None:
                leaf.keys, leaf.values = (_shortened(held, leaf.offset) for held in (leaf.keys, leaf.values))

    def rewind(self, length: int) -> int:
        """Goes back to `length` tokens or, where a layer cannot, to the newest mark before; returns the new length."""
        self._tree = []
        if length >= self.length:
            return self.length
        if self._go_back(length):
            return length
        self._marks = [m for m in self._marks if m.length <= length]
        while self._marks:
            if self._go_back(self._marks[-1].length, self._marks[-1]):
                return self.length
            self._marks.pop()
        self.reset()
        return 0

    def states(self) -> list[Any]:
        """Returns the leaves that cannot drop tokens."""
        return [leaf for leaf in self._leaves() if not _kind(leaf).drops]

    def restore_states(self, start: int, length: int) -> bool:
        """Drops all but the first `length` tokens where a layer can, and puts the others back to the mark at `start`,
        from where the caller brings them to `length`. Returns False, and changes nothing, where that cannot be."""
        mark = next((m for m in reversed(self._marks) if m.length == start), None)
        return mark is not None and self._go_back(length, mark)

    @property
    def follows_position(self) -> bool:
        """Whether what a pass finds here follows from its position alone. A chunked cache drops its oldest keys when
        its buffer happens to be full, which the passes before decide."""
        return not any(isinstance(leaf, kinds.ChunkedKVCache) for leaf in self._leaves())

    @property
    def supports_trees(self) -> bool:
        """Whether a pass may go over a tree: whether every layer's cache can drop rows from its middle."""
        return all(can_drop_rows(entry) for entry in self.entries)

    def for_tree(self, rows: TreeRows) -> list[TreeCache]:
        """Returns the entries for one pass over a tree; `keep_path` or a rewind to the tree's root must follow."""
        self._tree = [TreeCache(entry, rows) for entry in self.entries]
        return self._tree

    def keep_path(self, first: int, places: Sequence[int]) -> None:
        """Keeps of the rows from token `first` on those at `places` (relative to it), in this order."""
        for entry in self._tree:
            entry.keep(first, places, self.length - first)
        self._tree, self.length = [], first + len(places)

    @property
    def layer_types(self) -> tuple[str, ...]:
        """What each entry remembers, in the words of Hugging Face's configs; "hybrid" for several things, "none" for
        nothing."""
        return tuple(_layer_type(entry) for entry in self.entries)

    def check_kv(self, layer: int) -> None:
        """Raises UnsupportedCache for an entry that has no keys and values for every token that it sees."""
        entry = self.entries[layer]
        if not _layer_type(entry).endswith("_attention") or not _kind(entry).drops:
            raise UnsupportedCache(
                f"layer {layer} keeps its state in {type(entry).__name__}, which has no keys and values for each token"
            )

    def kv(self, layer: int) -> LayerKV:
        """Returns what an entry holds of the tokens that it still sees. Raises UnsupportedCache as `check_kv` does,
        ValueError while it is empty."""
        self.check_kv(layer)
        entry = self.entries[layer]
        if entry.keys is None:
            raise ValueError(f"layer {layer} has seen no tokens yet")
        first = getattr(entry, "start", getattr(entry, "start_position", 0))
        seen = entry.offset - first
        start = max(0, seen - entry.max_size) if isinstance(entry, SlidingKVCache) else 0
        keys, values = (_rows(entry, held, start, seen) for held in (entry.keys, entry.values))
        return LayerKV(keys, values, first + start)

    def arrays(self) -> list[mx.array]:
        """Returns every array held, for evaluation after a prefill chunk."""
        return [array for layer in self.arrays_by_layer() for array in layer]

    def arrays_by_layer(self) -> list[list[mx.array]]:
        """Returns the arrays that each layer's cache holds, in the order in which a pass makes them."""
        return [[a for leaf in _flatten(entry) for a in arrays_in(vars(leaf))] for entry in self.entries]

    def growth(self) -> list[CacheGrowth]:
        """Returns how each layer's cache grows, from the shapes of one that holds a token, evaluated or not."""
        return [_growth(leaf) for leaf in self._leaves()]

    def _leaves(self) -> list[Any]:
        return [leaf for entry in self.entries for leaf in _flatten(entry)]

    def _has_window(self) -> bool:
        return any(_kind(leaf).window for leaf in self._leaves())

    def _go_back(self, length: int, mark: _Mark | None = None) -> bool:
        """Drops all but the first `length` tokens from every layer, and puts those that cannot back to the mark; a
        mark before `length` is one from which the caller brings them forward. Returns False, and changes nothing,
        where that cannot be."""
        ways = self._ways_back(length, mark)
        if ways is None:
            return False
        for leaf, state in ways:
            if state is None:
                _kind(leaf).drop(leaf, self.length - length)
            else:
                vars(leaf).update(new_handles(state))
        self.length = length
        self._marks = [m for m in self._marks if m.length <= length]
        return True

    def _ways_back(self, length: int, mark: _Mark | None) -> list[tuple[Any, Any]] | None:
        """Returns each leaf with the state that it is put back to, None where dropping serves; None if a leaf has
        neither."""
        leaves, found = self._leaves(), []
        for leaf, state in zip(leaves, mark.states if mark is not None else [None] * len(leaves), strict=True):
            kind = _kind(leaf)
            if kind.drops and kind.least(leaf) <= length:
                state = None
            elif state is None or (kind.drops and mark is not None and mark.length != length):
                return None
            found.append((leaf, state))
        return found


def reachable(snapshot: Snapshot, length: int) -> int:
    """Returns what a rewind to `length` leaves of the cache that the snapshot was taken of."""
    least, marks = snapshot["reach"]
    if length >= least:
        return int(min(length, snapshot["length"]))
    return max((mark for mark in marks if mark <= length), default=0)


def filled_rows(state: dict[str, Any]) -> dict[str, Any] | None:
    """Returns what a snapshot has of a layer whose keys and values have a row (the last axis but one) for each token
    from the first on, without the rows that are not filled; None for what keeps anything else."""
    if not state.keys() >= {"keys", "values", "offset"} or state.keys() & {"start", "start_position"}:
        return None
    filled = {name: _shortened(state[name], state["offset"]) for name in ("keys", "values") if state[name] is not None}
    return {**state, **filled}


# --- the kinds of cache, and what each can do ---


@dataclass(frozen=True)
class _Kind:
    """layer_type: what a layer remembers, in the words of Hugging Face's configs. drops: whether the newest tokens of
    the latest pass can be dropped in place, by `drop`. least: the fewest that this may leave. window: the attribute
    that says how many tokens are seen, "" where all are."""

    layer_type: str
    drops: bool = True
    drop: Callable[[Any, int], Any] = lambda leaf, count: leaf.trim(count)
    least: Callable[[Any], int] = lambda leaf: 0
    window: str = ""


def _cut(leaf: Any, count: int) -> None:
    """A concatenating cache only moves its offset when trimmed and would show the stale rows again."""
    if leaf.keys is not None:
        leaf.offset -= count
        leaf.keys, leaf.values = leaf.keys[..., : leaf.offset, :], leaf.values[..., : leaf.offset, :]


def _first_whole_chunk(leaf: Any) -> int:
    """The chunk that the new last token belongs to must still be held from its first token on."""
    return int(-(-leaf.start_position // leaf.chunk_size) * leaf.chunk_size)


_KINDS: dict[str, _Kind] = {
    "KVCache": _Kind("full_attention"),
    "QuantizedKVCache": _Kind("full_attention"),
    "ConcatenateKVCache": _Kind("full_attention", drop=_cut),
    "SlidingKVCache": _Kind("sliding_attention", least=lambda leaf: leaf.least_length, window="max_size"),
    "ChunkedKVCache": _Kind("chunked_attention", least=_first_whole_chunk, window="chunk_size"),
    "ArraysCache": _Kind("linear_attention", drops=False),
    "deepseek_v41.LayerCache": _Kind("hybrid", drops=False),
}


def _layer_type(entry: Any) -> str:
    if entry is None:
        return "none"
    return "hybrid" if type(entry) is kinds.CacheList else _kind(entry).layer_type


def _rows(leaf: Any, held: Any, start: int, end: int) -> mx.array:
    """Returns rows [start, end) of keys or values, (heads, end - start, head_dim), dequantized."""
    if not isinstance(held, mx.array):
        weight, scales, biases = (part[..., start:end, :] for part in held)
        return mx.dequantize(weight, scales, biases, leaf.group_size, leaf.bits).squeeze(0)
    return held[0, :, start:end]


def _kind(leaf: Any) -> _Kind:
    name = type(leaf).__name__
    home = type(leaf).__module__.rsplit(".", 1)[-1]
    found = _KINDS.get(name) if home in ("cache", "sliding_window") else _KINDS.get(f"{home}.{name}")
    if found is None:
        raise UnsupportedCache(
            f"the model keeps its state in {home}.{name}, which Redline cannot rewind exactly: "
            "choose another model, or open an issue with the model's name"
        )
    return found


def _shortened(held: Any, rows: int) -> Any:
    """Returns the first rows of keys or values, which may be quantized."""
    return held[..., :rows, :] if isinstance(held, mx.array) else tuple(part[..., :rows, :] for part in held)


def _adopt(entry: Any, kv_bits: int | None, kv_group_size: int) -> Any:
    """The cache Redline uses in place of one that mlx-lm made."""
    if type(entry) is kinds.CacheList:
        return kinds.CacheList(*(_adopt(c, kv_bits, kv_group_size) for c in entry.caches))
    if type(entry) is kinds.RotatingKVCache:
        return SlidingKVCache(entry.max_size, entry.keep)
    if type(entry) is kinds.KVCache and kv_bits is not None:
        return kinds.QuantizedKVCache(group_size=kv_group_size, bits=kv_bits)
    return entry


def _flatten(entry: Any) -> list[Any]:
    if type(entry) is kinds.CacheList:
        return [leaf for c in entry.caches for leaf in _flatten(c)]
    return [] if entry is None else [entry]


def _growth(leaf: Any) -> CacheGrowth:
    """Keys and values grow by the rows that the leaf adds at once."""
    arrays = arrays_in(vars(leaf))
    held = sum(array.nbytes for array in arrays)
    if not _kind(leaf).drops or not arrays:
        return CacheGrowth(held)
    window = _kind(leaf).window
    return CacheGrowth(held, arrays[0].shape[-2], getattr(leaf, window) if window else None)


# --- saved states ---


def _save(leaf: Any, pinned: bool) -> Any:
    """A leaf's attributes with fresh array handles, or None where dropping serves.

    Attention over the whole context can always drop; a window can only within its slack, which a
    pinned mark may outlive.
    """
    if _kind(leaf).drops and not (pinned and _kind(leaf).window):
        return None
    return new_handles(vars(leaf))
