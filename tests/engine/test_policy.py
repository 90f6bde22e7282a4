"""How many tokens to draft, and by whom: the pieces. What they come to over whole replies: test_simulation."""

import pytest

from engine.adaptive import PROBING, Adaptive, Candidate
from engine.costs import Costs
from engine.events import Round
from engine.gate import Gate, Reliability
from engine.outlook import ChainOutlook
from engine.policy import FixedLength, Plan
from engine.purse import AT_ONCE, MOST, SHARE, SPAN
from tests.engine.simulation import FLAT, costs_of, flags, speed, told

# Seconds of a pass, the plain one being 1, and of a drafted token.
USUAL = Costs(((1, 1.0), (2, 1.15), (9, 2.2)), ((0, 0.0), (1, 0.1), (8, 0.8)))
FREE = Costs(((1, 1.0), (9, 1.1)), ((0, 0.0), (8, 0.0)))


def alone(costs: Costs, gated: bool = False) -> Adaptive:
    return Adaptive([Candidate("drafter", costs, gated=gated)])


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


def test_a_fixed_length_is_plain_next_only_where_all_that_could_draft_have_said_no() -> None:
    policy = FixedLength(4)
    policy.plan([0.0])
    assert policy.plain_next(quiet=True)
    policy.plan([0.0, None])
    assert not policy.plain_next(quiet=True)


def test_costs_that_no_acceptance_can_pay_for_draft_nothing_ever() -> None:
    policy = alone(Costs(((1, 1.0), (2, 2.1), (9, 10.0)), ((0, 0.0), (1, 0.1))))
    for _ in range(300):
        assert policy.plan().length == 0
        assert policy.plain_next()
        policy.observe(told(0, 0))


def test_a_drafter_as_slow_as_the_target_is_of_no_use_however_good() -> None:
    """Kept whole, drafts of 8 would gain a little, for which it would have to read every prompt first."""
    verify = ((1, 1.0), (2, 1.1), (9, 1.5))
    assert Candidate("slow", Costs(verify, ((0, 0.0), (1, 0.92), (8, 7.4)))).useful == []
    assert Candidate("small", Costs(verify, ((0, 0.0), (1, 0.25), (8, 2.0)))).useful == [1, 2, 3, 4, 5, 6, 7, 8]


def test_plain_next_is_said_only_where_the_next_plan_is_plain() -> None:
    """It is asked while a plain round is under way, and its answer is about the one after that."""
    policy, said, probes = alone(USUAL), 0, 0
    for _ in range(1500):
        plan = policy.plan()
        sure = plan.length == 0 and policy.plain_next()
        policy.observe(told(plan.length, 0))
        probes += plan.reason == PROBING
        if sure:
            said += 1
            assert policy.plan().length == 0
    assert said > 500
    assert probes > 5


def test_a_policy_looks_again_and_comes_back_at_once_when_a_probe_succeeds() -> None:
    policy = alone(USUAL)
    for _ in range(600):
        policy.observe(told(policy.plan().length, 0))
    for _ in range(66):
        plan = policy.plan()
        if plan.length:
            break
        policy.observe(told(0, 0))
    assert plan.reason == PROBING
    for _ in range(6):
        length = policy.plan().length
        policy.observe(told(length, length))
    assert policy.plan().length >= 2


def test_a_round_cut_by_the_replys_end_is_no_refusal() -> None:
    """Both saw two tokens kept; in one of them the reply ended there, and the third was never judged."""
    cut, refused = ChainOutlook(), ChainOutlook()
    for _ in range(20):
        cut.learn(Round(0, (0, 1), (0, 1, 2, 3), 2, (1.0, 1.0), (), 5, 0.0), None)
        refused.learn(told(4, 2), None)
    assert cut.chances()[2] > 0.9
    assert refused.chances()[2] < 0.4


