"""From a value a round to the points of a plot."""

from __future__ import annotations

from array import array
from math import isnan, nan

import pytest

from app.window.inspector.charts import axis_end
from app.window.inspector.round_rows import MAX_POINTS, averaged, compact, stride, wilson


def test_means_leave_out_what_is_unknown() -> None:
    count = 4 * MAX_POINTS
    values = array("d", [nan if i % 3 == 0 else float(i) for i in range(count)])
    known = [[v for v in values[at : at + 4] if not isnan(v)] for at in range(0, count, 4)]
    assert averaged(values) == pytest.approx([sum(group) / len(group) for group in known])
    assert all(map(isnan, averaged(array("d", [nan] * count))))
    assert averaged(array("d", [1.0] * MAX_POINTS + [7.0]))[-1] == 7.0


def test_points_stay_where_they_are_while_more_come() -> None:
    strides = [stride(count) for count in range(1, 5_000)]
    assert set(strides) == {1, 2, 4, 8, 16, 32}
    assert strides == sorted(strides)


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (-3, 1), (nan, 1), (float("inf"), 1), (1, 1), (1.01, 1.5), (71, 80), (80, 80), (81, 100), (0.032, 0.04)],
)
def test_an_axis_ends_at_the_next_round_number(value: float, top: float) -> None:
    assert axis_end([value]) == pytest.approx(top)
    assert axis_end([value, nan, 80, -4]) == max(80, axis_end([value]))
    assert axis_end([]) == 1


def test_intervals_hold_the_share_and_are_wide_for_small_samples() -> None:
    low, high = wilson(3, 4)
    assert low < 0.75 < high
    assert high - low > 0.5
    low, high = wilson(7_500, 10_000)
    assert low < 0.75 < high
    assert high - low < 0.02
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_counts_are_written_short() -> None:
    assert [compact(n) for n in (7, 999, 1_234, 9_949, 9_950, 19_001)] == ["7", "999", "1.2k", "9.9k", "10k", "19k"]
