"""The EAGLE-3 head (Li 2025, arXiv 2503.01840): one decoder layer over fused hidden states of the target.

    features of t_i, (3 x target hidden) -> fc -> h_i      embedding of t_(i+1) -> e_(i+1)
    x = h_i + attention([norm(e_(i+1)), norm(h_i)]);  x = x + mlp(norm(x));  logits of t_(i+2) = lm_head(norm(x))

At the next drafted token x stands in for h. Parameter names, and the variants that `Eagle3Config` knows, are those of
the Speculators layout (vllm-project/speculators, `src/speculators/models/eagle3/core.py` and `model_definitions.py`),
so a checkpoint loads as it is. The embedding is the target's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.upstream import initialize_rope

Attend = Callable[[mx.array, mx.array, mx.array], mx.array]


@dataclass(frozen=True)
class Eagle3Config:
    """Sizes of a head. points: which hidden states it reads, in the sense of `engine.features`.

    feature_size: width of the concatenated features. vocab_size: rows of the target's embedding;
    draft_vocab_size: rows of the output matrix. norm_before_residual: the attention block adds
    to the normed hidden state instead of to the plain one. qk_norm: queries and keys are normed per head, as
    Qwen3's are. norm_before_fc: all features are normed together before they are fused; fc_norm: those of each
    point by themselves. norm_output: what stands in for h is normed already. own_output: an output matrix of its own,
    not the target's.
    """

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


class _Attention(nn.Module):
    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        size, bias = config.head_dim, config.attention_bias
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.q_proj = nn.Linear(2 * config.hidden_size, self.heads * size, bias=bias)
        self.k_proj = nn.Linear(2 * config.hidden_size, self.kv_heads * size, bias=bias)
        self.v_proj = nn.Linear(2 * config.hidden_size, self.kv_heads * size, bias=bias)
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


class _MLP(nn.Module):
    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def __call__(self, x: mx.array) -> mx.array:
        out: mx.array = self.down_proj(nn.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class _Layer(nn.Module):
    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = _Attention(config)
        self.post_attention_layernorm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = _MLP(config)
        self.norm_before_residual = config.norm_before_residual

    def __call__(self, hidden: mx.array, embedded: mx.array, attend: Attend) -> mx.array:
        normed = self.hidden_norm(hidden)
        residual = normed if self.norm_before_residual else hidden
        x = residual + self.self_attn(mx.concatenate([self.input_layernorm(embedded), normed], -1), attend)
        out: mx.array = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Eagle3Head(nn.Module):
    """The network alone: no cache, no positions, no law.

    `attend(queries, keys, values)` is handed in by who knows them: heads-first arrays (batch, heads, n,
    head_dim) before rotation, to the attended values in the queries' shape. `self.rope` rotates.
    `ids` (draft_vocab_size,): the target's id of each row of the output matrix, increasing.
    """

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(config.feature_size, config.hidden_size, bias=False)
        if config.norm_before_fc:
            self.input_norm = nn.RMSNorm(config.feature_size, config.rms_norm_eps)
        if config.fc_norm:
            size = config.feature_size // len(config.points)
            self.fc_norm = [nn.RMSNorm(size, config.rms_norm_eps) for _ in config.points]
        self.layers = [_Layer(config)]
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        if config.own_output:
            self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        self._ids = mx.arange(config.draft_vocab_size)
        self._project: Callable[[mx.array], mx.array] | None = None
        self._rope = initialize_rope(
            config.head_dim, config.rope_theta, False, config.rope_scaling, config.max_position_embeddings
        )

    @property
    def ids(self) -> mx.array:
        return self._ids

    def speak(self, ids: mx.array) -> None:
        """Let the columns of the logits stand for the target's tokens `ids` (draft_vocab_size,), increasing."""
        self._ids = ids.astype(mx.int32)

    def share(self, output: Callable[[mx.array], mx.array]) -> None:
        """Read the target's output matrix: what it makes of hidden states."""
        self._project = output

    @property
    def rope(self) -> Any:
        return self._rope

    @property
    def scale(self) -> float:
        """Of the attention's scores."""
        return float(self.config.head_dim**-0.5)

    def fuse(self, features: mx.array) -> mx.array:
        """Features of the target (..., feature_size) to hidden states (..., hidden)."""
        if "input_norm" in self:
            features = self.input_norm(features)
        if "fc_norm" in self:
            parts = mx.split(features, len(self.fc_norm), -1)
            features = mx.concatenate([norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)], -1)
        out: mx.array = self.fc(features)
        return out

    def __call__(self, hidden: mx.array, embedded: mx.array, attend: Attend) -> mx.array:
        """One drafted step for every row: (batch, n, hidden) twice, to the next hidden states in the same shape."""
        out: mx.array = self.layers[0](hidden, embedded, attend)
        return self.norm(out) if self.config.norm_output else out

    def logits(self, hidden: mx.array) -> mx.array:
        """(..., hidden) to (..., draft_vocab_size); column i is the target's token `ids[i]`."""
        project = self._project or self.lm_head
        out: mx.array = project(hidden if self.config.norm_output else self.norm(hidden))
        return out
