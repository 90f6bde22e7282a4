"""What the networks of heads with decoder layers of their own have in common: sizes, attention, vocabulary."""

from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.rotary_embedding import rotary_embedding
from engine.target.joint_pass import Attend


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """Sizes of a head with decoder layers of its own.

    taps: the hidden states that it reads, as layer taps, side by side `feature_size` numbers. vocab_size: rows of the
    target's embedding; draft_vocab_size: columns of the logits. windows: of each layer, how many entries of its cache a
    row sees, None for all. own_output, own_embedding: an output matrix or an embedding of its own, not the target's.
    """

    taps: tuple[int, ...]
    feature_size: int
    hidden_size: int
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    vocab_size: int
    draft_vocab_size: int
    windows: tuple[int | None, ...] = (None,)
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10_000.0
    rope_scaling: dict[str, Any] | None = None
    rope_interleaved: bool = False
    max_position_embeddings: int = 8192
    attention_bias: bool = False
    own_output: bool = False
    own_embedding: bool = False


class HeadAttention(nn.Module):
    """Attention whose cache and positions the caller knows. width: of the rows that it reads. normed: queries and keys
    are normed per head, as Qwen3's are."""

    def __init__(self, config: HeadConfig, width: int, normed: bool) -> None:
        super().__init__()
        self._size, bias = config.head_dim, config.attention_bias
        self.q_proj = nn.Linear(width, config.num_attention_heads * self._size, bias=bias)
        self.k_proj = nn.Linear(width, config.num_key_value_heads * self._size, bias=bias)
        self.v_proj = nn.Linear(width, config.num_key_value_heads * self._size, bias=bias)
        self.o_proj = nn.Linear(config.num_attention_heads * self._size, config.hidden_size, bias=bias)
        if normed:
            self.q_norm = nn.RMSNorm(self._size, config.rms_norm_eps)
            self.k_norm = nn.RMSNorm(self._size, config.rms_norm_eps)

    def __call__(self, x: mx.array, attend: Attend) -> mx.array:
        queries = self._heads(self.q_proj(x))
        attended = attend(self.q_norm(queries) if "q_norm" in self else queries, *self.keys_values(x))
        out: mx.array = self.o_proj(attended.swapaxes(1, 2).reshape(*x.shape[:2], -1))
        return out

    def keys_values(self, x: mx.array) -> tuple[mx.array, mx.array]:
        """Returns keys, not rotated yet, and values of rows (batch, n, width): (batch, heads, n, head_dim) each."""
        keys = self._heads(self.k_proj(x))
        return self.k_norm(keys) if "k_norm" in self else keys, self._heads(self.v_proj(x))

    def _heads(self, x: mx.array) -> mx.array:
        """Returns (batch, n, heads x head_dim) as (batch, heads, n, head_dim)."""
        return x.reshape(*x.shape[:2], -1, self._size).swapaxes(1, 2)


class DraftVocabularyHead(nn.Module):
    """A network whose logits have a column for some of the target's tokens.

    vocabulary: how many tokens the target has. `ids` (columns,): the target's id of each column, increasing; all of
    them unless `set_draft_vocabulary` says otherwise.
    """

    def __init__(self, columns: int, vocabulary: int) -> None:
        super().__init__()
        self._ids, self._vocabulary = mx.arange(columns), vocabulary

    @property
    def ids(self) -> mx.array:
        return self._ids

    @property
    def token_map(self) -> mx.array | None:
        """The `ids`, None where they are all of the target's tokens: see `engine.drafters.Needs`."""
        return None if self._ids.size == self._vocabulary else self._ids

    def set_draft_vocabulary(self, ids: mx.array) -> None:
        """Makes the columns of the logits stand for the target's tokens `ids` (columns,), increasing."""
        self._ids = ids.astype(mx.int32)


class LayeredHead(DraftVocabularyHead):
    """The parts around the layers: what fuses the target's states, the last norm, the output matrix and the embedding
    where they are the head's own. No cache, no positions, no distribution; `rope` rotates."""

    def __init__(self, config: HeadConfig) -> None:
        super().__init__(config.draft_vocab_size, config.vocab_size)
        self.fc = nn.Linear(config.feature_size, config.hidden_size, bias=False)
        self.norm = nn.RMSNorm(config.hidden_size, config.rms_norm_eps)
        if config.own_output:
            self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)
        if config.own_embedding:
            self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.rope = rotary_embedding(
            config.head_dim,
            config.rope_theta,
            config.rope_interleaved,
            config.rope_scaling,
            config.max_position_embeddings,
        )

    @property
    def dtype(self) -> mx.Dtype:
        """The type that the head computes in."""
        return self.norm.weight.dtype
