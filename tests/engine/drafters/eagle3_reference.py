"""What an EAGLE-3 head computes, in double precision and plain loops, for comparison.

Written from SafeAILab/EAGLE, `eagle/model/cnets.py` (forward of Model, LlamaDecoderLayeremb and LlamaAttention), with
the variants of vllm-project/speculators, `src/speculators/models/eagle3/core.py` and `model_definitions.py`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from engine.drafters.eagle3 import Eagle3Config

Weights = Mapping[str, np.ndarray]


class Reference:
    """A head and the keys and values of what it has seen. weights: by their names in the Speculators layout."""

    def __init__(self, config: Eagle3Config, weights: Weights) -> None:
        self._c, self._w = config, weights
        self._keys: list[np.ndarray] = []
        self._values: list[np.ndarray] = []

    def fuse(self, features: np.ndarray) -> np.ndarray:
        """(n, feature_size) to (n, hidden)."""
        if self._c.norm_before_fc:
            features = self._norm("input_norm", features)
        if self._c.fc_norm:
            parts = np.split(features, len(self._c.taps), -1)
            features = np.concatenate([self._norm(f"fc_norm.{i}", part) for i, part in enumerate(parts)], -1)
        return features @ self._w["fc.weight"].T

    def step(self, hidden: np.ndarray, embedded: np.ndarray, positions: Sequence[int]) -> np.ndarray:
        """Rows (n, hidden) one after the other, each seeing itself and what came before; the next hidden states."""
        return np.stack([self._row(*row) for row in zip(hidden, embedded, positions, strict=True)])

    def logits(self, hidden: np.ndarray) -> np.ndarray:
        """(n, hidden) to (n, draft_vocab_size)."""
        return (hidden if self._c.norm_output else self._norm("norm", hidden)) @ self._w["lm_head.weight"].T

    def _row(self, hidden: np.ndarray, embedded: np.ndarray, position: int) -> np.ndarray:
        normed = self._norm("layers.0.hidden_norm", hidden)
        x = np.concatenate([self._norm("layers.0.input_layernorm", embedded), normed])
        x = (normed if self._c.norm_before_residual else hidden) + self._attention(x, position)
        y = self._norm("layers.0.post_attention_layernorm", x)
        gate = self._linear("layers.0.mlp.gate_proj", y)
        x = x + self._linear(
            "layers.0.mlp.down_proj", gate / (1 + np.exp(-gate)) * self._linear("layers.0.mlp.up_proj", y)
        )
        return self._norm("norm", x) if self._c.norm_output else x

    def _attention(self, x: np.ndarray, position: int) -> np.ndarray:
        c, name = self._c, "layers.0.self_attn."
        queries = self._linear(f"{name}q_proj", x).reshape(c.num_attention_heads, c.head_dim)
        keys = self._linear(f"{name}k_proj", x).reshape(c.num_key_value_heads, c.head_dim)
        if c.qk_norm:
            queries, keys = self._norm(f"{name}q_norm", queries), self._norm(f"{name}k_norm", keys)
        self._keys.append(self._turn(keys, position))
        self._values.append(self._linear(f"{name}v_proj", x).reshape(c.num_key_value_heads, c.head_dim))
        out = []
        for number, query in enumerate(self._turn(queries, position)):
            shared = number // (c.num_attention_heads // c.num_key_value_heads)
            scores = np.array([query @ key[shared] for key in self._keys]) / np.sqrt(c.head_dim)
            weights = np.exp(scores - scores.max())
            out.append(sum(w * v[shared] for w, v in zip(weights / weights.sum(), self._values, strict=True)))
        return self._linear(f"{name}o_proj", np.concatenate(out))

    def _turn(self, x: np.ndarray, position: int) -> np.ndarray:
        """Rotary embedding: the first half of a head goes with the second."""
        c = self._c
        angles = position / (c.rope_scaling or {}).get("factor", 1.0)
        angles = angles / c.rope_theta ** (np.arange(0, c.head_dim, 2) / c.head_dim)
        cos, sin = np.tile(np.cos(angles), 2), np.tile(np.sin(angles), 2)
        first, second = np.split(x, 2, -1)
        return x * cos + np.concatenate([-second, first], -1) * sin

    def _norm(self, name: str, x: np.ndarray) -> np.ndarray:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self._c.rms_norm_eps) * self._w[f"{name}.weight"]

    def _linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self._w[f"{name}.weight"].T + self._w.get(f"{name}.bias", 0.0)
