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

Pairs, and the cache that holds them, are explained in `engine.drafters.pair_drafter`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.backend.mlx_lm_imports import KVCache, create_causal_mask
from engine.drafters import Draft, DraftContext, Needs, Shape, Traits
from engine.drafters.chain import draw_rows
from engine.drafters.dynamic_tree import DynamicTree, TreeHead
from engine.drafters.feed_forward import FeedForward
from engine.drafters.pair_drafter import PairDrafter
from engine.rotary_embedding import rotary_embedding
from engine.target.cached_model import CachedModel
from engine.tree.rotary_positions import rows_as_batch

Attend = Callable[[mx.array, mx.array, mx.array], mx.array]


@dataclass(frozen=True)
class Eagle3Config:
    """Sizes of a head. points: which hidden states it reads, in the sense of `engine.target.layer_taps`.

    feature_size: width of those states side by side. vocab_size: rows of the target's embedding;
    draft_vocab_size: rows of the output matrix. norm_before_residual: the attention block adds
    to the normed hidden state instead of to the plain one. qk_norm: queries and keys are normed per head, as
    Qwen3's are. norm_before_fc: all states are normed together before they are fused; fc_norm: those of each
    point by themselves. norm_output: what replaces h is normed already. own_output, own_embedding: an output matrix or
    an embedding of its own, not the target's. windows: of each layer, how many pairs it sees, None for all. mask_id:
    the token in the slots of a parallel head, None for a head that drafts step by step."""

    points: tuple[int, ...]
    feature_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] | None = field(default=None)
    max_position_embeddings: int = 8192
    norm_before_residual: bool = False
    attention_bias: bool = False
    qk_norm: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    own_output: bool = True
    own_embedding: bool = False
    windows: tuple[int | None, ...] = (None,)
    mask_id: int | None = None


class _Attention(nn.Module):
    """width: of the rows that it reads."""

    def __init__(self, config: Eagle3Config, width: int) -> None:
        super().__init__()
        size, bias = config.head_dim, config.attention_bias
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.q_proj = nn.Linear(width, self.heads * size, bias=bias)
        self.k_proj = nn.Linear(width, self.kv_heads * size, bias=bias)
        self.v_proj = nn.Linear(width, self.kv_heads * size, bias=bias)
        self.o_proj = nn.Linear(self.heads * size, config.hidden_size, bias=bias)
        if config.qk_norm:
            self.q_norm = nn.RMSNorm(size, config.rms_norm_eps)
            self.k_norm = nn.RMSNorm(size, config.rms_norm_eps)

    def __call__(self, x: mx.array, attend: Attend) -> mx.array:
        batch, n, _ = x.shape
        queries = self.q_proj(x).reshape(batch, n, self.heads, -1).swapaxes(1, 2)
        keys = self.k_proj(x).reshape(batch, n, self.kv_heads, -1).swapaxes(1, 2)
        if "q_norm" in self:
            queries, keys = self.q_norm(queries), self.k_norm(keys)
        values = self.v_proj(x).reshape(batch, n, self.kv_heads, -1).swapaxes(1, 2)
        out: mx.array = self.o_proj(attend(queries, keys, values).swapaxes(1, 2).reshape(batch, n, -1))
        return out


class _Layer(nn.Module):
    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config, 2 * config.hidden_size)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        self.norm_before_residual = config.norm_before_residual

    def __call__(self, hidden: mx.array, embedded: mx.array, attend: Attend) -> mx.array:
        normed = self.hidden_norm(hidden)
        residual = normed if self.norm_before_residual else hidden
        x = residual + self.self_attn(mx.concatenate([self.input_layernorm(embedded), normed], -1), attend)
        out: mx.array = x + self.mlp(self.post_attention_layernorm(x))
        return out


