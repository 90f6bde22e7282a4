"""DFlash block drafters (arXiv 2602.06036): the network, and the drafter that proposes a whole block in one pass.

Several of the target's layers are fused into one context row for every committed token:

    c = hidden_norm(fc([states at the taps]))

The block is the last committed token and masks after it. Each of its layers attends to the context's keys and values,
which are computed of c and kept, and to the block itself, in both directions unless the head is causal. The state in
the slot of a mask gives the logits of the token there. Only committed tokens enter the cache.

What a slot's logits become, by the head's sequential part:

    none        DFlash: the slots are independent of each other
    Selector    DFlash 2 (z-lab dflash 0.1.0, `dflash/model.py`): the best candidates of a slot, scored with the token
                that was drafted before; its layers also have short dynamic convolutions along the block
    Markov      DSpark (DeepSeek's DeepSpec; vllm-project/speculators, `models/dspark/model_definitions.py`): a low-rank
                bias that depends on the token drafted before

Each token is drawn from what its slot became, given those drafted before it, so a draft has a chain's distribution.

A tree costs no more passes than a chain: every level takes its children from the slot at its depth, given the node
before where there is a sequential part, and the best paths are kept (DDTree, arXiv 2604.12989).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import mlx.core as mx
import mlx.nn as nn

from engine.backend.mlx_lm_imports import FeedForward, KVCache, create_causal_mask
from engine.drafters import Draft, DraftContext, Needs, Traits
from engine.drafters.chain import draw_chain
from engine.drafters.dynamic_tree import DynamicTree, TreeHead
from engine.drafters.head_drafter import HeadDrafter
from engine.drafters.head_layers import HeadAttention, HeadConfig, LayeredHead
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import Attend, RowsPass
from engine.together import run
from engine.top_k_top_p import largest

Sequential = Literal["none", "selector", "markov", "gated_markov"]


@dataclass(frozen=True, kw_only=True)
class DFlashConfig(HeadConfig):
    """causal: of each layer, whether a slot sees no later one. block: the most inputs of a pass. from_anchor: the first
    input, the last committed token, already has a token to propose. mask_id: the token in slots. rank, candidates: of
    the sequential part. conv_kernel, conv_group: of the convolutions, 0 for none. embedding_scale: of what is embedded.
    output_multiplier and softcap (0 for none) shape the logits."""

    block: int
    mask_id: int
    causal: tuple[bool, ...]
    from_anchor: bool = False
    sequential: Sequential = "none"
    rank: int = 0
    candidates: int = 0
    conv_kernel: int = 0
    conv_group: int = 1
    embedding_scale: float = 1.0
    output_multiplier: float = 1.0
    softcap: float = 0.0


class _Attention(HeadAttention):
    """Attends from the block to the context and to the block."""

    def __init__(self, config: DFlashConfig, layer: int) -> None:
        super().__init__(config, config.hidden_size, normed=True)
        self._window, self._causal = config.windows[layer], config.causal[layer]

    def after(self, rope: Any, cache: KVCache) -> Attend:
        """Returns the attention of a block after the context in the cache, which it leaves as it was. rope: rotates."""

        def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
            known, rows = cache.offset, queries.shape[2]
            keys, values = cache.update_and_fetch(rope(keys, offset=known), values)
            cache.trim(rows)
            first = max(known + 1 - self._window, 0) if self._window is not None else 0  # what no row sees
            mask, queries = self._mask(rows, known - first), rope(queries, offset=known)
            seen = keys[:, :, first:], values[:, :, first:]
            return mx.fast.scaled_dot_product_attention(queries, *seen, scale=self._size**-0.5, mask=mask)

        return attend

    def _mask(self, rows: int, known: int) -> mx.array | None:
        """Returns what each row of the block sees of `known` context rows and of the block, None for everything."""
        if self._causal:
            mask: mx.array = create_causal_mask(rows, known, window_size=self._window)
            return mask
        if self._window is None:
            return None
        queries, keys = known + mx.arange(rows)[:, None], mx.arange(known + rows)[None]
        return mx.abs(queries - keys) < self._window


class _Convolution(nn.Module):
    """Two short convolutions along the block around a part of a layer, one before and one after it. Their kernels are
    a fixed one plus one that the rows choose, shared by the channels of a group."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        hidden, self._kernel = config.hidden_size, config.conv_kernel
        self._groups = hidden // config.conv_group
        self.base_kernel = mx.zeros((2, self._kernel, hidden))
        self.kernel_projection = nn.Linear(hidden, 2 * self._kernel * self._groups, bias=False)

    def around(self, x: mx.array, part: Callable[[mx.array], mx.array]) -> mx.array:
        """Returns `part` of the convolved rows (1, n, hidden), convolved again by the kernels of the same rows."""
        chosen = self.kernel_projection(x).reshape(*x.shape[:2], 2, self._kernel, self._groups, 1)
        return self._convolve(part(self._convolve(x, chosen, 0)), chosen, 1)

    def _convolve(self, x: mx.array, chosen: mx.array, which: int) -> mx.array:
        total = mx.zeros_like(x)
        for back in range(self._kernel):
            shifted = mx.pad(x, [(0, 0), (back, 0), (0, 0)])[:, : x.shape[1]]
            grouped = shifted.reshape(*x.shape[:2], self._groups, -1)
            total = total + self.base_kernel[which, back] * shifted
            total = total + (chosen[:, :, which, back] * grouped).reshape(x.shape)
        return total


