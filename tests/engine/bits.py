"""Replies with every row of logits that chose a token kept, to be compared bit for bit."""

from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from engine.audit.exact_target import ExactTarget
from engine.audit.verify_blocks import VerifyBlocks
from engine.drafters import Drafter
from engine.policy import Policy
from engine.settings import SamplingSettings
from engine.target.cached_model import CachedModel
from engine.tree.draft_tree import DraftTree
from tests.engine.replies import PROMPT, reply


class _RowLog(CachedModel):
    """rows: by place in the sequence, the logits after the token there; what a later pass says of a place counts."""

    rows: dict[int, mx.array]

    def continue_from(
        self, sequence: Sequence[int], draft: mx.array, tree: DraftTree | None = None
    ) -> tuple[mx.array, int]:
        logits, width = super().continue_from(sequence, draft, tree)
        self.rows.update(enumerate(logits, len(sequence) - 1))
        return logits, width

    def continue_after(self, sequence: Sequence[int], token: mx.array) -> tuple[mx.array, int]:
        logits, width = super().continue_after(sequence, token)
        self.rows[len(sequence)] = logits[0]
        return logits, width

    def bits(self, first: int, count: int) -> Any:
        """(count, vocabulary) of the places from `first` on, as bytes."""
        rows = mx.stack([self.rows[place] for place in range(first, first + count)])
        return np.array(rows.view(mx.uint8))


class RowLogModel(_RowLog):
    def __init__(self, model: Any, kv_bits: int | None = None, kv_group_size: int = 64) -> None:
        self.rows = {}
        super().__init__(model, kv_bits, kv_group_size)


class RowLogExactTarget(_RowLog, ExactTarget):
    """The same on blocks, with the rows of its target."""


def reply_bits(
    network: Any,
    drafter: Drafter | None = None,
    policy: Policy | None = None,
    width: int | None = None,
    tokens: int = 40,
    prompt: list[int] | None = None,
    sampling: SamplingSettings | None = None,
) -> tuple[list[int], Any, Any]:
    """A reply's ids, the bits of the logits that chose them, and of the keys and values of the first layer at the end;
    on a grid of `width`, or (None) without."""
    target = network if isinstance(network, RowLogModel) else RowLogModel(network)
    prompt = list(prompt or PROMPT)
    target.rewind(0)
    driver = target if width is None else RowLogExactTarget(target, VerifyBlocks.for_prompt(len(prompt), width))
    ids, rounds, _ = reply(driver, drafter, draft=policy or 0, tokens=tokens, prompt=prompt, sampling=sampling)
    return ids, target.bits(len(prompt) - 1, len(ids)), rounds
