"""Heads for toy targets: random ones, every variant of an EAGLE-3 head, and Medusa heads that remember a text."""

import dataclasses
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from mlx.utils import tree_flatten, tree_unflatten

from engine.drafters.eagle3 import Eagle3Config, Eagle3Head
from engine.drafters.medusa import MedusaConfig, MedusaHeads
from engine.drafters.mlp_speculator import MlpSpeculatorConfig, MlpSpeculatorNetwork
from engine.target.cached_model import CachedModel
from engine.target.layer_taps import NORMED

EAGLE3 = Eagle3Config(
    taps=(0, 1, 3),
    feature_size=96,
    hidden_size=32,
    intermediate_size=40,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    vocab_size=64,
    draft_vocab_size=24,
)
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "whole vocabulary": {"draft_vocab_size": 64},
    "every head its own keys": {"num_key_value_heads": 4},
    "norm before residual": {"norm_before_residual": True},
    "biases": {"attention_bias": True},
    "normed heads": {"qk_norm": True, "attention_bias": True},
    "norm before fusing": {"norm_before_fc": True},
    "norm of each point": {"fc_norm": True},
    "normed output": {"norm_output": True},
    "longer positions": {"rope_theta": 500.0, "rope_scaling": {"type": "linear", "factor": 4.0}},
}


def random_eagle3(seed: int = 0, **changes: Any) -> Eagle3Head:
    """A head of `EAGLE3`'s sizes with lively random weights; `changes` to its config."""
    mx.random.seed(seed)
    head = Eagle3Head(dataclasses.replace(EAGLE3, **changes))
    head.set_draft_vocabulary(some_ids(head.config.draft_vocab_size, head.config.vocab_size, seed))
    return _lively(head)


def random_medusa(seed: int = 0, hidden: int = 32, vocabulary: int = 64, **changes: Any) -> MedusaHeads:
    """Three heads of two blocks with lively random weights."""
    mx.random.seed(seed)
    config = MedusaConfig(hidden, vocabulary, 24, num_heads=3, num_layers=2)
    heads = MedusaHeads(dataclasses.replace(config, **changes))
    heads.set_draft_vocabulary(some_ids(heads.config.draft_vocab_size, vocabulary, seed))
    return _lively(heads)


def random_mlp_speculator(
    seed: int = 0, hidden: int = 32, vocabulary: int = 64, **changes: Any
) -> MlpSpeculatorNetwork:
    """Three stages with lively random weights."""
    mx.random.seed(seed)
    config = MlpSpeculatorConfig(hidden, 24, vocabulary, stages=3)
    return _lively(MlpSpeculatorNetwork(dataclasses.replace(config, **changes)))


def some_ids(count: int, vocabulary: int, seed: int = 0) -> mx.array:
    """`count` ids, increasing."""
    return mx.array(np.sort(np.random.default_rng(seed).permutation(vocabulary)[:count]).astype(np.int32))


def weights_of(network: nn.Module) -> dict[str, np.ndarray]:
    """By name, in double precision."""
    return {name: np.array(value, np.float64) for name, value in tree_flatten(network.parameters())}


def _lively(network: Any) -> Any:
    drawn = []
    for name, value in tree_flatten(network.parameters()):
        noise = mx.random.normal(value.shape)
        lively = noise / value.shape[-1] ** 0.5 if value.ndim > 1 else value + 0.3 * noise
        drawn.append((name, lively.astype(mx.float16).astype(mx.float32)))  # so that files hold it as it is
    network.update(tree_unflatten(drawn))
    mx.eval(network.parameters())
    return network


class Remembering:
    """Medusa heads for one text of a target: head i is sure of the token that came 2 + i later, and wrong at `wrong`
    places, where the right one is but its second guess. As lazy as real heads are."""

    def __init__(self, model: Any, text: list[int], depth: int = 3, wrong: frozenset[int] = frozenset()) -> None:
        target = CachedModel(model)
        target.record((NORMED,))
        target.feed(text)
        assert target.taps is not None
        self._states = target.taps.take(0, len(text))
        self.config = MedusaConfig(self._states.shape[-1], target.vocabulary, target.vocabulary, depth)
        self.ids, self.token_map = mx.arange(target.vocabulary), None
        guesses = np.zeros((depth, len(text), target.vocabulary), np.float32)
        for head in range(depth):
            for place in range(len(text) - 2 - head):
                true = text[place + 2 + head]
                guesses[head, place, true] = 6.0
                guesses[head, place, (true + 1) % target.vocabulary] = 5.0 + 2 * (place + 2 + head in wrong)
        self._guesses = mx.array(guesses)

    def __call__(self, hidden: mx.array, depth: int | None = None) -> mx.array:
        """(rows, hidden) to (heads, rows, vocabulary): what followed the nearest state of the text."""
        far = mx.sum((hidden[:, None] - self._states[None]) ** 2, -1)
        return self._guesses[:depth][:, mx.argmin(far, -1)]