def test_reasons_say_what_was_expected() -> None:
    policy = alone(USUAL)
    assert "x plain speed" in policy.plan().reason
    reasons = set()
    for i in range(900):
        plan = policy.plan()
        policy.observe(told(plan.length, 0))
        if i >= 700:
            reasons.add(plan.reason)
    assert reasons == {"drafting would not pay", PROBING}


def test_the_same_rounds_make_the_same_plans() -> None:
    first, second = alone(FLAT), alone(FLAT)
    for accepted in [0, 3, 1, 8, 8, 2, 0, 0, 5] * 8:
        plans = [policy.plan() for policy in (first, second)]
        assert plans[0] == plans[1]
        for policy in (first, second):
            policy.observe(told(plans[0].length, min(accepted, plans[0].length)))


# --- several drafters -------------------------------------------------------------------------


def both() -> Adaptive:
    return Adaptive([Candidate("lookup", FREE), Candidate("head", FLAT)])


def test_a_drafter_that_says_it_has_nothing_is_not_asked() -> None:
    plan = both().plan([0.0, None])
    assert plan.member == 1
    assert plan.reason.startswith("head: ")


def test_each_round_takes_the_drafter_that_is_worth_more_now() -> None:
    policy = both()
    for _ in range(12):  # a head that is right now and then, copies that are right
        plan = policy.plan([0.0, None])
        policy.observe(told(plan.length, min(1, plan.length)))
        plan = policy.plan([1.0, None])
        policy.observe(told(plan.length, plan.length if plan.member == 0 else min(1, plan.length)))
    assert policy.plan([1.0, None]).member == 0
    assert policy.plan([0.0, None]).member == 1


def test_hints_are_learnt_about_apart() -> None:
    policy = Adaptive([Candidate("lookup", FREE)])
    for _ in range(40):
        policy.observe(told(policy.plan([0.5]).length, 0))
        length = policy.plan([1.0]).length
        policy.observe(told(length, length))
    assert policy.plan([1.0]).length == 8
    assert policy.plan([0.5]).length <= 1


# --- outlooks and gates -----------------------------------------------------------------------


def test_reliability_starts_from_believing_and_learns_better() -> None:
    reliability = Reliability()
    assert reliability.chance(0.75) == 0.75
    for _ in range(200):
        reliability.learn(0.75, False)
    assert reliability.chance(0.75) < 0.1
    assert reliability.chance(0.15) == 0.15


def test_a_gate_stops_where_going_on_would_not_pay() -> None:
    prices, steps = [1.0, 1.2, 1.4, 1.6], [0.0, 0.1, 0.2, 0.3]
    sure = Gate(Reliability(), prices, steps, 1.1, [0.7] * 3)
    assert all(sure.takes(0.95) and sure.goes_on() == more for more in (True, True, False))
    unsure = Gate(Reliability(), prices, steps, 1.1, [0.7] * 3)
    assert unsure.takes(0.2)
    assert not unsure.goes_on()
    hopeless = Gate(Reliability(), prices, steps, 1.1, [0.7] * 3)  # verifying costs 0.1
    assert not hopeless.takes(0.05)
    assert hopeless.refused == pytest.approx(0.05)


def test_a_gate_looks_past_a_first_row_that_is_dear() -> None:
    """From a product with a vector to one with a matrix: seven more rows cost what is left of one."""
    prices = [1.0, 1.5, *(1.5 + 0.02 * n for n in range(1, 8))]
    gate = Gate(Reliability(), prices, [0.0] * 9, 3.0, [0.95] * 8)
    length = 0
    while gate.takes(0.95):
        length += 1
        if not gate.goes_on():
            break
    assert length == 8


@pytest.mark.parametrize("curve", ["M5 Max, 70B", "stepped", "M4 Pro"])
@pytest.mark.parametrize("right", ["80% right", "90% right"])
def test_copies_are_as_long_as_the_best_fixed_length(curve: str, right: str) -> None:
    """Hints say that there is something to copy all along: what a round is worth is then what copying makes."""
    costs = costs_of(curve, "free")

    class Hinting(Adaptive):
        def plan(self, hints: object = ()) -> Plan:
            return super().plan([1.0])

    shares = []
    for seed in range(6):
        text = flags(right, seed)
        best = max(speed(FixedLength(length), costs, text) for length in range(9))
        shares.append(speed(Hinting([Candidate("lookup", costs)]), costs, text) / best)
    assert sum(shares) / 6 > 0.96


