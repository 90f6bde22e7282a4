"""Bounds on time are kept: what is slow each time fails, what was disturbed once does not."""

import pytest

from tests import machine_speed
from tests.machine_speed import assert_quick


def test_one_slow_measurement_is_repeated_and_a_slow_program_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_speed, "_work_s", lambda: machine_speed.REFERENCE_S)
    seconds = iter([3.0, 0.5])
    assert_quick(lambda: next(seconds), 1.0)
    with pytest.raises(AssertionError, match=r"1\.200 s on a machine 1\.00 times as slow, at most 1\.0 s"):
        assert_quick(lambda: 1.2, 1.0)


def test_a_machine_of_half_the_speed_may_take_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_speed, "_work_s", lambda: 2 * machine_speed.REFERENCE_S)
    assert_quick(lambda: 1.9, 1.0)
    with pytest.raises(AssertionError, match=r"2\.00 times as slow"):
        assert_quick(lambda: 2.1, 1.0)
