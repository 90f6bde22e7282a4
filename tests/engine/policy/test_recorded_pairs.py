"""Draft length auto along recorded replies of a draft model a third of its target's size: `recorded_pairs`."""

from __future__ import annotations

from statistics import mean

import pytest

from tests.programs.recorded_pairs import GOAL, NOISE, after_trial, read_replies, results, trial_rate, untried


@pytest.mark.slow
def test_after_a_trial_auto_is_never_far_from_the_best_fixed_length() -> None:
    replies = read_replies()
    found = after_trial(replies)
    assert min(one.share for one in found) >= GOAL
    assert sum(one.hindsight < GOAL for one in found) <= 1
    assert min(one.slowest for one in found) >= 0.975
    cold = results(untried, replies)
    assert mean(one.share for one in found) > mean(one.share for one in cold) + 0.004


def test_a_trial_counts_what_the_target_came_to_judge() -> None:
    (reply,) = [one for one in read_replies() if not one.temperature][:1]
    right = [True, True, True, True, False, True, False, False]
    one = type(reply)(0, 0.0, {NOISE[0]: right})
    # drafts of three: all kept, then refused at once (the fifth token), kept and refused, refused
    assert trial_rate([one], NOISE[0]) == pytest.approx(4 / 7)
