"""How many tokens to draft, and by whom: the pieces. What they come to over whole replies: test_simulation."""

from dataclasses import replace

import pytest

from engine.events import Round
from engine.policy import Plan
from engine.policy.adaptive import (
    BUDGET_SHARE,
    MAX_BUDGET,
    MAX_BUDGET_START,
    PROBING,
    TOO_RISKY,
    Adaptive,
    Candidate,
    SlowdownBudget,
)
from engine.policy.costs import Costs
from engine.policy.expected_length import ChainExpectedLength
from engine.policy.fixed import FixedLength
from tests.engine.policy.simulation import FLAT, TOKENS, costs_of, flags, round_of, speed

# Seconds of a pass, the plain one being 1, and of a drafted token.
USUAL = Costs(((1, 1.0), (2, 1.15), (9, 2.2)), ((0, 0.0), (1, 0.1), (8, 0.8)))
FREE = Costs(((1, 1.0), (9, 1.1)), ((0, 0.0), (8, 0.0)))


def alone(costs: Costs) -> Adaptive:
    return Adaptive([Candidate("drafter", costs)])


def test_a_fixed_length_never_changes() -> None:
    for length in (0, 4):
        policy = FixedLength(length)
        for accepted in (0, length, 0):
            assert policy.plan().length == length
            policy.observe(round_of(length, accepted))
        assert policy.next_is_plain() == (length == 0)


def test_a_fixed_length_is_plain_next_only_where_all_that_could_draft_have_said_no() -> None:
    policy = FixedLength(4)
    policy.plan([0.0])
    assert policy.next_is_plain(has_nothing=True)
    policy.plan([0.0, None])
    assert not policy.next_is_plain(has_nothing=True)


def test_costs_that_no_acceptance_can_pay_for_draft_nothing_ever() -> None:
    policy = alone(Costs(((1, 1.0), (2, 2.1), (9, 10.0)), ((0, 0.0), (1, 0.1))))
    for _ in range(300):
        assert policy.plan().length == 0
        assert policy.next_is_plain()
        policy.observe(round_of(0, 0))


def test_a_drafter_as_slow_as_the_target_is_of_no_use_however_good() -> None:
    """Kept whole, drafts of 8 would gain a little, for which it would have to read every prompt first."""
    verify = ((1, 1.0), (2, 1.1), (9, 1.5))
    assert Candidate("slow", Costs(verify, ((0, 0.0), (1, 0.92), (8, 7.4)))).useful == []
    assert Candidate("small", Costs(verify, ((0, 0.0), (1, 0.25), (8, 2.0)))).useful == [1, 2, 3, 4, 5, 6, 7, 8]


def test_plain_rounds_run_ahead_where_drafting_does_not_pay() -> None:
    policy, ahead, probes = alone(USUAL), 0, 0
    for _ in range(1500):
        plan = policy.plan()
        ahead += plan.length == 0 and policy.next_is_plain()
        policy.observe(round_of(plan.length, 0))
        probes += plan.reason == PROBING
    assert ahead > 500
    assert probes > 5


def test_a_policy_looks_again_and_comes_back_at_once_when_a_probe_succeeds() -> None:
    policy = alone(USUAL)
    for _ in range(600):
        policy.observe(round_of(policy.plan().length, 0))
    for _ in range(66):
        plan = policy.plan()
        if plan.length:
            break
        policy.observe(round_of(0, 0))
    assert plan.reason == PROBING
    for _ in range(6):
        length = policy.plan().length
        policy.observe(round_of(length, length))
    assert policy.plan().length >= 2


def test_a_round_cut_by_the_replys_end_is_no_refusal() -> None:
    """Both saw two tokens kept; in one of them the reply ended there, and the third was never judged."""
    cut, refused = ChainExpectedLength(), ChainExpectedLength()
    for _ in range(20):
        cut.learn(Round(0, (0, 1), (0, 1, 2, 3), 2, (1.0, 1.0), (), 5, 0.0), None)
        refused.learn(round_of(4, 2), None)
    assert cut.probs()[2] > 0.9
    assert refused.probs()[2] < 0.7


