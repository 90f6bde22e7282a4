"""Functions in the place of MLX's own, on Linux's CPU: the same values, worked out by numpy in double precision."""

from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from engine import backend
from engine.backend import cpu_functions, to_numpy

Array = Any


def normal(*shape: int, seed: int = 0) -> mx.array:
    return mx.random.normal(shape, key=mx.random.key(seed))


def double(array: mx.array) -> Array:
    return to_numpy(array).astype(float)


NUMBERS = [-np.inf, -1000.0, -104.0, -87.0, -20.0, -1.5, -1e-4, 0.0, 1e-4, 0.3, 1.0, 20.0, 88.0, 1000.0, np.inf]


def test_exponentials_and_sigmoids_of_all_sizes() -> None:
    x = mx.array([*NUMBERS, *np.linspace(-80, 80, 4001)])
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(to_numpy(cpu_functions.exp(x)), np.exp(to_numpy(x)), rtol=4e-6, atol=1e-37)
        wanted = 1 / (1 + np.exp(-double(x)))
    np.testing.assert_allclose(to_numpy(cpu_functions.sigmoid(x)), wanted, rtol=4e-6, atol=5e-18)


def test_nan_stays_nan() -> None:
    assert all(mx.isnan(f(mx.array(np.nan))).item() for f in (cpu_functions.exp, cpu_functions.sigmoid))


@pytest.mark.parametrize("dtype", [mx.float16, mx.bfloat16, mx.int32])
def test_dtypes_are_those_of_mlx(dtype: mx.Dtype) -> None:
    wanted = mx.float32 if dtype == mx.int32 else dtype
    assert cpu_functions.exp(mx.array([0, 1], dtype)).dtype == wanted
    assert cpu_functions.sigmoid(mx.array([0, 1], dtype)).dtype == wanted


