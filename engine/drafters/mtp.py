"""Multi-token prediction heads (DeepSeek-V3, arXiv 2412.19437, section 2.2): the network and the drafter.

A head is one decoder layer of the target's own architecture over the target's state and the next token's embedding:

    x = fc([norm_embedding(e_(i+1)), norm_hidden(h_i)]);  y = norm(layer(x));  logits of t_(i+2) = lm_head(y)

At the next drafted token y replaces h. Qwen3-Next, Qwen3.5 and later ones call it `mtp`, DeepSeek-V3, GLM-4.5 and
others keep it as an additional layer ("nextn"); their names for the same parts are in `models.drafters.mtp`.
A target that was trained with several such layers is drafted for with the first, run again for every token, as vLLM
and SGLang do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn

from engine.backend.mlx_lm_imports import KVCache, create_attention_mask
from engine.drafters import Needs, Traits
from engine.drafters.draft_vocabulary import output_of_some
from engine.drafters.head_drafter import PairDrafter
from engine.target.cached_model import CachedModel
from engine.target.joint_pass import JointPass, RowsPass, join_as
from engine.target.layer_taps import NORMED
from engine.together import run


class LayerChain(nn.Module):
    """Blocks of which a hybrid model's layers are, one after the other, as one layer: one of them attends."""

    def __init__(self, blocks: list[Any]) -> None:
        super().__init__()
        self.layers = blocks

    def __call__(self, x: mx.array, mask: mx.array | None, cache: Any) -> mx.array:
        """Returns the states (1, n, hidden) after the last block."""
        for block in self.layers:
            x = block(x, mask, cache)
        return x


@dataclass(frozen=True)
class MtpForm:
    """How heads of different families differ.

    hidden_first: the hidden state is the first half of what `fc` reads, as in MiMo. reads_normed: the target's state
    that a head reads is the one after the final norm. feeds_normed: the state that it hands on to the next drafted
    token is the one after its own norm. window: how many pairs a pair sees, itself included; None: all. caches: how
    many the layer has, two where an index of keys has its own. may_cast: whether a parameter may be stored in 16 bits,
    by its name.
    """

    hidden_first: bool = False
    reads_normed: bool = True
    feeds_normed: bool = True
    window: int | None = None
    caches: int = 1
    may_cast: Callable[[str], bool] = lambda _: True


class MtpHead(nn.Module):
    """The network alone.

    layer: a decoder layer of mlx-lm, called with hidden states (1, n, hidden), a mask and a cache. own_output: the rows
    of an output matrix of its own, None to use the target's.
    """

    def __init__(
        self, layer: Any, hidden_size: int, eps: float, form: MtpForm | None = None, own_output: int | None = None
    ) -> None:
        super().__init__()
        self.norm_embedding = nn.RMSNorm(hidden_size, eps)
        self.norm_hidden = nn.RMSNorm(hidden_size, eps)
        self.fc = nn.Linear(2 * hidden_size, hidden_size, bias=False)
        self.layer = layer
        self.norm = nn.RMSNorm(hidden_size, eps)
        if own_output is not None:
            self.lm_head = nn.Linear(hidden_size, own_output, bias=False)
        self.form = form or MtpForm()

    @property
    def cast_predicate(self) -> Callable[[str], bool]:
        """Which parameters may be stored in 16 bits, as mlx-lm's models say it."""
        return self.form.may_cast

    @property
    def project(self) -> Callable[[mx.array], mx.array] | None:
        """The head's own output matrix, from states to logits; None to use the target's."""
        return self.lm_head if "lm_head" in self else None

    def read(self, hidden: mx.array, embedded: mx.array) -> mx.array:
        """Returns the rows (..., 2 * hidden) that `fc` reads, of both inputs (..., hidden)."""
        parts = [self.norm_embedding(embedded), self.norm_hidden(hidden)]
        return mx.concatenate(parts[::-1] if self.form.hidden_first else parts, -1)

    @property
    def dtype(self) -> mx.Dtype:
        """The type that the head computes in."""
        return self.norm.weight.dtype

    def __call__(
        self, hidden: mx.array, embedded: mx.array, cache: Sequence[Any], mask: mx.array | None = None
    ) -> mx.array:
        """Returns the hidden states one token on for every row: (batch, n, hidden) twice, to the same shape; see
        `normed`.

        cache: a KVCache for each of `form.caches`, or in training what has its methods. mask: what each row sees of the
        cache; None: all up to itself, as far as the window reaches.
        """
        x = self.fc(self.read(hidden, embedded))
        if mask is None:
            mask = create_attention_mask(x, cache[0], window_size=self.form.window, return_array=True)
        out: mx.array = self.layer(x, mask, cache if self.form.caches > 1 else cache[0])
        return self.norm(out) if self.form.feeds_normed else out

    def normed(self, hidden: mx.array) -> mx.array:
        """Returns what the output matrix reads, of the states that a call returns."""
        out: mx.array = hidden if self.form.feeds_normed else self.norm(hidden)
        return out


class Mtp(PairDrafter):
    """Drafts chains with `head` for `target`.

    tap: which state of the target the head reads, a layer tap. ids: a draft vocabulary, (width,) int32 increasing:
    then only those rows of the target's output matrix are computed; None: all.
    """

    name = "mtp"
    head: MtpHead

    def __init__(self, head: MtpHead, target: CachedModel, tap: int = NORMED, ids: mx.array | None = None) -> None:
        super().__init__(target, Needs((tap,), token_map=ids), Traits(), [KVCache() for _ in range(head.form.caches)])
        self.head = head
        self._project = head.project or (None if ids is None else output_of_some(target.model, ids))

    def fuse(self, states: mx.array) -> mx.array:
        return states.astype(self.head.dtype)

    def for_another_reply(self, target: CachedModel) -> Mtp:
        if target.shares_passes:
            join_as(self.head, target.model)
        return super().for_another_reply(target)

    def steps(self, hidden: mx.array, tokens: mx.array) -> mx.array:
        embedded = self.embed(tokens).astype(hidden.dtype)
        positions = mx.arange(self.known, self.known + tokens.size)
        wanted = JointPass(self.head, [hidden, embedded], self._caches, positions)
        return run(wanted) if self.target.shares_passes and len(self._caches) == 1 else wanted.run()

    def logits(self, hidden: mx.array) -> mx.array:
        normed, project = self.head.normed(hidden), self._project
        if project is None:
            return self.target.unembed(normed)
        return run(RowsPass(project, [normed], weights=(id(project), "output")))