class _FurtherLayer(nn.Module):
    """An ordinary decoder layer after the first."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config, config.hidden_size)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)

    def __call__(self, x: mx.array, attend: Attend) -> mx.array:
        x = x + self.self_attn(self.input_layernorm(x), attend)
        out: mx.array = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Eagle3Head(nn.Module):
    """The network alone: no cache, no positions, no distribution.

    `attend(queries, keys, values)`, one for each layer, comes from the caller, who knows them: heads-first arrays
    (batch, heads, n, head_dim) before rotation, to the attended values in the queries' shape. `self.rope` rotates.
    `ids` (draft_vocab_size,): the target's id of each row of the output matrix, increasing."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.feature_size, config.hidden_size, bias=False)
        if config.norm_before_fc:
            self.input_norm = nn.RMSNorm(config.feature_size, config.rms_norm_eps)
        if config.fc_norm:
            size = config.feature_size // len(config.points)
            self.fc_norm = [nn.RMSNorm(size, config.rms_norm_eps) for _ in config.points]
        self.layers = [_Layer(config), *(_FurtherLayer(config) for _ in config.windows[1:])]
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        if config.own_output:
            self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        if config.own_embedding:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        if config.mask_id is not None:
            self.mask_hidden = mx.zeros((1, 1, config.feature_size))
        self._ids = mx.arange(config.draft_vocab_size)
        self._project: Callable[[mx.array], mx.array] | None = None
        self._rope = rotary_embedding(
            config.head_dim, config.rope_theta, False, config.rope_scaling, config.max_position_embeddings
        )

    @property
    def ids(self) -> mx.array:
        return self._ids

    def set_draft_vocabulary(self, ids: mx.array) -> None:
        """Makes the columns of the logits stand for the target's tokens `ids` (draft_vocab_size,), increasing."""
        self._ids = ids.astype(mx.int32)

    def read_as(self, points: tuple[int, ...], norm_before_residual: bool) -> Eagle3Head:
        """Returns a head of the same weights that is read in another way, for a trial: see `Eagle3Config`."""
        other, layer = copy(self), copy(self.layers[0])
        other.config = replace(self.config, points=points, norm_before_residual=norm_before_residual)
        layer.norm_before_residual = norm_before_residual
        other.layers = [layer, *self.layers[1:]]
        return other

    def tie_lm_head(self, output: Callable[[mx.array], mx.array]) -> None:
        """Uses the target's output matrix in place of one of its own. output: from states (..., hidden) to logits."""
        self._project = output

    @property
    def rope(self) -> Any:
        return self._rope

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
        out: mx.array = self.layers[0](hidden, embedded, attends[0])
        for layer, attend in zip(self.layers[1:], attends[1:], strict=True):
            out = layer(out, attend)
        return self.norm(out) if self.config.norm_output else out

    def logits(self, hidden: mx.array) -> mx.array:
        """Returns logits (..., draft_vocab_size) of states (..., hidden); column i is the target's token `ids[i]`."""
        project = self._project or self.lm_head
        out: mx.array = project(hidden if self.config.norm_output else self.norm(hidden))
        return out


class Eagle3(PairDrafter):
    """Drafts with `head` for `target`. trees: whether to branch; else chains. A parallel head drafts chains."""

    name = "eagle3"

    def __init__(self, head: Eagle3Head, target: CachedModel, trees: bool = False) -> None:
        self.head = head
        self.trees = trees and head.config.mask_id is None
        self.ids = head.ids
        shape: Shape = "tree" if self.trees else "chain" if head.config.mask_id is None else "block"
        needs = Needs(head.config.points, token_map=head.ids)
        super().__init__(target, needs, [KVCache() for _ in head.layers], Traits(shape), [head.rope])

    def fuse(self, states: mx.array) -> mx.array:
        return self.head.fuse(states.astype(self.head.norm.weight.dtype))

    def logits(self, hidden: mx.array) -> mx.array:
        return self.head.logits(hidden)

    def draft(self, context: DraftContext, hidden: mx.array, length: int) -> Draft:
        mask_id = self.head.config.mask_id
        if length > 1 and mask_id is not None:
            return self._block(context, hidden, length, mask_id)
        if length == 1 or not self.trees:
            return super().draft(context, hidden, length)
        head = TreeHead(self.steps, self.head.logits, self.head.ids)
        tree = DynamicTree(head, context, self.pairs, length)
        return tree.draft(hidden)

    def steps(
        self, hidden: mx.array, tokens: mx.array, position: int | None = None, mask: mx.array | None = None
    ) -> mx.array:
        """Runs the head over one pair a row, (n, hidden) and (n,); returns the next hidden states (n, hidden).

        The rows follow each other; or, with a `position` and a `mask` (n, pairs + n), they are all at that position and
        see what the mask says.
        """
        first = self.pairs
        place = first if position is None else position
        windows = zip(self._caches, self.head.config.windows, strict=True)
        attends = [self._attend(cache, first, place, mask, window) for cache, window in windows]
        embed = self.head.embed_tokens if self.head.config.own_embedding else self.target.embed
        return self.head(hidden[None], embed(tokens)[None].astype(hidden.dtype), *attends)[0]

    def _attend(self, cache: KVCache, first: int, position: int, mask: mx.array | None, window: int | None) -> Attend:
        """Returns the attention of one layer after `first` pairs, see `steps`. window: how many pairs a row sees."""
        head = self.head

        def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
            rows = queries.shape[2]
            rotate = head.rope if mask is None else rows_as_batch(head.rope)
            queries, keys = rotate(queries, offset=position), rotate(keys, offset=position)
            keys, values = cache.update_and_fetch(keys, values)
            seen: mx.array | str | None = mask
            if window is not None and first + rows > window:
                seen = _within(window, first, rows, position, mask)
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
        return draw_rows(context, head.logits(mx.concatenate([hidden, rows])), head.ids)


def _within(window: int, first: int, rows: int, position: int, mask: mx.array | None) -> mx.array:
    """Returns what each row sees of `first` pairs and of the rows, no further back than `window` pairs. mask: of rows
    that all stand at `position`; None: they follow each other."""
    if mask is None:
        causal: mx.array = create_causal_mask(rows, first, window_size=window)
        return causal
    return mask & (mx.arange(first + rows) > position - window)
