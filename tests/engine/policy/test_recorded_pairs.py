"""Draft length auto along recorded replies of a draft model a third of its target's size: `recorded_pairs`."""

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
@pytest.mark.parametrize(("factor", "least"), [(1.0, 0.97), (2.0, 0.955), (0.5, 0.955)])
def test_short_replies_soon_know_how_often_drafts_are_right(factor: float, least: float) -> None:
    """Four of 64 tokens, the first of which knows nothing of the pair. Each may lose two plain steps and 1 %, and a
    little more where a draft was taken to be cheaper than it is."""
    found = results(read_replies(), factor, most=64, series=4)
    assert mean(one.share for one in found) >= least
    assert min(one.slowest for one in found) >= 0.95


@pytest.mark.slow
def test_a_warm_up_teaches_what_each_short_reply_of_a_benchmark_would_find_out_anew() -> None:
    found = results(read_replies(), most=64, warm=True)
    assert mean(one.share for one in found) >= 0.985
    assert min(one.share for one in found) >= GOAL - 0.02
