"""Plain layers stand for the same numbers as the quantized ones that they replace."""

from typing import Any

import mlx.core as mx
import pytest
from mlx import nn
from mlx_lm.models.switch_layers import QuantizedSwitchLinear, SwitchLinear

from models.dequantization import dequantize

FORMS = [("affine", 64, 4), ("mxfp4", 32, 4), ("nvfp4", 16, 4), ("mxfp8", 32, 8)]


class Layers(nn.Module):
    """A layer of each kind. x, (1, 64), goes through each of them."""

    def __init__(self, **form: Any) -> None:
        super().__init__()
        mx.random.seed(1)
        self.embedding = nn.Embedding(64, 64).to_quantized(**form)
        self.linear = nn.Linear(64, 32).to_quantized(**form)
        self.experts = SwitchLinear(64, 32, 3).to_quantized(**form)

    def outputs(self, x: mx.array) -> list[mx.array]:
        chosen = mx.array([[2, 0]])
        return [self.embedding(mx.array([5])), self.linear(x), self.experts(x[:, None, None, :], chosen)]


@pytest.mark.parametrize(("mode", "group_size", "bits"), FORMS)
def test_plain_layers_compute_what_the_quantized_ones_compute(mode: str, group_size: int, bits: int) -> None:
    layers, x = Layers(mode=mode, group_size=group_size, bits=bits), mx.random.normal((1, 64))
    layers.set_dtype(mx.float32)
    before = layers.outputs(x)
    after = dequantize(layers, mx.float32).outputs(x)
    assert not any(isinstance(module, nn.QuantizedLinear | QuantizedSwitchLinear) for module in layers.modules())
    for one, other in zip(before, after, strict=True):
        assert other.dtype == mx.float32
        assert mx.allclose(one, other, atol=1e-5)


def test_the_scale_of_each_nvfp4_expert_counts() -> None:
    plain = SwitchLinear(64, 32, 3, bias=False)
    plain.weight *= mx.array([0.01, 1.0, 100.0])[:, None, None]
    weight = plain.weight
    layers = nn.Sequential(plain.to_quantized(group_size=16, bits=4, mode="nvfp4", global_scale=True))
    found = dequantize(layers, mx.float32).layers[0].weight
    for expert in range(3):
        assert mx.abs(found[expert] - weight[expert]).max() < 0.2 * mx.abs(weight[expert]).max()