def booked(policy: Adaptive, round_: Round, price: float) -> bool:
    """Whether the purse pays `price` for this round, one of the first SPAN tokens."""
    before = policy._purse.left
    policy.observe(round_)
    gain = len(round_.tokens) * (1 + SHARE - AT_ONCE / SPAN) - price
    return policy._purse.left == pytest.approx(min(before + gain, MOST))


def test_a_step_whose_token_was_refused_is_booked() -> None:
    """A drafter that is right six times and unsure from then on: its steps cost, though none is ever verified."""
    costs = Costs(((1, 1.0), (2, 1.02), (9, 1.72)), ((0, 0.0), (1, 0.7), (8, 5.6)))
    candidate = Candidate("drafter", costs, gated=True)
    policy, spent, tokens, drafts = Adaptive([candidate]), 0.0, 0, 0
    while tokens < SPAN:
        gate = policy.plan().gate
        length = refused = 0
        while gate is not None:
            if not gate.takes(0.9 if drafts < 6 else 0.001):
                refused = 1
                break
            length += 1
            if not gate.goes_on():
                break
        drafts += length > 0
        price = costs.round_s(length) + costs.draft_s(length + refused) - costs.draft_s(length)
        price += candidate.reading if length or refused else 0.0
        assert booked(policy, told(length, length), price)
        spent += price
        tokens += 1 + length
    assert spent <= (1 + SHARE) * tokens
    assert drafts == 6


def test_what_a_drafter_must_read_first_is_booked() -> None:
    """One that is right six times and then never: the longer it was not asked, the more each probe of it costs."""
    costs = Costs(((1, 1.0), (2, 1.1), (9, 1.8)), ((0, 0.0), (1, 0.3), (8, 2.4)))
    candidate = Candidate("draft", costs)
    policy, spent, tokens, drafts = Adaptive([candidate]), 0.0, 0, 0
    while tokens < SPAN:
        missed, length = candidate.behind - 1, policy.plan().length
        kept = length if drafts < 6 else 0
        drafts += length > 0
        price = costs.round_s(length)
        price += costs.draft_s(1) * min(costs.pass_s(missed + 1) - 1, missed / 16) if length else 0.0
        assert booked(policy, told(length, kept), price)
        spent += price
        tokens += 1 + kept
    assert spent <= (1 + SHARE) * tokens
    assert drafts > 12


def test_an_unsure_drafter_costs_its_step_and_is_given_up_in_the_end() -> None:
    """No token is ever offered, so nothing is ever refused: it must be learnt from the confidences."""
    outlook = ChainOutlook()
    policy, asked = Adaptive([Candidate("head", USUAL, outlook, gated=True)]), 0
    after = 1.0
    for _ in range(300):
        plan = policy.plan()
        if plan.gate:
            asked += 1
            assert not plan.gate.takes(0.005)
        policy.observe(told(0, 0))
        if plan.gate:
            after = outlook.chances()[0]
    assert 0 < asked < 60
    assert after < 0.3


def test_a_reliable_drafter_goes_deep_where_it_is_sure_and_stops_where_it_is_not() -> None:
    policy, deep = alone(FLAT, gated=True), list[int]()
    for i in range(120):
        confidence = 0.98 if i % 2 else 0.05
        gate = policy.plan().gate
        assert gate is not None
        length = 0
        while gate.takes(confidence):
            length += 1
            if not gate.goes_on():
                break
        deep.append(length)
        policy.observe(told(length, length if i % 2 else 0))
    assert min(deep[61::2]) == 8
    assert max(deep[60::2]) <= 1
