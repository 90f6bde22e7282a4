"""What an EAGLE-3 head sees in training is what it sees while it drafts, at every depth."""

from __future__ import annotations

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_map

from engine.drafters.eagle3 import Eagle3
from engine.target.cached_model import CachedModel
from models.loader import Loaded
from models.training.batches import Batches
from models.training.eagle3_trainee import Eagle3Trainee
from models.training.trainee_kinds import make_reader
from tests.models.training.training_plans import conversation

TOKENS = tuple(int(t) for t in np.random.default_rng(0).integers(3, 300, 34))
DEPTHS = 4


@pytest.fixture(scope="module")
def trainee(target: Loaded) -> Eagle3Trainee:
    reader = make_reader(target, "eagle3")
    made = Eagle3Trainee(target, mx.arange(5, 205, dtype=mx.int32), DEPTHS, reader.width, seed=1)
    mx.random.seed(2)  # as it begins, attention hardly matters
    made.network.update(tree_map(lambda x: x + 0.3 * mx.random.normal(x.shape), made.network.parameters()))
    return made


def guesses_while_drafting(trainee: Eagle3Trainee, target: Loaded, root: int) -> list[mx.array]:
    """Logits of a draft begun when `TOKENS[: root + 1]` stand, every guess being replaced by the true token."""
    cached = CachedModel(target.network)
    drafter = Eagle3(trainee.network, cached)
    cached.record(drafter.needs.taps)
    for _ in cached.prefill(TOKENS[:root], chunk=7):
        pass
    drafter.sync(TOKENS[: root - 3])
    hidden = drafter._catch_up(TOKENS[: root + 1], root)[-1:]
    logits = [trainee.network.logits(hidden)]
    for depth in range(1, DEPTHS):
        hidden = drafter.steps(hidden, mx.array([TOKENS[root + depth]], mx.int32))
        logits.append(trainee.network.logits(hidden))
    return logits


def test_unrolled_training_sees_what_drafting_sees(trainee: Eagle3Trainee, target: Loaded) -> None:
    reader = make_reader(target, "eagle3")
    talk = [conversation(TOKENS, 8), conversation(TOKENS[:20], 5)]
    batches = Batches(talk, lambda n: reader.read(talk[n]), reader, trainee.ids, trainee.min_context)
    batch = batches.make([0, 1])
    rows = batch.rows.tolist()
    assert isinstance(rows, list)
    unrolled = trainee.predict(batch, DEPTHS)
    for root in (10, 17, 25):
        drafted = guesses_while_drafting(trainee, target, root)
        for depth in range(DEPTHS):
            there = unrolled[depth][rows.index(root + depth)]
            assert mx.allclose(there, drafted[depth][0], atol=2e-4, rtol=1e-4).item(), (root, depth)


def test_each_depth_learns(trainee: Eagle3Trainee, target: Loaded) -> None:
    """The gradient of every depth's loss reaches the fused features."""
    reader = make_reader(target, "eagle3")
    talk = [conversation(TOKENS, 8)]
    batch = Batches(talk, lambda n: reader.read(talk[n]), reader, trainee.ids, trainee.min_context).make([0])
    for depth in range(DEPTHS):
        grad = nn.value_and_grad(
            trainee.network, lambda depth=depth: mx.sum(trainee.predict(batch, DEPTHS)[depth] ** 2)
        )()[1]
        assert mx.all(mx.isfinite(grad["fc"]["weight"])).item()
        assert mx.max(mx.abs(grad["fc"]["weight"])).item() > 1e-6