@pytest.mark.parametrize("function", ["exp", "sigmoid"])
def test_gradients(function: str) -> None:
    x = mx.array([-1000.0, -30.0, -2.0, 0.0, 0.7, 30.0])
    found = mx.grad(lambda x: getattr(cpu_functions, function)(x).sum())(x)
    wanted = np.exp(double(x)) / (1 if function == "exp" else (1 + np.exp(double(x))) ** 2)
    np.testing.assert_allclose(to_numpy(found), wanted, rtol=1e-5, atol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_logsumexp(axis: Any, keepdims: bool) -> None:
    x = mx.where(normal(3, 50, seed=2) > 1.2, -mx.inf, 30 * normal(3, 50))
    numbers = double(x)
    wanted = np.log(np.exp(numbers).sum(axis, keepdims=keepdims))
    found = to_numpy(cpu_functions.logsumexp(x, axis, keepdims))
    assert found.shape == np.shape(wanted)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_logsumexp_of_nothing_is_that_of_mlx() -> None:
    assert cpu_functions.logsumexp(mx.full((2, 5), -mx.inf), -1).tolist() == [-np.inf, -np.inf]


def rotated(x: Array, dims: int, traditional: bool, freqs: Array, positions: Array) -> Array:
    """Rotary embedding by complex numbers (arXiv 2104.09864): x (batch, heads, n, width), positions (batch, n)."""
    turns = np.exp(1j * positions[:, None, :, None] / freqs)
    turning = x[..., :dims]
    pairs = turning.reshape(*x.shape[:-1], -1, 2) if traditional else np.stack(np.split(turning, 2, -1), -1)
    turned = (pairs[..., 0] + 1j * pairs[..., 1]) * turns
    parts = [turned.real, turned.imag]
    whole = np.stack(parts, -1).reshape(turning.shape) if traditional else np.concatenate(parts, -1)
    return np.concatenate([whole, x[..., dims:]], -1)


@pytest.mark.parametrize("traditional", [False, True])
@pytest.mark.parametrize("dims", [16, 8])
@pytest.mark.parametrize("offset", [0, 7, mx.array(5), mx.array([9, 1])])
@pytest.mark.parametrize("scaled", [False, True])
def test_rotations(traditional: bool, dims: int, offset: Any, scaled: bool) -> None:
    x, scale = normal(2, 3, 5, 16), 0.25 if scaled else 1.0
    freqs = mx.random.uniform(1.0, 50.0, (dims // 2,)) if scaled else None
    base = None if scaled else 1e4
    found = cpu_functions.rope(x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)
    wavelengths = 1e4 ** (np.arange(dims // 2) / (dims // 2)) if freqs is None else double(freqs)
    positions = (np.arange(5) + np.reshape(to_numpy(mx.array(offset)), (-1, 1))) * scale * np.ones((2, 1))
    wanted = rotated(double(x), dims, traditional, wavelengths, positions)
    np.testing.assert_allclose(to_numpy(found), wanted, atol=1e-5)


def test_a_rotation_keeps_shape_and_dtype_without_heads() -> None:
    x = normal(2, 5, 16)
    settings: Any = {"traditional": False, "base": 1e4, "scale": 1.0, "offset": mx.array([3, 8])}
    found = cpu_functions.rope(x, 16, **settings)
    assert mx.allclose(found, cpu_functions.rope(x[:, None], 16, **settings)[:, 0]).item()
    assert cpu_functions.rope(x.astype(mx.bfloat16), 16, **settings).dtype == mx.bfloat16


def test_the_layers_of_a_pass_share_their_angles_and_other_passes_have_their_own() -> None:
    settings: Any = {"traditional": False, "base": 1e4, "scale": 1.0}
    positions, others = mx.array([1, 2]), mx.array([3, 4])
    cpu_functions._shared.cos_and_sin.cache_clear()
    first, *_, last = [
        cpu_functions.rope(normal(2, 3, 1, 16), 16, **settings, offset=place)
        for place in (positions, positions, others, positions, others)
    ]
    assert cpu_functions._shared.cos_and_sin.cache_info().misses == 2
    assert not mx.allclose(first, last).item()


@pytest.fixture
def every_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of few queries is replaced too."""
    monkeypatch.setattr(cpu_functions, "_MOST_VERIFIED", 0)


def attended(q: Array, k: Array, v: Array, mask: Array, sinks: Array | None) -> Array:
    """Attention (arXiv 1706.03762), with a logit per head that takes weight and gives nothing (arXiv 2309.17453)."""
    k, v = (np.repeat(each, q.shape[1] // k.shape[1], 1) for each in (k, v))
    scores = q @ k.swapaxes(-1, -2) * 0.3 + mask
    if sinks is not None:
        scores = np.concatenate([scores, np.broadcast_to(sinks[:, None, None], (*scores.shape[:3], 1))], -1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return weights[..., : k.shape[2]] @ v


def masks(queries: int, keys: int) -> dict[str, Any]:
    causal = mx.arange(keys - queries, keys)[:, None] >= mx.arange(keys)
    some = (normal(2, 6, queries, keys, seed=5) > -0.5) | (mx.arange(keys) == 0)
    return {
        "none": None,
        "causal": "causal",
        "by token": causal,
        "added": mx.where(causal, 0.5, -mx.inf),
        "by text": some[:, :1],
        "by head": some,
        "of one text by head": some[0],
        "of one query": some[:, :, :1],
    }


@pytest.mark.parametrize("mask", masks(1, 1))
@pytest.mark.parametrize("kept", [6, 3, 1])
@pytest.mark.parametrize("sinks", [False, True])
def test_attention(mask: str, kept: int, sinks: bool, every_attention: None) -> None:
    q, k, v = normal(2, 6, 4, 16), normal(2, kept, 9, 16, seed=1), normal(2, kept, 9, 8, seed=2)
    given, sink = masks(4, 9)[mask], normal(6, seed=3) if sinks else None
    found = cpu_functions.scaled_dot_product_attention(q, k, v, scale=0.3, mask=given, sinks=sink)
    added = masks(4, 9)["by token"] if isinstance(given, str) else given
    if added is None:
        hidden: Any = 0.0
    else:
        hidden = np.where(to_numpy(added), 0.0, -np.inf) if added.dtype == mx.bool_ else double(added)
    wanted = attended(double(q), double(k), double(v), hidden, None if sink is None else double(sink))
    np.testing.assert_allclose(to_numpy(found), wanted, atol=1e-5)


def test_attention_of_a_verify_pass_is_that_of_mlx() -> None:
    """To the last bit, as that of a plain step is: see `engine.audit.identical_width`."""
    q, k = normal(1, 4, 9, 64), normal(1, 2, 200, 64, seed=1)
    found = cpu_functions.scaled_dot_product_attention(q, k, k, scale=0.3, mask="causal")
    assert mx.array_equal(found, cpu_functions._attention(q, k, k, scale=0.3, mask="causal")).item()


def test_attention_over_a_long_prompt_goes_by_blocks() -> None:
    queries = 2 * cpu_functions._QUERIES_AT_ONCE + 3
    q, k, v = normal(1, 2, queries, 8), normal(1, 1, queries + 5, 8, seed=1), normal(1, 1, queries + 5, 8, seed=2)
    found = cpu_functions.scaled_dot_product_attention(q, k, v, scale=0.3, mask="causal")
    causal = masks(queries, queries + 5)["by token"]
    whole = cpu_functions.scaled_dot_product_attention(q, k, v, scale=0.3, mask=causal)
    assert mx.allclose(found, whole, atol=1e-5).item()


def test_a_query_that_sees_nothing_weighs_all_values_alike(every_attention: None) -> None:
    """As with MLX's own, whose masks hide by the least number rather than by infinity."""
    q, k, v = normal(1, 1, 2, 8), normal(1, 1, 3, 8, seed=1), normal(1, 1, 3, 8, seed=2)
    hidden = mx.zeros((2, 3), mx.bool_)
    found = cpu_functions.scaled_dot_product_attention(q, k, v, scale=0.3, mask=hidden)
    assert mx.allclose(found, mx.mean(v, 2, keepdims=True), atol=1e-5).item()


def test_attention_keeps_the_dtype_of_its_arrays() -> None:
    q = normal(1, 2, 3, 8).astype(mx.bfloat16)
    assert cpu_functions.scaled_dot_product_attention(q, q, q, scale=0.3, mask="causal").dtype == mx.bfloat16


@pytest.mark.parametrize(
    ("system", "device", "replaced"), [("linux", "cpu", True), ("linux", "gpu", False), ("darwin", "cpu", False)]
)
def test_functions_are_replaced_on_the_cpu_of_linux_alone(
    system: str, device: str, replaced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = backend.Backend(device, "openblas", dequantize=True, detail="")
    monkeypatch.setattr(backend, "describe", lambda: described)
    monkeypatch.setattr("sys.platform", system)
    assert cpu_functions.replaces.__wrapped__() == replaced


def test_models_compute_with_the_replaced_functions() -> None:
    import engine.backend.mlx_lm_imports  # noqa: F401

    assert (mx.exp is cpu_functions.exp) == cpu_functions.replaces()
    assert (mx.fast.rope is cpu_functions.rope) == cpu_functions.replaces()
