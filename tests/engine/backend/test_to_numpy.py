"""Numbers that go from MLX to numpy are those that were computed, or there is an error."""

import mlx.core as mx
import numpy as np
import pytest

from engine.backend import to_numpy


def test_what_could_not_be_computed_is_an_error() -> None:
    singular = mx.linalg.inv(mx.zeros((2, 2)), stream=mx.cpu)
    with pytest.raises(RuntimeError, match="LU factorization failed"):
        to_numpy(singular + 1)


def test_it_shares_no_memory() -> None:
    ones = mx.ones((2, 3), mx.float16)
    copy = to_numpy(ones)
    copy[:] = 2
    assert copy.dtype == np.float16 and copy.shape == (2, 3)
    assert mx.all(ones == 1).item()
