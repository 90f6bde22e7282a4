"""Replies with every row of logits that chose a token kept, to be compared bit for bit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from engine.drafters import Drafter
from engine.grid import Grid
from engine.policy import Policy
from engine.sampling import Sampling
from engine.target import CachedModel
from engine.tree import Tree
from tests.engine.replies import PROMPT, reply


class Kept(CachedModel):
    """rows: by place in the sequence, the logits behind the token there; what a later pass says of a place counts."""

    def __init__(self, model: Any, kv_bits: int | None = None, kv_group_size: int = 64) -> None:
        self.rows: dict[int, mx.array] = {}
        super().__init__(model, kv_bits, kv_group_size)

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, shape: Tree | None = None
    ) -> tuple[mx.array, int]:
        logits, width = super().continue_from(sequence, draft, shape)
        self.rows.update(enumerate(logits, len(sequence) - 1))
        return logits, width

    def continue_behind(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        logits, width = super().continue_behind(sequence, token)
        self.rows[len(sequence)] = logits[0]
        return logits, width

    def bits(self, first: int, count: int) -> Any:
        """(count, vocabulary) of the places from `first` on, as bytes."""
        rows = mx.stack([self.rows[place] for place in range(first, first + count)])
        return np.array(rows.view(mx.uint8))


def told(
    network: Any,
    drafter: Drafter | None = None,
    policy: Policy | None = None,
    width: int | None = None,
    tokens: int = 40,
    prompt: list[int] | None = None,
    sampling: Sampling | None = None,
) -> tuple[list[int], Any, Any]:
    """A reply's ids, the bits of the logits that chose them, and of the keys and values of the first layer at the end;
    on a grid of `width`, or (None) without."""
    target = network if isinstance(network, Kept) else Kept(network)
    prompt = list(prompt or PROMPT)
    target.rewind(0)
    target.lay(None if width is None else Grid.of(len(prompt), width))
    ids, rounds, _ = reply(target, drafter, policy=policy, tokens=tokens, prompt=prompt, sampling=sampling)
    return ids, target.bits(len(prompt) - 1, len(ids)), rounds