def test_reasons_say_what_was_expected() -> None:
    policy = alone(USUAL)
    assert "x plain speed" in policy.plan().reason
    reasons = set()
    for i in range(900):
        plan = policy.plan()
        policy.observe(round_of(plan.length, 0))
        if i >= 700:
            reasons.add(plan.reason)
    assert reasons == {"drafting is not worthwhile here", PROBING}


def test_a_reply_that_is_too_short_for_a_refused_draft_says_so() -> None:
    policy = alone(USUAL)
    policy.begin(4)
    assert policy.plan() == Plan(0, TOO_RISKY)
    assert policy.plan([0.0]).reason != TOO_RISKY  # the drafter has nothing
    policy.begin(400)
    plan = policy.plan()
    assert plan.length
    policy.observe(round_of(plan.length, 0))
    policy.begin(4)
    assert policy.plan() == Plan(0, TOO_RISKY)
    useless = alone(Costs(((1, 1.0), (9, 99.0)), ((0, 0.0), (8, 9.0))))
    useless.begin(4)
    assert useless.plan().reason != TOO_RISKY


def test_the_same_rounds_make_the_same_plans() -> None:
    first, second = alone(FLAT), alone(FLAT)
    for accepted in [0, 3, 1, 8, 8, 2, 0, 0, 5] * 8:
        plans = [policy.plan() for policy in (first, second)]
        assert plans[0] == plans[1]
        for policy in (first, second):
            policy.observe(round_of(plans[0].length, min(accepted, plans[0].length)))


# --- several drafters -------------------------------------------------------------------------


def lookup_and_head() -> Adaptive:
    return Adaptive([Candidate("lookup", FREE), Candidate("head", FLAT)])


def test_a_drafter_that_says_it_has_nothing_is_not_asked() -> None:
    plan = lookup_and_head().plan([0.0, None])
    assert plan.drafter == 1
    assert plan.reason.startswith("head: ")


def test_each_round_takes_the_drafter_that_is_worth_more_now() -> None:
    policy = lookup_and_head()
    for _ in range(12):  # a head that is right now and then, copies that are right
        plan = policy.plan([0.0, None])
        policy.observe(round_of(plan.length, min(1, plan.length)))
        plan = policy.plan([1.0, None])
        policy.observe(round_of(plan.length, plan.length if plan.drafter == 0 else min(1, plan.length)))
    assert policy.plan([1.0, None]).drafter == 0
    assert policy.plan([0.0, None]).drafter == 1


def test_hints_are_learnt_about_apart() -> None:
    policy = Adaptive([Candidate("lookup", USUAL)])
    for _ in range(40):
        policy.observe(round_of(policy.plan([0.5]).length, 0))
        length = policy.plan([1.0]).length
        policy.observe(round_of(length, length))
    assert policy.plan([1.0]).length == 8
    assert policy.plan([0.5]).length <= 1


@pytest.mark.parametrize(("curve", "right"), [("M5 Max, 70B", "80% right"), ("stepped", "90% right")])
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


def pays(policy: Adaptive, round_: Round, price: float) -> bool:
    """Returns whether the budget pays `price` for this round."""
    before = policy._budget.left
    policy.observe(round_)
    gain = len(round_.tokens) * (1 + BUDGET_SHARE) - price
    return policy._budget.left == pytest.approx(min(before + gain, MAX_BUDGET))


