"""Products with few rows are cut into blocks, and are the same products."""

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest

from engine import backend
from engine.backend import blas, small_products, to_numpy
from engine.backend.small_products import times_transposed

SHAPES = [(576, 576), (1536, 576), (576, 1536), (1000, 4864), (200, 8960), (331, 96), (64, 16)]


@pytest.fixture(autouse=True)
def cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products are cut on every processor, whatever kernels it has."""
    monkeypatch.setattr(small_products, "cuts", lambda: True)


def normal(*shape: int, seed: int = 0) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


@pytest.mark.parametrize("rows", [(), (1,), (1, 1), (1, 2), (3, 1), (2, 4), (12,), (1, 40), (1, 0)])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_cut_product_is_the_product(shape: tuple[int, int], rows: tuple[int, ...]) -> None:
    weight, x = normal(*shape), normal(*rows, shape[1], seed=1)
    found = to_numpy(times_transposed(x, weight))
    wanted = to_numpy(x).astype(float) @ to_numpy(weight).astype(float).T
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, atol=1e-5 * shape[1])


@pytest.mark.parametrize(("outputs", "inputs"), [*SHAPES, (8960, 1536), (1536, 8960), (49152, 576), (151936, 896)])
def test_blocks_keep_the_bounds_of_the_small_kernels(outputs: int, inputs: int) -> None:
    for rows in range(1, 17):
        block = small_products._block(rows, outputs, inputs)
        assert block == outputs or (outputs % block == 0 and rows * block <= 1200 and rows * block * inputs <= 10**6)


def test_the_matrices_of_models_are_cut_for_plain_steps_and_short_drafts_and_not_for_prompts() -> None:
    for outputs, inputs in [(1536, 576), (49152, 576), (8960, 1536), (1536, 8960), (151936, 896)]:
        assert all(small_products._block(rows, outputs, inputs) < outputs for rows in (1, 2, 4, 8))
        assert small_products._block(13, outputs, inputs) == outputs


def test_what_is_no_float32_stays_as_it_is() -> None:
    weight, x = normal(1536, 576).astype(mx.bfloat16), normal(1, 576).astype(mx.bfloat16)
    assert times_transposed(x, weight).dtype == mx.bfloat16
    assert mx.array_equal(times_transposed(x, weight), x @ weight.T).item()


def test_a_cut_product_has_the_gradient_of_the_product() -> None:
    weight, x = normal(1536, 64), normal(2, 64, seed=1)
    cut, whole = (mx.grad(lambda w, f=f: mx.square(f(x, w)).sum())(weight) for f in (times_transposed, _whole))
    assert mx.allclose(cut, whole, rtol=1e-3, atol=1e-3).item()


def _whole(x: mx.array, weight: mx.array) -> mx.array:
    return x @ weight.T


def test_layers_with_and_without_bias_and_tied_embeddings_cut_their_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.Linear, "__call__", nn.Linear.__call__)  # is put back
    monkeypatch.setattr(nn.Embedding, "as_linear", nn.Embedding.as_linear)
    small_products.install()
    shapes: list[list[tuple[int, ...]]] = []
    monkeypatch.setattr(small_products, "times_transposed", lambda x, w: shapes.append([x.shape, w.shape]) or x @ w.T)
    x, layer = normal(1, 2, 64), nn.Linear(64, 1536)
    assert mx.allclose(layer(x), x @ layer.weight.T + layer.bias, atol=1e-5).item()
    nn.Linear(64, 128, bias=False)(x)
    nn.Embedding(1536, 64).as_linear(x)
    assert [weight for _, weight in shapes] == [(1536, 64), (128, 64), (1536, 64)]


@pytest.mark.parametrize("device", ["cpu", "gpu"])
def test_nothing_is_cut_on_a_gpu_or_without_the_kernels(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    described = backend.Backend(device, "openblas", dequantize=True, detail="")
    monkeypatch.setattr(backend, "describe", lambda: described)
    for kernels in (False, True):
        monkeypatch.setattr(blas, "has_small_kernels", lambda kernels=kernels: kernels)
        assert small_products.cuts.__wrapped__() == (kernels and device == "cpu")


@pytest.mark.parametrize(("outputs", "inputs"), [(576, 576), (1536, 576), (576, 1536), (1536, 8960), (49152, 576)])
def test_a_row_has_the_same_bits_however_many_there_are(
    outputs: int, inputs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    if not small_products.cuts():
        pytest.skip("OpenBLAS has kernels for small matrices on processors with AVX-512 alone")
    weight, x = normal(outputs, inputs), normal(9, inputs, seed=1)
    alone = mx.concatenate([times_transposed(x[row : row + 1], weight) for row in range(9)])
    for rows in range(2, 10):
        assert mx.array_equal(times_transposed(x[:rows], weight), alone[:rows]).item(), rows
