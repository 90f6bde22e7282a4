"""A DFlash block drafter in training (arXiv 2602.06036): a block begins at every token of a conversation at once.

The block that begins at place i is the token there and masks after it. Each of its slots attends to the context
rows of the places before i and to the whole block, and the slot s guesses the token at place i + s. So the rows of a
layer are arranged by slot, and within a slot by place: (batch, slots * n, hidden).
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import mlx.core as mx

from engine.drafters.dflash import DFlashConfig, DFlashHead
from engine.target.joint_pass import Attend
from engine.target.model_layout import layers_of
from models.drafters.dflash import save_dflash
from models.loader import Loaded
from models.parameters import flat_parameters
from models.training.batches import Batch
from models.training.target_layer import begin_like, copy_layer, layer_fields, points
from models.training.trainee import HeadTrainee, shift


class DFlashTrainee(HeadTrainee):
    """A block drafter of `layers` layers in training. ids: the draft vocabulary, (n,) int32 increasing. depths: tokens
    of a block. width: of the features of a token."""

    def __init__(self, target: Loaded, ids: mx.array, shape: tuple[int, int], width: int, seed: int) -> None:
        super().__init__(target)
        self.depths, layers = shape
        self.max_depth = self.min_context = self.depths
        self.points = points(len(layers_of(target.network)))
        fields = layer_fields(target, width // len(self.points))
        mx.random.seed(seed)
        self.network: Any = DFlashHead(
            DFlashConfig(
                taps=self.points,
                feature_size=width,
                **fields,
                draft_vocab_size=ids.size,
                block=self.depths + 1,
                mask_id=fields["vocab_size"] - 1,
                windows=(None,) * layers,
                causal=(False,) * layers,
                own_output=True,
            )
        )
        self.network.set_draft_vocabulary(ids)
        self.ids: mx.array | None = self.network.ids
        begin_like(self.network, target)
        for own, theirs in zip(self.network.layers, layers_of(target.network)[-layers:], strict=False):
            copy_layer(own, theirs)
        mx.eval(flat_parameters(self.network))

    def predict(self, batch: Batch, depths: int) -> list[mx.array]:
        head, (lines, n) = self.network, batch.tokens.shape
        context = head.fuse(batch.states[..., : head.config.feature_size])
        anchors = self._embed(batch.tokens).astype(mx.float32)
        mask = self._embed(mx.array([head.config.mask_id])).astype(mx.float32)
        masks = mx.broadcast_to(mask, (lines, self.depths * n, anchors.shape[-1]))
        attends = [_attention(head, layer.self_attn.keys_values(context)) for layer in head.layers]
        hidden = head(mx.concatenate([anchors, masks], 1), *attends).reshape(lines, self.depths + 1, n, -1)
        logits = []
        for depth in range(min(depths, self.depths)):
            slot = shift(hidden[:, depth + 1], depth, 1)
            logits.append(head.lm_head(slot.reshape(lines * n, -1)[batch.rows]))
        return logits

    def save(self, folder: Path, about: Mapping[str, Any]) -> None:
        save_dflash(folder, self.network, self.described(about))


def _attention(head: DFlashHead, context: tuple[mx.array, mx.array]) -> Attend:
    """Returns the attention of one layer over all blocks. context: its keys, not rotated yet, and values of the
    context rows, (batch, heads, n, head_dim) each."""
    known, told = head.rope(context[0]), context[1]
    n = known.shape[2]
    earlier = mx.arange(n)[None] < mx.arange(n)[:, None]

    def attend(queries: mx.array, keys: mx.array, values: mx.array) -> mx.array:
        asked = _by_slot(head, queries, n) * queries.shape[-1] ** -0.5
        batch, heads, slots, _, size = asked.shape
        own = _by_slot(head, keys, n).swapaxes(2, 3)[:, :, None]  # (batch, shared, 1, n, slots, size)
        shown = values.reshape(batch, -1, slots, n, size).swapaxes(2, 3)[:, :, None]
        grouped = asked.reshape(batch, own.shape[1], -1, slots, n, size)
        before = grouped @ known[:, :, None, None].swapaxes(-1, -2)
        before = mx.where(earlier, before, -mx.inf)
        within = (grouped.swapaxes(3, 4) @ own.swapaxes(-1, -2)).swapaxes(3, 4)
        weights = mx.softmax(mx.concatenate([before, within], -1), -1)
        out = weights[..., :n] @ told[:, :, None, None]
        out = out + (weights[..., n:].swapaxes(3, 4) @ shown).swapaxes(3, 4)
        return out.reshape(batch, heads, slots * n, size)

    return attend


def _by_slot(head: DFlashHead, rows: mx.array, n: int) -> mx.array:
    """Returns (batch, heads, slots * n, head_dim) as (batch, heads, slots, n, head_dim), each row rotated to its place
    and slot."""
    slots = mx.split(rows, rows.shape[2] // n, 2)
    return mx.stack([head.rope(part, offset=slot) for slot, part in enumerate(slots)], 2)