class _Layer(nn.Module):
    def __init__(self, config: DFlashConfig, layer: int) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config, layer)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = FeedForward(config.hidden_size, config.intermediate_size)
        if config.conv_kernel:
            self.attention_conv = _Convolution(config)
            self.mlp_conv = _Convolution(config)

    def __call__(self, x: mx.array, attend: Attend) -> mx.array:
        def attention(rows: mx.array) -> mx.array:
            return self.self_attn(rows, attend)

        x = x + self._part("attention_conv", self.input_layernorm(x), attention)
        return x + self._part("mlp_conv", self.post_attention_layernorm(x), self.mlp)

    def _part(self, convolution: str, x: mx.array, part: Callable[[mx.array], mx.array]) -> mx.array:
        return self[convolution].around(x, part) if convolution in self else part(x)


class _Selector(nn.Module):
    """The sequential part of DFlash 2: scores candidates by the token before them and the state of their slot."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.predecessor_codebook = mx.zeros((config.vocab_size, config.rank))
        self.successor_codebook = mx.zeros((config.vocab_size, config.rank))
        self.hidden_projection = nn.Linear(config.hidden_size, config.rank, bias=False)
        self._candidates = config.candidates

    def __call__(self, logits: mx.array, hidden: mx.array, before: mx.array) -> mx.array:
        """Returns logits (n, vocabulary) that leave the candidates alone, of those (1, vocabulary) and the state
        (1, hidden) of a slot and the tokens (n,) that may come before it."""
        found = largest(logits, self._candidates)
        wanted = self.predecessor_codebook[before] * self.hidden_projection(hidden)
        scores = mx.take_along_axis(logits, found, -1) + wanted @ self.successor_codebook[found.squeeze(0)].T
        others = mx.full((before.size, logits.shape[-1]), -math.inf, scores.dtype)
        return mx.put_along_axis(others, mx.broadcast_to(found, scores.shape), scores, -1)


class _Markov(nn.Module):
    """The sequential part of DSpark: a bias of low rank by the token before, gated by the slot's state or not."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(config.vocab_size, config.rank)
        self.markov_w2 = nn.Linear(config.rank, config.draft_vocab_size, bias=False)
        if config.sequential == "gated_markov":
            self.gate_proj = nn.Linear(config.hidden_size + config.rank, config.rank)

    def __call__(self, logits: mx.array, hidden: mx.array, before: mx.array) -> mx.array:
        """Returns the logits (n, width) of a slot, of its own (1, width), its state (1, hidden) and the tokens (n,)
        that may come before it."""
        embedded = self.markov_w1(before)
        if "gate_proj" in self:
            state = mx.broadcast_to(hidden, (before.size, hidden.shape[-1]))
            embedded = mx.sigmoid(self.gate_proj(mx.concatenate([state, embedded], -1))) * embedded
        return logits + self.markov_w2(embedded)


