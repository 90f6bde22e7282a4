"""How many tokens to draft: simulated replies of known acceptance on machines of known cost."""

import random
from collections.abc import Sequence

import pytest

from engine.costs import Costs
from engine.events import Round
from engine.policy import Adaptive, FixedLength, Policy, best_size

# Seconds of a pass, the plain one being 1, and of a drafted token.
FLAT = Costs(((1, 1.0), (9, 1.1)), ((0, 0.0), (1, 0.02)))
USUAL = Costs(((1, 1.0), (2, 1.3), (3, 1.5), (5, 1.9), (9, 2.8)), ((0, 0.0), (1, 0.1)))
STEEP = Costs(((1, 1.0), (2, 1.8), (4, 3.3), (8, 6.1)), ((0, 0.0), (1, 0.3)))


def told(drafted: int, accepted: int) -> Round:
    """A round that was not cut."""
    chances = (1.0,) * (accepted + 1)
    return Round(0, tuple(range(accepted + 1)), tuple(range(drafted)), accepted, chances, (), drafted + 1, 0.0)


def run(policy: Policy, costs: Costs, chances: Sequence[float], seed: int = 0) -> tuple[list[int], float]:
    """The draft length of each round over a text, and its speed against plain decoding. chances: of each
    token of the text, that a drafter proposes it."""
    rng = random.Random(seed)
    at, seconds, lengths = 0, 0.0, []
    while at < len(chances):
        plan = policy.plan()
        accepted = 0
        while accepted < plan.length and rng.random() < chances[min(at + accepted, len(chances) - 1)]:
            accepted += 1
        lengths.append(plan.length)
        seconds += costs.round_s(plan.length)
        at += accepted + 1
        policy.observe(told(plan.length, accepted))
    return lengths, at * costs.round_s(0) / seconds


def best_fixed(costs: Costs, chances: Sequence[float]) -> float:
    return max(run(FixedLength(length), costs, chances)[1] for length in range(9))


def test_a_fixed_length_never_changes() -> None:
    policy = FixedLength(4)
    for accepted in (0, 4, 0):
        assert policy.plan().length == 4
        policy.observe(told(4, accepted))
    assert not policy.plain_next()


def test_plain_decoding_is_a_fixed_length_of_nothing() -> None:
    policy = FixedLength(0)
    assert policy.plan().length == 0
    assert policy.plain_next()
    assert "plain" in policy.plan().reason


def test_high_acceptance_and_flat_costs_draft_deep() -> None:
    lengths, gain = run(Adaptive(FLAT), FLAT, [0.97] * 400)
    assert set(lengths[10:]) == {8}
    assert gain > 4


def test_high_acceptance_finds_its_depth_where_costs_rise() -> None:
    """The deep places start from a modest hope; what is seen of the first ones must lift them."""
    lengths, gain = run(Adaptive(USUAL), USUAL, [0.95] * 600)
    assert sum(lengths[-40:]) / 40 > 5
    assert gain > 0.9 * best_fixed(USUAL, [0.95] * 600)


def test_nothing_accepted_drafts_nothing_but_probes() -> None:
    policy = Adaptive(USUAL)
    lengths, gain = run(policy, USUAL, [0.0] * 600)
    drafted = [i for i, length in enumerate(lengths) if length]
    late = [i for i in drafted if i > 30]
    assert {lengths[i] for i in late} == {1}
    assert 0 < len(late) < 600 / 15
    assert gain > 0.97
    assert policy.plan().reason == "drafting would not pay"


def test_costs_that_no_acceptance_can_pay_for_draft_nothing_ever() -> None:
    for chance in (0.0, 1.0):
        lengths, gain = run(Adaptive(STEEP), STEEP, [chance] * 300)
        assert set(lengths) == {0}
        assert gain == 1.0


@pytest.mark.parametrize("costs", [FLAT, USUAL, STEEP])
@pytest.mark.parametrize("chance", [0.0, 0.2, 0.4, 0.6, 0.8, 0.95])
def test_it_is_never_slower_than_plain_and_near_the_best_fixed_length(costs: Costs, chance: float) -> None:
    """Averaged over replies of 500 tokens. A probe in 50 and the first rounds are what it may cost."""
    gains = [run(Adaptive(costs), costs, [chance] * 500, seed)[1] for seed in range(8)]
    assert sum(gains) / 8 > 0.97
    assert sum(gains) / 8 > 0.88 * best_fixed(costs, [chance] * 500)