def test_what_a_drafter_must_read_first_is_booked() -> None:
    """One that is right six times and then never: the longer it was not asked, the more each probe of it costs."""
    costs = Costs(((1, 1.0), (2, 1.1), (9, 1.8)), ((0, 0.0), (1, 0.3), (8, 2.4)))
    candidate = Candidate("draft", costs)
    policy, spent, tokens, drafts = Adaptive([candidate]), 0.0, 0, 0
    while tokens < TOKENS:
        missed, length = candidate.unread - 1, policy.plan().length
        kept = length if drafts < 6 else 0
        drafts += length > 0
        price = costs.round_s(length)
        price += costs.draft_s(1) * min(costs.pass_s(missed + 1) - 1, missed / 16) if length else 0.0
        assert pays(policy, round_of(length, kept), price)
        spent += price
        tokens += 1 + kept
    assert spent <= (1 + BUDGET_SHARE) * tokens + MAX_BUDGET_START
    assert drafts > 12


# --- plain steps that run ahead ------------------------------------------------------------------

AHEAD = Costs(((1, 1.0), (9, 1.8)), ((0, 0.0), (8, 0.0)), plain=0.8)


def test_what_runs_ahead_of_a_refused_draft_is_a_plain_step() -> None:
    """No plan was requested then: the last one counts once."""
    costs = Costs(((1, 1.0), (9, 1.8)), ((0, 0.0), (1, 0.1), (8, 0.8)), plain=0.8)
    policy = alone(costs)
    assert policy.plan().length > 0
    policy.observe(round_of(0, 0))
    believed = policy._candidates[0].expected_length.expected(None)[1]
    left = policy._budget.left
    for _ in range(20):
        policy.observe(round_of(0, 0))
    assert policy._budget.left > left
    assert policy._candidates[0].expected_length.expected(None)[1] >= believed


def test_those_that_hint_are_not_listened_to_where_that_cannot_be_paid_for() -> None:
    policy = alone(AHEAD)
    policy.begin(64)
    sure = []
    for _ in range(12):
        policy.plan((0.0,))
        sure.append(policy.next_is_plain())
        policy.observe(round_of(0, 0))
    assert sure == [False] * 4 + [True] * 8


def test_a_round_is_priced_as_it_was_measured_whole() -> None:
    costs = Costs(((1, 1.0), (2, 1.4), (9, 6.0)), ((0, 0.0), (1, 0.1), (8, 0.8)), eager=1.3)
    assert Candidate("head", costs).prices[1] == pytest.approx(1.3)
    assert Candidate("head", replace(costs, eager=None)).prices[1] == pytest.approx(1.5)


def test_a_copy_is_taken_up_after_any_number_of_false_ones() -> None:
    """Waiting for those that hint spends nothing that a draft of theirs could not pay for."""
    policy = alone(AHEAD)
    policy.begin(2000)
    drafts, sure = 0, True
    for at in range(1200):
        hint = 1.0 if at % 6 == 0 or at > 500 else 0.0
        length = 0
        if not (at and sure):
            length = policy.plan((hint,)).length
        drafts += at > 500 and length > 0
        sure = not length and (policy.next_is_plain() or policy.next_is_plain(hint == 0))
        policy.observe(round_of(length, length if at > 500 else 0))
    assert drafts > 0


# --- the budget -----------------------------------------------------------------------------------


def test_a_budget_bounds_what_a_reply_can_lose() -> None:
    budget, spent, tokens = SlowdownBudget(), 0.0, 256
    for _ in range(tokens):
        price = 2.5 if budget.covers(2.5) else 1.0
        budget.book(1, price)
        spent += price
    assert 1.005 * tokens < spent <= (1 + BUDGET_SHARE) * tokens + MAX_BUDGET_START


def test_gains_are_kept_up_to_a_limit() -> None:
    budget = SlowdownBudget()
    assert budget.covers(1 + MAX_BUDGET_START)
    assert not budget.covers(1.01 + MAX_BUDGET_START)
    for _ in range(100):
        budget.book(9, 2.0)
    assert budget.left == MAX_BUDGET


@pytest.mark.parametrize(("tokens", "left"), [(16, 0.32), (64, 1.28), (1000, 3.0)])
def test_a_short_reply_may_lose_less(tokens: int, left: float) -> None:
    assert SlowdownBudget(tokens).left == pytest.approx(left)
