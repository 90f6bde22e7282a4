"""EAGLE-3 (Li 2025, arXiv 2503.01840): the head's network, and the drafter that runs it as chains or as the dynamic
trees of EAGLE-2 (Li 2024, arXiv 2406.16858).

The head is one decoder layer over fused hidden states of the target:

    states at t_i, (3 x target hidden) -> fc -> h_i      embedding of t_(i+1) -> e_(i+1)
    x = h_i + attention([norm(e_(i+1)), norm(h_i)]);  x = x + mlp(norm(x));  logits of t_(i+2) = lm_head(norm(x))

At the next drafted token x replaces h. A head may have further layers, which are ordinary ones. A parallel head
(P-EAGLE, vllm-project/speculators, `src/speculators/models/peagle`) drafts all tokens after the first in one more
pass, over slots that hold a mask in place of the state and of the token. Parameter names, and the variants that
`Eagle3Config` knows, are those of the Speculators layout (vllm-project/speculators,
`src/speculators/models/eagle3/core.py` and `model_definitions.py`), so a checkpoint loads as it is. The embedding is
the target's.

Pairs, and the cache that holds them, are explained in `engine.drafters.head_drafter`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.backend.mlx_lm_imports import FeedForward, KVCache
from engine.drafters import Draft, DraftContext, Needs, Traits
from engine.drafters.chain import draw_rows
from engine.drafters.dynamic_tree import DynamicTree, TreeHead
from engine.drafters.head_drafter import SINK, PairDrafter
from engine.drafters.head_layers import HeadAttention, HeadConfig, LayeredHead
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import Attend, RowsPass
from engine.together import run
from engine.tree.rotary_positions import rows_as_batch

# How many tokens back a head of one layer sees: as many as most published ones were trained on (SafeAILab/EAGLE issue
# 311). One of more layers, which takes as many times as long to read a token, reaches back as much less.
REACH = 2048


@dataclass(frozen=True, kw_only=True)
class Eagle3Config(HeadConfig):
    """norm_before_residual: the attention block adds to the normed hidden state instead of to the plain one. qk_norm:
    queries and keys are normed per head, as Qwen3's are. norm_before_fc: all states are normed together before they are
    fused; fc_norm: those of each tap by themselves. norm_output: what replaces h is normed already. mask_id: the
    token in the slots of a parallel head, None for a head that drafts step by step."""

    rms_norm_eps: float = 1e-5
    own_output: bool = True
    norm_before_residual: bool = False
    qk_norm: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    mask_id: int | None = None


class _Layer(nn.Module):
    """The first layer reads two rows side by side (`wide`), the hidden state and the embedding; further ones are
    ordinary."""

    def __init__(self, config: Eagle3Config, wide: bool) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        if wide:
            self.hidden_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = HeadAttention(config, (1 + wide) * config.hidden_size, config.qk_norm)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        self.norm_before_residual = config.norm_before_residual

    def __call__(self, hidden: mx.array, attend: Attend, embedded: mx.array | None = None) -> mx.array:
        if embedded is None:
            x = hidden + self.self_attn(self.input_layernorm(hidden), attend)
        else:
            normed = self.hidden_norm(hidden)
            both = mx.concatenate([self.input_layernorm(embedded), normed], -1)
            x = (normed if self.norm_before_residual else hidden) + self.self_attn(both, attend)
        out: mx.array = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Eagle3Head(LayeredHead):
    """The network alone."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__(config)
        self.config = config
        if config.norm_before_fc:
            self.input_norm = nn.RMSNorm(config.feature_size, config.rms_norm_eps)
        if config.fc_norm:
            size = config.feature_size // len(config.taps)
            self.fc_norm = [nn.RMSNorm(size, config.rms_norm_eps) for _ in config.taps]
        self.layers = [_Layer(config, wide=number == 0) for number in range(len(config.windows))]
        if config.mask_id is not None:
            self.mask_hidden = mx.zeros((1, 1, config.feature_size))

    def read_as(self, taps: tuple[int, ...], norm_before_residual: bool) -> Eagle3Head:
        """Returns a head of the same weights that is read in another way, for a trial: see `Eagle3Config`."""
        other, layer = copy(self), copy(self.layers[0])
        other.config = replace(self.config, taps=taps, norm_before_residual=norm_before_residual)
        layer.norm_before_residual = norm_before_residual
        other.layers = [layer, *self.layers[1:]]
        return other

    @property
    def scale(self) -> float:
        """The factor of the attention's scores."""
        return float(self.config.head_dim**-0.5)

    def fuse(self, features: mx.array) -> mx.array:
        """Returns the target's states (..., feature_size) fused to hidden states (..., hidden)."""
        if "input_norm" in self:
            features = self.input_norm(features)
        if "fc_norm" in self:
            parts = mx.split(features, len(self.fc_norm), -1)
            features = mx.concatenate([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        out: mx.array = self.fc(features)
        return out

    def __call__(self, hidden: mx.array, embedded: mx.array, *attends: Attend) -> mx.array:
        """Returns the hidden states one drafted step on, for every row: (batch, n, hidden) twice, to the same shape."""
        out: mx.array = self.layers[0](hidden, attends[0], embedded)
        for layer, attend in zip(self.layers[1:], attends[1:], strict=True):
            out = layer(out, attend)
        return self.norm(out) if self.config.norm_output else out

    def logits(self, hidden: mx.array, project: Callable[[mx.array], mx.array] | None = None) -> mx.array:
        """Returns logits (..., draft_vocab_size) of states (..., hidden); column i is the target's token `ids[i]`.
        project: the target's output matrix, for a head without one of its own."""
        output: Any = self.lm_head if "lm_head" in self else project
        out: mx.array = output(hidden if self.config.norm_output else self.norm(hidden))
        return out


class Eagle3(PairDrafter):
    """Drafts with `head` for `target`. trees: whether to branch; else chains. A parallel head drafts chains."""

    name = "eagle3"
    head: Eagle3Head

    def __init__(self, head: Eagle3Head, target: CachedModel, trees: bool = False) -> None:
        self.head = head
        is_parallel = head.config.mask_id is not None
        needs = Needs(head.config.taps, token_map=head.token_map)
        traits = Traits(branches=trees and not is_parallel, one_pass=is_parallel)
        super().__init__(target, needs, traits, [KVCache() for _ in head.layers], [head.rope])
        # A head with windows of its own sees what it was trained to see. `RotationByLength.follow` takes keys to be at
        # positions 0, 1 and so on, without a gap.
        sees_all = any(head.config.windows) or self._rotation.threshold is not None
        self.reach = None if sees_all else REACH // len(head.layers)

    def fuse(self, states: mx.array) -> mx.array:
        return run(RowsPass(self.head.fuse, [states.astype(self.head.dtype)]))

    def draft(self, context: DraftContext, hidden: mx.array, length: int) -> Draft:
        mask_id = self.head.config.mask_id
        if length > 1 and mask_id is not None:
            return self._block(context, hidden[-1:], length, mask_id)
        if length == 1 or not self.traits.branches:
            return super().draft(context, hidden, length)
        head = TreeHead(self.steps, self.logits, self.needs.token_map, self.entries)
        return DynamicTree(head, context, length).draft(hidden[-1:])

    def steps(
        self, hidden: mx.array, tokens: mx.array, position: int | None = None, mask: mx.array | None = None
    ) -> mx.array:
        """Runs the head over one pair a row, (n, hidden) and (n,); returns the next hidden states (n, hidden).

        The rows follow each other; or, with a `position` and a `mask` (n, pairs + n), they are all at that position,
        counted in pairs of the cache, and see what the mask allows within their window.
        """
        first = self.entries
        place = first if position is None else position
        windows = zip(self._caches, self.head.config.windows, strict=True)
        attends = [self._attend(cache, first, place, mask, window) for cache, window in windows]
        return run(RowsPass(self.head.__call__, [hidden, self.embed(tokens).astype(hidden.dtype)], attends))

    def _attend(self, cache: KVCache, first: int, position: int, mask: mx.array | None, window: int | None) -> Attend:
        """Returns the attention of one layer after `first` pairs, see `steps`. window: how many pairs a row sees; None
        for all or, with a `reach`, the first SINK and the layer's part of that."""
        head, sink = self.head, 0
        if window is None and self.reach is not None:
            window, sink = self.reach // len(head.layers), SINK

        def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
            rows = queries.shape[2]
            self._rotation.apply()  # a reply of another length may have had its turn since
            rotate = head.rope if mask is None else rows_as_batch(head.rope)
            offset = position + self._gap
            queries, keys = rotate(queries, offset=offset), rotate(keys, offset=offset)
            keys, values = cache.update_and_fetch(keys, values)
            seen: mx.array | str | None = mask
            if window is not None and first + rows > window + sink:
                seen = _within(window, sink, first, rows, position, mask)
            elif mask is None and rows > 1:
                seen = "causal"
            return mx.fast.scaled_dot_product_attention(queries, keys, values, scale=head.scale, mask=seen)

        return attend

    def _block(self, context: DraftContext, hidden: mx.array, length: int, mask_id: int) -> Draft:
        """Returns a chain whose tokens after the first come from one pass over the token `mask_id`; each is drawn by
        itself."""
        head, slots = self.head, length - 1
        masked = mx.broadcast_to(head.fuse(head.mask_hidden[0]), (slots, hidden.shape[-1]))
        rows = self.steps(masked.astype(hidden.dtype), mx.full(slots, mask_id, mx.int32))
        return draw_rows(context, self.logits(mx.concatenate([hidden, rows])), self.needs.token_map)


def _within(window: int, sink: int, first: int, rows: int, position: int, mask: mx.array | None) -> mx.array:
    """Returns what each row sees of `first` pairs and of the rows: of the pairs up to its own the last `window` and the
    first `sink`. mask: of rows that all stand at `position`; None: they follow each other."""
    pairs = mx.arange(first + rows)
    place = position if mask is not None else first + mx.arange(rows)[:, None]
    seen = (pairs > place - window) | (pairs < sink)
    return seen & (mask if mask is not None else pairs <= place)
