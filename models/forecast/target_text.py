"""A text that the target wrote, and what one pass of the target over it computes (teacher forcing)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import mlx.core as mx

from engine.cache.model_cache import LayerKV
from engine.cache.sliding_window import SlidingKVCache
from engine.drafters import Needs
from engine.target.cached_model import PREFILL_CHUNK, CachedModel
from engine.target.sharded_target import check_present
from engine.target.target_view import TargetView


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
class TargetOutputs:
    """What the target computes over a text. logits: (n, vocabulary), row i for token i of the reply. states: (tokens,
    width) as a drafter's `LayerTaps` have them, or None if no drafter reads any. kv: by layer, for a drafter that
    reads keys and values, from the first token on that the layer saw at the start of the reply. windows: by layer, how
    many tokens it sees, None for all."""

    text: TargetText
    logits: mx.array
    states: mx.array | None
    kv: Mapping[int, LayerKV] = field(default_factory=dict)
    windows: Mapping[int, int | None] = field(default_factory=dict)


class RecordedView(TargetView):
    """A view of a target that has read a whole text: it shows what was to be seen after `seen` tokens of it. Any hidden
    state can be read any number of times."""

    def __init__(self, model: CachedModel, outputs: TargetOutputs) -> None:
        self.model = model
        self.seen = 0
        self._outputs = outputs

    @property
    def length(self) -> int:
        return self.seen

    def hidden(self, taps: Sequence[int], start: int, end: int) -> mx.array:
        assert self._outputs.states is not None
        return self._outputs.states[start:end]

    def kv(self, layer: int) -> LayerKV:
        rows, window = self._outputs.kv[layer], self._outputs.windows[layer]
        start = rows.start if window is None else max(rows.start, self.seen - window)
        shown = slice(start - rows.start, self.seen - rows.start)
        return LayerKV(rows.keys[:, shown], rows.values[:, shown], start)


def read_text(target: CachedModel, text: TargetText, needs: Needs) -> TargetOutputs:
    """Runs the target over `text`, in as few passes as a prompt takes, or as its windows allow where a drafter reads
    keys and values. needs: what is recorded. Leaves the cache empty."""
    target.rewind(0)
    target.read_as(len(text.tokens))
    target.record(needs.taps)
    entries = {layer: target.cache.entries[layer] for layer in needs.kv_layers}
    windows = {layer: one.max_size if isinstance(one, SlidingKVCache) else None for layer, one in entries.items()}
    longest_pass = min([PREFILL_CHUNK, *filter(None, windows.values())])  # after it each window still shows all of it
    kv: dict[int, LayerKV] = {}
    first, end, rows = text.prompt - 1, len(text.tokens) - 1, []
    try:
        for _ in target.prefill(text.tokens[:first]):
            pass
        for start in range(first, end, longest_pass):
            _extend(kv, target, windows)
            rows.append(target.forward(mx.array(text.tokens[start : min(start + longest_pass, end)], mx.int32)))
            mx.eval(rows[-1], target.cache.arrays(), target.taps.arrays() if target.taps else [])
        _extend(kv, target, windows)
        states = target.taps.take(0, end) if target.taps else None
        logits = mx.concatenate(rows)
        mx.eval(logits, [] if states is None else states)
        check_present(target.absent)
        return TargetOutputs(text, logits, states, kv, windows)
    finally:
        target.record()
        target.rewind(0)
        mx.clear_cache()


def _extend(kv: dict[int, LayerKV], target: CachedModel, windows: Mapping[int, int | None]) -> None:
    """Adds the keys and values of the tokens that have gone through the target since, as far as it sees them."""
    for layer in windows if target.length else ():
        latest = target.cache.kv(layer)
        rows = kv.get(layer, LayerKV(latest.keys[:, :0], latest.values[:, :0], latest.start))
        new = rows.start + rows.keys.shape[1] - latest.start
        keys = mx.concatenate([rows.keys, latest.keys[:, new:]], 1)
        values = mx.concatenate([rows.values, latest.values[:, new:]], 1)
        mx.eval(keys, values)
        kv[layer] = LayerKV(keys, values, rows.start)
