"""After a refusal in a hybrid: no row is fed again, and the states are those of a narrower pass."""

import mlx.core as mx
import numpy as np
import pytest

from engine.target.cached_model import CachedModel
from engine.target.recurrence_replay import RecurrenceReplay
from tests.toys.architectures import build

SEQUENCE = [int(t) for t in np.random.default_rng(1).integers(0, 64, 80)]
FEW = ["qwen3_next", "mamba", "rwkv7"]
COVERED = [
    "bailing_hybrid", "bailing_moe_linear", "bailing_moe_v3", "falcon_h1", "gear", "granitemoehybrid", "jamba",
    "kimi_linear", "lfm2", "lfm2_moe", "mamba2", "nemotron_h", "olmo_hybrid", "plamo2", "qwen3_5", "qwen3_5_moe",
    "recurrent_gemma",
]  # fmt: skip
DRAFT = 8


def states(model: CachedModel) -> list[np.ndarray]:
    return [np.array(array) for leaf in model.cache.states() for array in leaf.cache if array is not None]


def refused_after(model: CachedModel, known: int, kept: int) -> None:
    """A verify pass after `known` tokens whose draft is right for `kept` of its tokens and refused from there on."""
    right = SEQUENCE[known : known + kept]
    model.continue_from(
        SEQUENCE[:known], mx.array(right + [(t + 1) % 64 for t in SEQUENCE[known + kept : known + DRAFT]])
    )
    model.rewind(known + kept)


@pytest.mark.slow_for("mamba")
@pytest.mark.parametrize("name", [*FEW, *(pytest.param(name, marks=pytest.mark.slow) for name in COVERED)])
def test_states_after_a_refusal_are_those_of_a_narrower_pass_and_nothing_is_fed_again(name: str) -> None:
    model, straight = CachedModel(build(name)), CachedModel(build(name))
    for kept, known in zip(range(DRAFT), range(3, 80, DRAFT + 1), strict=False):
        model.feed(SEQUENCE[model.length : known - 1])
        refused_after(model, known, kept)
        assert model.length == known + kept
        straight.feed(SEQUENCE[straight.length : known + kept])
        for a, b in zip(states(model), states(straight), strict=True):
            assert np.abs(a - b).max() <= 1e-4 * max(1.0, float(np.abs(b).max()))


@pytest.mark.parametrize("name", FEW)
def test_no_weight_of_a_product_is_used_to_bring_a_state_forward(name: str) -> None:
    """With every matrix of the recurrent layers gone after the verify pass, the states come out all the same."""
    model, same = CachedModel(build(name)), CachedModel(build(name))
    for each in (model, same):
        each.feed(SEQUENCE[:9])
        rows, _ = each.continue_from(SEQUENCE[:10], mx.array(SEQUENCE[10:18]))
        mx.eval(rows, each.cache.arrays())
    for product in model._recurrence._products:
        product.module.weight = mx.full(product.module.weight.shape, mx.nan)
    for each in (model, same):
        each.rewind(14)
    for a, b in zip(states(model), states(same), strict=True):
        np.testing.assert_array_equal(a, b)


def test_two_rewinds_after_one_pass_and_a_rewind_after_another_pass() -> None:
    """The record serves until the next pass, and not after it."""
    model, straight = CachedModel(build("qwen3_next")), CachedModel(build("qwen3_next"))
    model.feed(SEQUENCE[:9])
    model.continue_from(SEQUENCE[:10], mx.array(SEQUENCE[10:18]))
    assert model.rewind(16) == 16
    assert model.rewind(12) == 12
    straight.feed(SEQUENCE[:12])
    assert all(np.abs(a - b).max() < 1e-4 for a, b in zip(states(model), states(straight), strict=True))
    model.feed([1, 2, 3, 4])  # other tokens than those that were recorded
    assert model.rewind(14) < 14
    assert model._recurrence.nbytes == 0


def test_a_model_with_a_state_that_belongs_to_no_known_layer_is_fed_again() -> None:
    model = CachedModel(build("qwen3_next"))
    model._recurrence._layers.pop()
    model.feed(SEQUENCE[:9])
    refused_after(model, 10, 4)
    assert model.length == 9
    assert model._recurrence.nbytes == 0


def test_the_modules_are_back_in_their_places_after_a_pass_that_fails() -> None:
    network = build("qwen3_next")
    model = CachedModel(network)
    before = [type(module) for module in network.modules()]
    refused_after(model, 10, 4)
    with pytest.raises((ValueError, IndexError)):
        model._recurrence.record_next()
        model.forward(mx.zeros((2, 2), mx.float32))
    assert [type(module) for module in network.modules()] == before
    assert isinstance(model._recurrence, RecurrenceReplay)
    assert model.length == 0
