"""The edges of top-k and top-p, against full sorts."""

import math

import mlx.core as mx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine import top_k_top_p
from engine.sampling import Distribution
from engine.settings import SamplingSettings

# Up to one group, just above, one that no group size divides, and the largest vocabulary in use.
WIDTHS = [7, 2048, 2049, 9001, 49_152]


def logprobs_of(seed: int, rows: int, width: int, steps: float | None) -> mx.array:
    """Returns normalised rows. steps: rounds logits to multiples of this, so that there are ties."""
    logits = np.random.default_rng(seed).normal(0, 3, (rows, width))
    if steps is not None:
        logits = np.round(logits / steps) * steps
    logits = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return mx.array(logits.astype(np.float32))


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 4), st.sampled_from(WIDTHS), st.integers(1, 300), st.sampled_from([None, 0.5])
)
def test_the_largest_are_those_of_a_sort(seed: int, rows: int, width: int, count: int, steps: float | None) -> None:
    values, count = logprobs_of(seed, rows, width, steps), min(count, width)
    columns = top_k_top_p.largest(values, count)
    found = np.take_along_axis(np.array(values), np.array(columns), -1)
    assert found.tolist() == np.sort(np.array(values), -1)[:, ::-1][:, :count].tolist()
    assert all(len(set(row)) == count for row in np.array(columns).tolist())


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.sampled_from(WIDTHS),
    st.sampled_from([0.05, 0.5, 0.9, 0.95, 0.999]),
    st.sampled_from([None, 0.5]),
)
def test_the_nucleus_is_that_of_a_sort(seed: int, rows: int, width: int, top_p: float, steps: float | None) -> None:
    """A token is inside while the mass of all likelier ones is below top_p. Within the rounding of whole numbers, both
    are right."""
    logprobs = logprobs_of(seed, rows, width, steps)
    outside = np.array(top_k_top_p.outside_nucleus(logprobs, top_p))
    for values, found in zip(np.array(logprobs, dtype=np.float64), outside, strict=True):
        levels, place, counts = np.unique(-values, return_inverse=True, return_counts=True)
        mass = np.exp(-levels) * counts
        likelier = (np.cumsum(mass) - mass)[place]
        sure = np.abs(likelier - top_p) > width * 2.0**-32 + 1e-6
        assert (found == (likelier >= top_p))[sure].all()
        assert not found[np.argmax(values)]


@pytest.mark.parametrize("steps", [None, 0.5, 4.0])
@pytest.mark.parametrize("width", [1, 64, 2048])
def test_a_sort_and_a_bisection_find_the_same_nucleus(width: int, steps: float | None) -> None:
    """With ties, and with tokens that are impossible or too unlikely to have a mass."""
    logprobs = logprobs_of(width, 3, width, steps)
    logprobs = mx.concatenate([logprobs, mx.full((3, 9), -math.inf), mx.full((3, 9), -40.0)], -1)[:, :2048]
    for top_p in (1e-9, 0.05, 0.5, 0.9, 0.999, 1 - 2.0**-31):
        by_sort = top_k_top_p._outside_by_sort(logprobs, top_p)
        assert mx.array_equal(by_sort, top_k_top_p._outside_by_bisection(logprobs, top_p)).item()
        assert not mx.any(mx.all(by_sort, -1)).item()


@pytest.fixture
def sort_widths(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The width of every sort from now on."""
    widths: list[int] = []

    def recorded(name: str) -> None:
        real = getattr(mx, name)

        def call(values: mx.array, *args: object) -> mx.array:
            widths.append(values.shape[-1])
            return real(values, *args)

        monkeypatch.setattr(mx, name, call)

    for name in ("sort", "argsort", "partition", "argpartition", "topk"):
        recorded(name)
    return widths


@pytest.mark.parametrize("sampling", [{"top_p": 0.9}, {"top_k": 64}, {"top_k": 20, "top_p": 0.95}])
def test_no_sort_is_wider_than_a_threadgroup(sampling: dict[str, float], sort_widths: list[int]) -> None:
    Distribution(SamplingSettings(temperature=1, **sampling), 262_144).logprobs(mx.zeros((2, 262_144)))
    assert all(width <= top_k_top_p.SORT_WIDTH for width in sort_widths)
    assert bool(sort_widths) == ("top_k" in sampling)