class DFlashHead(LayeredHead):
    """The network alone: no positions but those of its caches, no distribution."""

    def __init__(self, config: DFlashConfig) -> None:
        super().__init__(config)
        self.config = config
        self.hidden_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.layers = [_Layer(config, layer) for layer in range(len(config.windows))]
        if config.sequential == "selector":
            self.candidate_selector = _Selector(config)
        elif config.sequential != "none":
            self.markov_head = _Markov(config)

    def remember(self, states: mx.array, *keeps: Callable[[mx.array, mx.array], mx.array]) -> mx.array:
        """Has each layer keep the keys, not rotated yet, and values of the target's states (..., feature_size) of
        committed tokens, as context; returns the context rows (..., hidden)."""
        context = self.fuse(states)
        for layer, keep in zip(self.layers, keeps, strict=True):
            keep(*layer.self_attn.keys_values(context))
        return context

    def fuse(self, states: mx.array) -> mx.array:
        """Returns the context rows (..., hidden) of the target's states (..., feature_size)."""
        context: mx.array = self.hidden_norm(self.fc(states))
        return context

    def __call__(self, embedded: mx.array, *attends: Attend) -> mx.array:
        """Returns the normed states of blocks whose inputs are embedded as (batch, n, hidden), in the same shape."""
        x = (embedded * self.config.embedding_scale).astype(self.dtype)
        for layer, attend in zip(self.layers, attends, strict=True):
            x = layer(x, attend)
        normed: mx.array = self.norm(x)
        return normed

    def logits(self, hidden: mx.array, project: Callable[[mx.array], mx.array] | None = None) -> mx.array:
        """Returns logits (n, width) of states (n, hidden). project: the target's output matrix, for a head without one
        of its own."""
        output: Any = self.lm_head if "lm_head" in self else project
        logits: mx.array = output(hidden) * self.config.output_multiplier
        softcap = self.config.softcap
        return mx.tanh(logits / softcap) * softcap if softcap else logits

    def following(self, logits: mx.array, hidden: mx.array, before: mx.array) -> mx.array:
        """Returns the logits (n, width) of one slot after each of the tokens (n,) before it, of the slot's own
        (1, width) and its state (1, hidden)."""
        if self.config.sequential == "none":
            return mx.broadcast_to(logits, (before.size, logits.shape[-1]))
        part = self.candidate_selector if self.config.sequential == "selector" else self.markov_head
        out: mx.array = part(logits, hidden, before)
        return out


class DFlash(HeadDrafter):
    """Drafts blocks with `head` for `target`. taps, from_anchor: other than the head's config says, for a trial.
    trees: whether to branch.

    Raises ModelError for a target whose states cannot be read.
    """

    name = "dflash"
    head: DFlashHead

    def __init__(
        self,
        head: DFlashHead,
        target: CachedModel,
        taps: tuple[int, ...] | None = None,
        from_anchor: bool | None = None,
        trees: bool = False,
    ) -> None:
        self.head, config = head, head.config
        self._from_anchor = config.from_anchor if from_anchor is None else from_anchor
        traits = Traits(trees, one_pass=True, longest=config.block - (not self._from_anchor))
        needs = Needs(taps or config.taps, token_map=head.token_map)
        super().__init__(target, needs, traits, [KVCache() for _ in head.layers], [head.rope])

    def extend(self, states: mx.array, following: Sequence[int]) -> mx.array:
        def keeps(cache: KVCache) -> Callable[[mx.array, mx.array], mx.array]:
            def keep(keys: mx.array, values: mx.array) -> mx.array:
                cache.update_and_fetch(self._rotate(keys, cache.offset), values)
                return keys

            return keep

        states = states.astype(self.head.dtype)
        return run(RowsPass(self.head.remember, [states], [keeps(cache) for cache in self._caches]))

    def draft(self, context: DraftContext, hidden: mx.array, length: int) -> Draft:
        """A tree reads the slots level by level: what it knows of a node is its token, and no pass is needed."""
        last, deepest = context.tokens[-1], min(length, self.traits.longest or length)
        block, before = self._block(last, deepest), mx.array([last], mx.int32)
        rows = self.logits(block)
        slots = iter([slice(slot, slot + 1) for slot in range(deepest)])
        ids = self.needs.token_map

        def next_logits(tokens: mx.array) -> mx.array:
            slot = next(slots)
            return self.head.following(rows[slot], block[slot], tokens.reshape(-1))

        if self.traits.branches and length > 1:

            def steps(_hidden: mx.array, tokens: mx.array, _position: int, _mask: mx.array) -> mx.array:
                return tokens[:, None]

            head = TreeHead(steps, next_logits, ids, deepest=deepest)
            return DynamicTree(head, context, length).draft(before[:, None])
        return draw_chain(context, next_logits(before), next_logits, deepest, ids)

    def _block(self, last: int, length: int) -> mx.array:
        """Returns the states (length, hidden) of the slots after the token `last`."""
        config = self.head.config
        inputs = length if self._from_anchor else length + 1
        block = mx.array([last] + [config.mask_id] * (inputs - 1), mx.int32)
        layers = zip(self.head.layers, self._caches, strict=True)
        attends = [layer.self_attn.after(self._rotate, cache) for layer, cache in layers]
        wanted = RowsPass(self.head.__call__, [self.embed(block)], attends)
        return (wanted.run() if config.conv_kernel else run(wanted))[-length:]  # a convolution goes along one block

    def _rotate(self, rows: mx.array, offset: int) -> mx.array:
        self._rotation.apply()  # a reply of another length may have had its turn since
        out: mx.array = self.head.rope(rows, offset=offset)
        return out
