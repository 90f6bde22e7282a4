"""A shortened output matrix: the logits of some tokens, as they were."""

from __future__ import annotations

from typing import Any

import mlx.core as mx
import mlx.nn as nn
import pytest

from engine.drafters.draft_model import DraftModel
from engine.drafters.draft_vocabulary import shorten_output
from engine.errors import ModelError
from engine.settings import AcceptanceRule, SamplingSettings
from engine.target.cached_model import CachedModel
from tests.engine.replies import plain_reply, reply
from tests.toys.architectures import build

IDS = mx.array([0, 3, 17, 40, 63])
TOKENS = mx.array([[5, 9, 60, 2]])


def quantized(network: Any) -> Any:
    nn.quantize(network, 32, 8, class_predicate=lambda _, m: hasattr(m, "to_quantized") and not m.weight.shape[-1] % 32)
    return network


@pytest.mark.parametrize("quantize", [False, True])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2", "phi"])
def test_the_logits_are_those_of_the_whole(name: str, quantize: bool) -> None:
    network = quantized(build(name)) if quantize else build(name)
    whole = network(TOKENS)
    shorten_output(network, IDS)
    short = network(TOKENS)
    assert short.shape == (1, 4, 5)
    assert mx.allclose(short, whole[..., IDS], atol=1e-5).item()


@pytest.mark.parametrize("rule", ["coupled", "rejection"])
def test_the_text_is_the_targets_whatever_is_left_out(rule: AcceptanceRule) -> None:
    network, small = build("llama"), build("llama")
    sampling = SamplingSettings(temperature=0.9, seed=4) if rule == "coupled" else SamplingSettings()
    plain = plain_reply(network, sampling=sampling, rule=rule, tokens=40)
    model, even = CachedModel(small), mx.arange(0, 64, 2)
    shorten_output(small, even)
    told, rounds, _ = reply(network, DraftModel(model, 64, ids=even), 3, sampling, rule, tokens=40)
    assert told == plain
    assert not any(token % 2 for r in rounds for token in r.drafted)
    assert any(r.accepted for r in rounds)


def test_a_model_without_an_output_matrix_is_refused() -> None:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = [nn.Linear(4, 4)]

        def __call__(self, tokens: mx.array, cache: object = None) -> mx.array:
            return mx.zeros((1, tokens.shape[1], 8))

    with pytest.raises(ModelError, match="no single output matrix"):
        shorten_output(Odd(), IDS)