@pytest.mark.parametrize("costs", [FLAT, USUAL])
def test_it_recovers_when_a_text_begins_to_draft_well(costs: Costs) -> None:
    chances = [0.0] * 200 + [0.95] * 300
    lengths, _ = run(Adaptive(costs), costs, chances)
    assert sum(lengths[-10:]) / 10 > 4
    gains = [run(Adaptive(costs), costs, chances, seed)[1] for seed in range(8)]
    assert sum(gains) / 8 > 1.15


def test_it_gives_up_soon_when_a_text_stops_drafting_well() -> None:
    policy = Adaptive(USUAL)
    run(policy, USUAL, [0.95] * 200)
    lengths, _ = run(policy, USUAL, [0.0] * 100)
    assert sum(1 for length in lengths[:20] if length) < 15
    assert sum(lengths[30:]) < 10


def test_a_steady_text_gets_steady_lengths() -> None:
    lengths, _ = run(Adaptive(USUAL), USUAL, [1.0] * 1000)
    assert lengths == sorted(lengths)
    assert set(lengths[80:]) == {8}


def test_plans_depend_on_rounds_and_costs_alone() -> None:
    rng = random.Random(3)
    one, two = Adaptive(USUAL), Adaptive(USUAL)
    plans = []
    for _ in range(200):
        plan = one.plan()
        assert two.plan() == plan == one.plan()
        round_ = told(plan.length, rng.randint(0, plan.length))
        one.observe(round_)
        two.observe(round_)
        plans.append(plan.length)
    assert len(set(plans)) > 2


def test_plain_next_is_said_only_where_the_next_plan_is_plain() -> None:
    """A step launched ahead cannot be taken back: plain_next at a plain round binds the plan after it."""
    policy = Adaptive(USUAL)
    bound = probes = 0
    for _ in range(300):
        plan = policy.plan()
        ahead = plan.length == 0 and policy.plain_next()
        policy.observe(told(plan.length, 0))
        assert not ahead or policy.plan().length == 0
        bound, probes = bound + ahead, probes + (plan.length > 0)
    assert bound > 200
    assert probes > 5


def test_a_drafter_with_nothing_to_say_is_asked_again() -> None:
    """Lookup often proposes nothing: such rounds teach nothing, and none may be launched behind one."""
    policy = Adaptive(FLAT)
    for _ in range(50):
        assert policy.plan().length > 0
        assert not policy.plain_next()
        policy.observe(told(0, 0))


def test_a_round_cut_by_the_replys_end_is_no_refusal() -> None:
    """Both saw two tokens kept; in one of them the reply ended there, and the third was never judged."""
    cut, refused = Adaptive(FLAT), Adaptive(FLAT)
    for _ in range(20):
        cut.observe(Round(0, (0, 1), (0, 1, 2, 3), 2, (1.0, 1.0), (), 5, 0.0))
        refused.observe(told(4, 2))
    assert cut.plan().length > 5
    assert refused.plan().length < 4


def test_reasons_say_what_was_expected() -> None:
    policy = Adaptive(FLAT)
    assert "x plain speed" in policy.plan().reason
    for _ in range(60):
        policy.observe(told(policy.plan().length, 0))
    reasons = set()
    for _ in range(30):
        reasons.add(policy.plan().reason)
        policy.observe(told(policy.plan().length, 0))
    assert reasons == {"drafting would not pay", "probing: is drafting worth it again?"}


def test_the_size_of_a_tree_is_what_pays_best_here() -> None:
    expected = {4: 1.5, 8: 1.8, 16: 2.0, 32: 2.1}
    assert best_size(expected, FLAT).plan().length == 8  # more nodes bring less than drafting and passing them costs
    plan = best_size(expected, STEEP).plan()
    assert (plan.length, plan.reason) == (0, "drafting would not pay")
    assert "x plain speed" in best_size(expected, FLAT).plan().reason
