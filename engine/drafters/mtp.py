"""Multi-token prediction heads (DeepSeek-V3, arXiv 2412.19437, section 2.2): the network and the drafter.

A head is one decoder layer of the target's own architecture over the target's state and the next token's embedding:

    x = fc([norm_embedding(e_(i+1)), norm_hidden(h_i)]);  y = norm(layer(x));  logits of t_(i+2) = lm_head(y)

At the next drafted token y replaces h. Qwen3-Next, Qwen3.5 and later ones call it `mtp`, DeepSeek-V3, GLM-4.5 and
others keep it as an additional layer ("nextn"); their names for the same parts are in `models.drafters.mtp_folder`.
A target that was trained with several such layers is drafted for with the first, run again for every token, as vLLM
and SGLang do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.backend.mlx_lm_imports import KVCache, create_attention_mask
from engine.drafters import Needs
from engine.drafters.draft_vocabulary import output_of_some
from engine.drafters.pair_drafter import PairDrafter
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED


class MtpHead(nn.Module):
    """The network alone.

    layer: a decoder layer of mlx-lm, called with hidden states (1, n, hidden), a mask and a cache. hidden_first: the
    hidden state is the first half of what `fc` reads, as in MiMo. own_output: the rows of an output matrix of its own,
    None to use the target's.
    """

    def __init__(
        self, layer: Any, hidden_size: int, eps: float, hidden_first: bool = False, own_output: int | None = None
    ) -> None:
        super().__init__()
        self.norm_embedding = nn.RMSNorm(hidden_size, eps)
        self.norm_hidden = nn.RMSNorm(hidden_size, eps)
        self.fc = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.layer = layer
        self.norm = nn.RMSNorm(hidden_size, eps)
        if own_output is not None:
            self.lm_head = nn.Linear(hidden_size, own_output, bias=False)
        self._hidden_first = hidden_first

    @property
    def project(self) -> Callable[[mx.array], mx.array] | None:
        """The head's own output matrix, from states to logits; None to use the target's."""
        return self.lm_head if "lm_head" in self else None

    def read(self, hidden: mx.array, embedded: mx.array) -> mx.array:
        """Returns the rows (..., 2 * hidden) that `fc` reads, of both inputs (..., hidden)."""
        parts = [self.norm_embedding(embedded), self.norm_hidden(hidden)]
        return mx.concatenate(parts[::-1] if self._hidden_first else parts, -1)

    @property
    def dtype(self) -> mx.Dtype:
        """The type that the head computes in."""
        return self.norm.weight.dtype

    def __call__(self, hidden: mx.array, embedded: mx.array, cache: Any, mask: mx.array | None = None) -> mx.array:
        """Returns the normed hidden states one token on for every row: (batch, n, hidden) twice, to the same shape.

        cache: a `KVCache`, or in training what has its methods. mask: what each row sees of the cache; None: all up to
        itself.
        """
        x = self.fc(self.read(hidden, embedded))
        seen = create_attention_mask(x, cache, return_array=True) if mask is None else mask
        out: mx.array = self.norm(self.layer(x, seen, cache))
        return out


class Mtp(PairDrafter):
    """Drafts chains with `head` for `target`.

    tap: which state of the target the head reads, a layer tap. ids: a draft vocabulary, (width,) int32 increasing:
    then only those rows of the target's output matrix are computed; None: all.
    """

    name = "mtp"

    def __init__(self, head: MtpHead, target: CachedModel, tap: int = NORMED, ids: mx.array | None = None) -> None:
        super().__init__(target, Needs((tap,), token_map=ids), [KVCache()])
        self.head, self.ids = head, ids
        shared = self.target.unembed if ids is None else output_of_some(target.model, ids)
        self._project = head.project or shared

    def fuse(self, states: mx.array) -> mx.array:
        return states.astype(self.head.dtype)

    def steps(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        embedded = self.target.embed(tokens).astype(hidden.dtype)
        return self.head(hidden[None], embedded[None], self._caches[0])[0]

    def logits(self, hidden: mx.array) -> mx.array:
        return self._project(hidden)
