"""The distributions of target and drafter over a known text, all positions in one pass (teacher forcing).

The target gives one distribution a position. A drafter of chains gives one for every depth of a draft: at depth d of
token i, the distribution for the token as the d-th further token of a draft that matched the text so far.

That is for draft models and EAGLE-3 heads of one layer, which draft token by token. What other drafters draft from is
seen where the loop is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import mlx.core as mx

from engine.cache.model_cache import LayerKV
from engine.cache.sliding_window import SlidingKVCache
from engine.drafters import Drafter, Needs
from engine.drafters.draft_model import DraftModel
from engine.drafters.eagle3 import Eagle3, Eagle3Head
from engine.sampling import Distribution, TokenCounts
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.target.model_layout import embed
from models.training.eagle3_trainee import Unrolled
from models.training.trainee import shift

_CHUNK_BYTES = 32 * 1024**2  # of distributions over the vocabulary, at a time


@dataclass(frozen=True)
class TargetText:
    """A reply that the target wrote alone. tokens: ids, those of the prompt first, `prompt` of them. limit: the most
    tokens the reply could have had; it has fewer if it ended by itself."""

    tokens: tuple[int, ...]
    prompt: int
    limit: int

    @property
    def reply(self) -> tuple[int, ...]:
        return self.tokens[self.prompt :]


@dataclass(frozen=True)
class RecordedKV:
    """The keys and values of one layer over a text. rows: from the first token on that the layer still saw at the start
    of the reply. window: how many tokens the layer sees, None for all."""

    rows: LayerKV
    window: int | None

    def at(self, length: int) -> LayerKV:
        """Returns what the target shows of this layer after the first `length` tokens: see `ModelCache.kv`."""
        first = self.rows.start
        start = first if self.window is None else max(first, length - self.window)
        seen = slice(start - first, length - first)
        return LayerKV(self.rows.keys[:, seen], self.rows.values[:, seen], start)


@dataclass(frozen=True)
class TargetOutputs:
    """What the target computes over a text. logits: (n, vocabulary), row i for token i of the reply. states: (tokens,
    width) as a drafter's `LayerTaps` have them, or None if no drafter reads any. kv: by layer, for a drafter that
    reads keys and values."""

    text: TargetText
    logits: mx.array
    states: mx.array | None
    kv: Mapping[int, RecordedKV] = field(default_factory=dict)

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Yields [start, end) of rows whose distributions fit into memory together."""
        rows = max(1, _CHUNK_BYTES // (4 * self.logits.shape[-1]))
        n = len(self.text.reply)
        yield from ((start, min(start + rows, n)) for start in range(0, n, rows))

    def tokens(self, start: int, end: int) -> mx.array:
        """Returns tokens [start, end) of the reply, (end - start,) int32."""
        return mx.array(self.text.reply[start:end], mx.int32)

    def counts(self, distribution: Distribution, start: int, end: int) -> mx.array | None:
        """Returns how often each token occurs before each of these, (end - start, vocabulary); None if no penalty
        needs it."""
        before = self.text.tokens[: self.text.prompt + start]
        return TokenCounts(distribution, before).rows(self.tokens(start, end - 1))


def target_outputs(target: CachedModel, text: TargetText, needs: Needs) -> TargetOutputs:
    """Runs the target over `text`, in as few passes as a prompt takes, or as its windows allow where a drafter reads
    keys and values. needs: what is recorded. Leaves the cache empty."""
    target.rewind(0)
    target.read_as(len(text.tokens))
    target.record(needs.taps)
    taps, kv = target.taps, _KVRecord(target, needs.kv_layers)
    try:
        first = text.prompt - 1
        for _ in target.prefill(text.tokens[:first]):
            pass
        kv.extend()
        parts = []
        for start in range(first, len(text.tokens) - 1, kv.longest_pass):
            end = min(start + kv.longest_pass, len(text.tokens) - 1)
            parts.append(target.forward(mx.array(text.tokens[start:end], mx.int32)))
            mx.eval(parts[-1], target.cache.arrays(), taps.arrays() if taps else [])
            kv.extend()
        states = taps.take(0, len(text.tokens) - 1) if taps else None
        logits = mx.concatenate(parts)
        mx.eval(logits, [] if states is None else states)
        return TargetOutputs(text, logits, states, kv.layers())
    finally:
        target.record()
        target.rewind(0)
        mx.clear_cache()


class _KVRecord:
    """The keys and values of some layers, gathered while passes go through the target. longest_pass: tokens of a pass
    after which every window still shows all of them."""

    def __init__(self, target: CachedModel, layers: Sequence[int]) -> None:
        self._target = target
        entries = {layer: target.cache.entries[layer] for layer in layers}
        self._windows = {n: one.max_size if isinstance(one, SlidingKVCache) else None for n, one in entries.items()}
        self.longest_pass = min([PREFILL_CHUNK, *(window for window in self._windows.values() if window)])
        self._rows: dict[int, LayerKV] = {}

    def extend(self) -> None:
        """Adds the rows of the tokens that have gone through since, as far as they are still seen."""
        for layer in self._windows if self._target.length else ():
            latest = self._target.cache.kv(layer)
            rows = self._rows.get(layer, LayerKV(latest.keys[:, :0], latest.values[:, :0], latest.start))
            new = rows.start + rows.keys.shape[1] - latest.start
            keys = mx.concatenate([rows.keys, latest.keys[:, new:]], 1)
            values = mx.concatenate([rows.values, latest.values[:, new:]], 1)
            mx.eval(keys, values)
            self._rows[layer] = LayerKV(keys, values, rows.start)

    def layers(self) -> dict[int, RecordedKV]:
        """Returns all that was gathered."""
        return {layer: RecordedKV(rows, self._windows[layer]) for layer, rows in self._rows.items()}


class ChainLogits(Protocol):
    """A drafter's logits over a text. ids: (width,) the tokens of their columns, None for all. depths: how many
    depths differ."""

    ids: mx.array | None
    depths: int

    def begin(self, outputs: TargetOutputs) -> None:
        """Starts on another text."""

    def logits(self, depth: int, start: int, end: int) -> mx.array:
        """Returns those of tokens [start, end) of the reply, drafted at `depth`: (end - start, width). `start` must
        not decrease."""


def chain_logits(drafter: Drafter, target: CachedModel, longest: int) -> ChainLogits | None:
    """Returns the logits of a draft model or a head of one layer that drafts token by token; None for any other
    drafter."""
    if drafter.traits.shape != "chain":
        return None
    if isinstance(drafter, DraftModel):
        return _DraftModelLogits(drafter)
    if isinstance(drafter, Eagle3) and drafter.head.config.windows == (None,):
        return _Eagle3Logits(drafter, target, longest)
    return None


class _DraftModelLogits:
    """A draft model, which sees the same text at every depth."""

    depths = 1

    def __init__(self, drafter: DraftModel) -> None:
        self._drafter = drafter
        self.ids: mx.array | None = drafter.ids

    def begin(self, outputs: TargetOutputs) -> None:
        self._text = outputs.text
        self._drafter.rewind(0)

    def logits(self, depth: int, start: int, end: int) -> mx.array:
        before = self._text.prompt - 1
        return self._drafter.logits_along(self._text.tokens[: before + end], before + start)


class _Eagle3Logits:
    """The head unrolled as in training: depth 0 reads the target's states, deeper ones the head's own output."""

    def __init__(self, drafter: Eagle3, target: CachedModel, longest: int) -> None:
        self._head, own = drafter.head, drafter.head.config.own_embedding
        self._embed = drafter.head.embed_tokens if own else embed(target.model)
        self.ids: mx.array | None = drafter.head.ids
        self.depths = longest

    def begin(self, outputs: TargetOutputs) -> None:
        assert outputs.states is not None
        tokens = outputs.text.tokens
        head, pairs = self._head, len(tokens) - 2  # the pair of the last but one token has nothing to predict
        hidden = head.fuse(outputs.states[:pairs].astype(head.norm.weight.dtype))[None]
        following = mx.array(tokens[1 : pairs + 1], mx.int32)
        embedded = self._embed(following)[None].astype(hidden.dtype)
        attend, first = _UnrolledAttention(head), outputs.text.prompt - 2
        self._hidden: list[mx.array] = []
        for depth in range(self.depths):
            hidden = head(hidden, embedded, attend)
            if depth == 0:
                hidden, embedded = hidden[:, first:], embedded[:, first:]
            mx.eval(hidden)
            self._hidden.append(hidden[0])
            hidden = shift(hidden, 1, 1)

    def logits(self, depth: int, start: int, end: int) -> mx.array:
        return self._head.logits(self._hidden[depth][start:end])


class _UnrolledAttention(Unrolled):
    """Unrolled attention whose first depth, over the whole prompt, does not hold all scores in memory at once."""

    def __init__(self, head: Eagle3Head) -> None:
        super().__init__(head)
        self._rope, self._scale = head.rope, head.scale

    def __call__(self, queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        if self._keys:
            return super().__call__(queries, keys, values)
        self._keys.append(self._rope(keys, offset=0))
        self._values.append(values)
        queries = self._rope(queries, offset=0)
        return mx.fast.scaled_dot_product_attention(queries, self._keys[0], values, scale=self._scale, mask="causal")
