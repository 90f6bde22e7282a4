"""Draft length auto along recorded replies of a draft model a third of its target's size: `recorded_pairs`."""

from __future__ import annotations

from statistics import mean

import pytest

from tests.programs.recorded_pairs import GOAL, read_replies, results


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_auto_is_never_far_from_the_best_fixed_length_whatever_the_prior(factor: float) -> None:
    found = results(read_replies(), factor)
    assert mean(one.share for one in found) >= 0.985
    assert min(one.share for one in found) >= GOAL - 0.02
    assert min(one.slowest for one in found) >= 0.97


@pytest.mark.slow
def test_short_replies_soon_know_how_often_drafts_are_right() -> None:
    """Four of 64 tokens, the first of which knows nothing of the pair but what rounds usually take."""
    found = results(read_replies(), most=64, series=4)
    assert mean(one.share for one in found) >= 0.965
    assert min(one.slowest for one in found) >= 0.97
