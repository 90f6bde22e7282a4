"""What a drafter may be expected to bring, learnt from what came of its drafts."""

from statistics import mean

import pytest

from engine.events import Round
from engine.policy.expected_length import AcceptanceCounts, AcceptanceEstimate, TreeExpectedLength
from tests.engine.policy.simulation import costs_of, flags, known, speed

USUAL = (0.41, 0.4, 0.3)


def test_an_estimate_follows_what_happens_and_forgets() -> None:
    estimate = AcceptanceEstimate(4)
    for accepted, refused, low, high in ((1, 0, 0.85, 1.0), (0, 1, 0.0, 0.15), (1, 1, 0.4, 0.6)):
        for _ in range(100):
            estimate.learn(accepted, refused)
            estimate.elapse(1)
        assert low < estimate.probs()[0] < high


@pytest.mark.parametrize("usual", [(), USUAL])
def test_an_estimate_returns_to_where_it_began_as_tokens_go_by(usual: tuple[float, ...]) -> None:
    estimate = AcceptanceEstimate(5, AcceptanceCounts.of(usual))
    began = estimate.probs()
    assert began[: len(usual)] == pytest.approx(usual, rel=0.28)  # a quarter of all texts is unusual
    seen = []
    for tokens in (0, 50, 400):
        for _ in range(20 if not tokens else 0):
            estimate.learn(0, 1)
        estimate.elapse(tokens)
        seen.append(estimate.probs()[0])
    assert seen[0] < seen[1] < seen[2] < began[0]
    assert seen[2] == pytest.approx(began[0], rel=0.05)


def test_places_that_are_usually_alike_stay_alike_when_the_rate_is_known_well() -> None:
    """What is usual of a place is compared with what the estimate expects of it, which rises from place to place as
    long as the rate is uncertain; it must not stay above the rate that is found."""
    estimate = AcceptanceEstimate(8, AcceptanceCounts.of((0.95,) * 8))
    for _ in range(200):
        estimate.learn(19, 1)
    assert mean(estimate.probs()) == pytest.approx(0.95, abs=0.015)


@pytest.mark.parametrize("usual", [(0.0, 0.5), (0.8, 0.8, 0.0), (1.0,) * 20])
def test_a_usual_chance_that_is_wrong_is_found_out(usual: tuple[float, ...]) -> None:
    """A place that is never tried would never be known better."""
    costs = costs_of("here", "head")
    for text in ("90% right", "0% right"):
        right = flags(text, 3)
        cold, warm = (speed(known(own, head=costs), costs, right) for own in ((), usual))
        assert warm > 0.85 * cold


def assert_within_the_budget(text: str, usual: tuple[float, ...], tokens: int) -> None:
    """No reply on the costs of `here` with a head loses more than the budget lends."""
    costs = costs_of("here", "head")
    for seed in range(8):
        least = 0.96 if tokens < 256 else 0.976  # three plain steps, or 3 % of the tokens, and 1 %
        assert speed(known(usual, head=costs), costs, flags(text, seed), tokens=tokens) > least


@pytest.mark.parametrize("usual", [(0.95,) * 8, (0.5, 0.1)])
def test_a_usual_chance_that_is_wrong_costs_no_more_than_the_budget(usual: tuple[float, ...]) -> None:
    for text in ("0% right", "30% right", "bursts of 64"):
        assert_within_the_budget(text, usual, 64)
    assert_within_the_budget("0% right", usual, 256)


def test_what_lies_behind_the_end_of_a_reply_is_not_counted_as_refused() -> None:
    counts = AcceptanceCounts()
    drafted = Round(0, (0, 1, 2, 3), (0, 1, 2, 9), 3, (1.0,) * 4, (), 5, 0.0)
    counts.add(drafted.cut(2))
    assert counts.reached == counts.accepted == [1.0, 1.0]
    counts.add(drafted)
    assert (counts.reached, counts.accepted) == ([2.0, 2.0, 1.0, 1.0], [2.0, 2.0, 1.0, 0.0])


def test_a_tree_estimate_scales_the_curve_it_was_made_with() -> None:
    estimate = TreeExpectedLength({4: 1.5, 16: 2.0})
    assert estimate.expected(None) == {4: 1.5, 16: 2.0}
    poor = Round(0, (1,), tuple(range(16)), 0, (1.0,), (), 17, 0.0, parents=(-1,) * 16)
    for _ in range(60):
        estimate.learn(poor, None)
        estimate.elapse(1)
    assert estimate.expected(None)[16] < 1.1
    good = Round(0, (1, 2, 3), tuple(range(16)), 2, (1.0,) * 3, (), 17, 0.0, parents=(-1,) * 16, path=(0, 1))
    for _ in range(60):
        estimate.learn(good, None)
        estimate.elapse(3)
    assert estimate.expected(None)[16] == pytest.approx(3.0, abs=0.1)
    assert estimate.expected(None)[4] == pytest.approx(2.0, abs=0.1)
