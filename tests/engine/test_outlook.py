"""What a drafter may be expected to bring, learnt from what came of its drafts."""

import random
from statistics import mean

import pytest

from engine.adaptive import Adaptive, Candidate
from engine.belief import CHANCES, Belief
from engine.events import Round
from engine.outlook import ChainOutlook, TreeOutlook
from tests.engine.simulation import costs_of, flags, speed, told
from tests.engine.test_policy import FLAT


def test_beliefs_follow_what_happens_and_forget() -> None:
    belief = Belief(4)
    for _ in range(150):
        belief.learn(2, 1)
        belief.elapse(2)
    assert belief.chances()[0] > 0.85
    assert belief.chances()[1] < 0.3
    for _ in range(50):
        belief.learn(1, 0)
        belief.elapse(1)
    assert belief.chances()[0] < 0.15


def test_every_place_tells_about_the_others() -> None:
    belief = Belief(8)
    for _ in range(4):
        belief.learn(2, 2)
    assert min(belief.chances()) > 0.8


def test_places_that_are_reached_only_where_the_chance_is_good_look_better() -> None:
    chances = Belief(8).chances()
    assert chances == sorted(chances)
    assert chances[0] == pytest.approx(mean(CHANCES))
    assert chances[1] == pytest.approx(mean(p * p for p in CHANCES) / mean(CHANCES))


def test_what_is_believed_returns_to_where_it_began_as_tokens_go_by() -> None:
    belief = Belief(2)
    for _ in range(20):
        belief.learn(1, 0)
    low = belief.chances()[0]
    assert low < belief.later(50).chances()[0] < belief.later(400).chances()[0] < mean(CHANCES)
    assert belief.chances()[0] == low
    soon = belief.later(50).chances()
    belief.elapse(50)
    assert belief.chances() == soon


USUAL = (0.41, 0.4, 0.3)


def test_a_belief_begins_with_the_usual_chances_and_returns_to_them() -> None:
    belief = Belief(5, USUAL)
    assert belief.chances()[:3] == pytest.approx(USUAL)
    for _ in range(3):
        belief.learn(1, 0)
    low, soon = belief.chances()[0], belief.later(20).chances()
    assert low < 0.32 and low < soon[0] < 0.36
    belief.elapse(1000)
    assert 0.33 < belief.chances()[0] < USUAL[0]  # less what was learnt of the place as such


def test_a_drafter_that_is_as_usual_stays_as_usual() -> None:
    belief, rng = Belief(4, USUAL), random.Random(1)
    seen = []
    for _ in range(3000):
        accepted = 0
        while accepted < 3 and rng.random() < USUAL[accepted]:
            accepted += 1
        belief.learn(min(accepted + 1, 3), accepted)
        belief.elapse(accepted + 1)
        seen.append(belief.chances()[:3])
    assert [mean(place) for place in zip(*seen, strict=True)] == pytest.approx(USUAL, rel=0.12)


@pytest.mark.parametrize("usual", [(0.0,), (0.8, 0.8, 0.0), (0.5, 0.0), (1.0,) * 20])
def test_a_usual_chance_that_is_wrong_is_found_out(usual: tuple[float, ...]) -> None:
    """A place that is never tried would never be known better."""
    costs = costs_of("here", "head")
    for text in ("90% right", "0% right"):
        right = flags(text, 3)
        cold, warm = (
            speed(Adaptive([Candidate("head", costs, ChainOutlook(8, own))]), costs, right) for own in ((), usual)
        )
        assert warm > 0.85 * cold


def warmly(text: str, usual: tuple[float, ...], tokens: int = 64) -> float:
    """Speed of replies on the costs of `here` with a head, over that of the best fixed length; a reply that
    loses more than the purse lends raises."""
    costs, speeds = costs_of("here", "head"), []
    for seed in range(24):
        right = flags(text, seed)
        speeds.append(speed(Adaptive([Candidate("head", costs, ChainOutlook(8, usual))]), costs, right, tokens=tokens))
    assert min(speeds) > (0.975 if tokens < 256 else 0.99)
    return mean(speeds)


def test_a_usual_chance_spares_short_replies_the_finding_out() -> None:
    assert warmly("50% right", (0.5,)) > 1.03 * warmly("50% right", ())


@pytest.mark.parametrize("usual", [(0.95,) * 8, (0.02,), (0.5, 0.1)])
def test_a_usual_chance_that_is_wrong_costs_no_more_than_the_purse(usual: tuple[float, ...]) -> None:
    for text in ("0% right", "30% right", "bursts of 64"):
        warmly(text, usual)
        warmly(text, usual, 256)


def test_knowing_the_chance_is_worth_most_where_drafting_may_pay_or_not() -> None:
    """One drafted token at 1.5 passes pays from a chance of 0.5 on."""
    outlook = ChainOutlook(1)
    doubtful = outlook.ignorance(None, {0: 1.0, 1: 1.5})
    plain = mean(max(0.0, 1 - 1.5 / (1 + p)) for p in CHANCES)
    assert doubtful == pytest.approx(plain - max(0.0, mean(1 - 1.5 / (1 + p) for p in CHANCES)))
    assert outlook.ignorance(None, {0: 1.0, 1: 2.1}) == pytest.approx(0)
    for _ in range(20):
        outlook.learn(told(1, 0), None)
    assert outlook.ignorance(None, {0: 1.0, 1: 1.5}) < doubtful / 10


def test_a_tree_outlook_scales_the_curve_it_was_made_with() -> None:
    outlook = TreeOutlook({4: 1.5, 16: 2.0})
    assert outlook.expected(None) == {4: 1.5, 16: 2.0}
    poor = Round(0, (1,), tuple(range(16)), 0, (1.0,), (), 17, 0.0, parents=(-1,) * 16)
    for _ in range(60):
        outlook.learn(poor, None)
    assert outlook.expected(None)[16] < 1.1
    good = Round(0, (1, 2, 3), tuple(range(16)), 2, (1.0,) * 3, (), 17, 0.0, parents=(-1,) * 16, path=(0, 1))
    for _ in range(60):
        outlook.learn(good, None)
    assert outlook.expected(None)[16] == pytest.approx(3.0, abs=0.1)
    assert outlook.expected(None)[4] == pytest.approx(2.0, abs=0.1)


def test_trees_of_which_nothing_is_known_are_judged_by_what_they_bring() -> None:
    policy = Adaptive([Candidate("trees", FLAT, TreeOutlook({}))])
    for _ in range(300):
        length = policy.plan().length
        policy.observe(Round(0, (1,), tuple(range(length)), 0, (1.0,), (), length + 1, 0.0, parents=(-1,) * length))
    assert policy.plan().length in (0, 2)
