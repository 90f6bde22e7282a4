"""Gemma 4's assistants: a few layers that read the target's own keys and values (transformers,
`models/gemma4_assistant`).

Each drafted token is one step from the token before it, t, and a state h of the target's width:

    x = pre_projection([embed(t), h]);  x = layers(x);  y = norm(x);  h' = post_projection(y);  logits = y @ embedding

First h is the target's last state after its final norm, then h'. The layers have queries alone: they attend to the
keys and values of the target's last layer of the same kind, full or sliding, that has its own. So there is no cache to
rewind, and every step of a draft stands at one position: that of the last token that the target has seen (as vLLM,
SGLang and mlx-vlm have it; transformers says one more).

With ordered embeddings (E2B, E4B) the tokens are in clusters. Only those of the best clusters have a probability.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.drafters import Draft, DraftContext, empty_draft
from engine.drafters.chain import draw_chain
from engine.drafters.head_drafter import LatestStateDrafter
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import JointPass, RowsPass, join_as
from engine.together import run


@dataclass(frozen=True)
class SharedKV:
    """The target's keys and values of one layer, (1, heads, n, head_dim) each, as a cache that layers read. offset: at
    which position they are asked for."""

    keys: mx.array
    values: mx.array
    offset: int

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        return self.keys, self.values


@dataclass(frozen=True)
class AssistantConfig:
    """Sizes of an assistant. backbone_size: numbers in a state of the target. clusters: of ordered embeddings, 0 for
    none; best_clusters: of them, how many have tokens with a probability. tied: the output matrix is the embedding."""

    backbone_size: int
    hidden_size: int
    vocab_size: int
    rms_norm_eps: float = 1e-6
    clusters: int = 0
    best_clusters: int = 0
    tied: bool = True


class _Clusters(nn.Module):
    """Which tokens belong to which cluster, and where the clusters are."""

    def __init__(self, config: AssistantConfig) -> None:
        super().__init__()
        self.centroids = nn.Linear(config.hidden_size, config.clusters, bias=False)
        self.token_ordering = mx.zeros(config.vocab_size, mx.int32)
        self._best = config.best_clusters

    def tokens(self, hidden: mx.array) -> mx.array:
        """Returns the tokens (n,) of the clusters that are best for a state (1, hidden)."""
        best = mx.argpartition(-self.centroids(hidden).squeeze(0), self._best - 1)[: self._best]
        return self.token_ordering.reshape(self.centroids.weight.shape[0], -1)[best].reshape(-1)


class _Inner(nn.Module):
    def __init__(self, config: AssistantConfig, layers: Sequence[Any]) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = list(layers)
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)


class AssistantHead(nn.Module):
    """The network alone. layers: decoder layers of mlx-lm's Gemma 4 that have no keys and values of their own; each has
    a `layer_type`."""

    def __init__(self, config: AssistantConfig, layers: Sequence[Any]) -> None:
        super().__init__()
        self.config = config
        self.model = _Inner(config, layers)
        self.pre_projection = nn.Linear(2 * config.backbone_size, config.hidden_size, bias=False)
        self.post_projection = nn.Linear(config.hidden_size, config.backbone_size, bias=False)
        if not config.tied:
            self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        if config.clusters:
            self.masked_embedding = _Clusters(config)

    @property
    def dtype(self) -> mx.Dtype:
        """The type that the head computes in."""
        return self.model.norm.weight.dtype

    @property
    def layer_types(self) -> tuple[str, ...]:
        """The kinds of layers whose keys and values it reads."""
        return tuple(sorted({layer.layer_type for layer in self.model.layers}))

    def __call__(self, embedded: mx.array, state: mx.array, cache: Sequence[SharedKV]) -> mx.array:
        """Returns what the output matrix reads, and `post_projection` for the state that follows: (1, n, hidden).

        embedded: (1, n, backbone) of tokens, scaled as the target scales them. state: likewise. cache: of each of
        `layer_types`.
        """
        x = self.pre_projection(mx.concatenate([embedded, state], -1))
        shared = dict(zip(self.layer_types, cache, strict=True))
        for layer in self.model.layers:
            entry = shared[layer.layer_type]
            x, _, _ = layer(x, shared_kv=entry.keys_and_values(), offset=entry.offset)
        out: mx.array = self.model.norm(x)
        return out

    def logits(self, hidden: mx.array) -> mx.array:
        """Returns logits (n, vocabulary) of what the output matrix reads, (n, hidden); with clusters n is 1."""
        if "masked_embedding" not in self:
            out: mx.array = (self.model.embed_tokens.as_linear if self.config.tied else self.lm_head)(hidden)
            return out
        tokens = self.masked_embedding.tokens(hidden)
        scores = hidden @ self.model.embed_tokens(tokens).T
        unlikely = mx.full((1, self.config.vocab_size), -math.inf, scores.dtype)
        return mx.put_along_axis(unlikely, tokens[None], scores, -1)


class Gemma4Assistant(LatestStateDrafter):
    """Drafts chains with `head` for `target`.

    kv_layers: by the kind of layer, the target's layer whose keys and values the head reads. later: whether every step
    stands one position later, as transformers has it, for a trial. Raises ModelError, or its kind UnsupportedCache, for
    a target that cannot show them.
    """

    name = "gemma4-assistant"

    def __init__(
        self, head: AssistantHead, target: CachedModel, kv_layers: Mapping[str, int], later: bool = False
    ) -> None:
        super().__init__(target, kv_layers=tuple(kv_layers.values()))
        self.head, self._later = head, later
        self._kv_layers = kv_layers

    def propose(self, context: DraftContext, length: int) -> Draft:
        """Nothing is proposed where the target's keys and values do not reach the last token yet, as in exact-verify
        between two blocks."""
        return empty_draft() if self.target.length < len(context.tokens) - 1 else super().propose(context, length)

    def for_another_reply(self, target: CachedModel) -> Gemma4Assistant:
        if target.shares_passes:
            join_as(self.head, target.model)
        return super().for_another_reply(target)

    def draft(self, context: DraftContext, state: mx.array, length: int) -> Draft:
        head, dtype = self.head, self.head.dtype
        shared = self._shared(len(context.tokens) - 2 + self._later)
        state = state.astype(dtype)

        def next_logits(token: mx.array) -> mx.array:
            nonlocal state
            embedded = self.target.embed(token).astype(dtype) * head.config.backbone_size**0.5
            wanted = JointPass(head, [embedded, state], shared, mx.array([shared[0].offset]))
            hidden = run(wanted) if self.target.shares_passes else wanted.run()
            state = head.post_projection(hidden)
            return head.logits(hidden) if head.config.clusters else run(RowsPass(head.logits, [hidden]))

        return draw_chain(context, next_logits(mx.array([context.tokens[-1]], mx.int32)), next_logits, length)

    def _shared(self, position: int) -> list[SharedKV]:
        """Returns the target's keys and values for each kind of layer of the head; those of a window are what that
        layer still sees."""
        found = [self.target.kv(self._kv_layers[kind]) for kind in self.head.layer_types]
        dtype = self.head.dtype
        return [SharedKV(kv.keys[None].astype(dtype), kv.values[None].astype(dtype), position) for kv in found]
