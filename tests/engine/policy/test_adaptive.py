"""How many tokens to draft, and by whom: the pieces. What they come to over whole replies: test_simulation."""

from collections.abc import Iterator

import pytest

from engine.events import Round
from engine.policy import Plan
from engine.policy.adaptive import (
    BUDGET_SHARE,
    COMPARING,
    MAX_BUDGET,
    MAX_BUDGET_START,
    NOT_WORTHWHILE,
    PROBING,
    TOO_RISKY,
    Adaptive,
    Candidate,
    SlowdownBudget,
)
from engine.policy.expected_length import ChainExpectedLength
from engine.policy.fixed import FixedLength
from engine.policy.step_times import PriorPrices, StepTimes
from tests.engine.policy.machine_times import MachineTimes
from tests.engine.policy.simulation import (
    FLAT,
    LONGEST,
    TOKENS,
    Learnt,
    adaptive,
    costs_of,
    flags,
    known,
    round_of,
    speed,
)

# Seconds of a pass, the plain one being 1, and of a drafted token.
USUAL = MachineTimes(((1, 1.0), (2, 1.15), (9, 2.2)), ((0, 0.0), (1, 0.1), (8, 0.8)))
FREE = MachineTimes(((1, 1.0), (9, 1.1)), ((0, 0.0), (8, 0.0)))
ALL_RIGHT = [True] * (TOKENS + LONGEST)


AHEAD = "submitted ahead"


def refused(policy: Adaptive, rounds: int) -> Iterator[Plan]:
    """Yields the plans of a reply in which every draft is refused; those of rounds that are submitted ahead are
    nobody's."""
    sure = False
    for _ in range(rounds):
        plan = Plan(0, AHEAD) if sure else policy.plan()
        sure = plan.length == 0 and policy.next_is_plain()
        policy.observe(round_of(plan.length, 0))
        yield plan


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
    assert policy.next_is_plain([0])
    policy.plan([0.0, None])
    assert not policy.next_is_plain([0, None])


def test_prices_that_no_acceptance_can_pay_for_draft_nothing_ever() -> None:
    policy = known(head=MachineTimes(((1, 1.0), (2, 2.1), (9, 10.0)), ((0, 0.0), (1, 0.1))))
    assert not policy.is_useful
    for _ in range(300):
        assert policy.plan().length == 0
        assert policy.next_is_plain()
        policy.observe(round_of(0, 0))


def test_a_drafter_as_slow_as_the_target_is_of_no_use_however_good() -> None:
    """Kept whole, drafts of 8 would gain a little, for which it would have to read every prompt first."""
    verify = ((1, 1.0), (2, 1.1), (9, 1.5))
    assert not known(slow=MachineTimes(verify, ((0, 0.0), (1, 0.92), (8, 7.4)))).is_useful
    assert known(small=MachineTimes(verify, ((0, 0.0), (1, 0.25), (8, 2.0)))).is_useful


def test_plain_rounds_run_ahead_where_drafting_does_not_pay() -> None:
    reasons = [plan.reason for plan in refused(known(head=USUAL), 1500)]
    assert reasons.count(AHEAD) > 500
    assert reasons.count(PROBING) > 5


def test_a_policy_looks_again_and_comes_back_at_once_when_a_probe_succeeds() -> None:
    policy = known(head=USUAL)
    assert PROBING in [plan.reason for plan in refused(policy, 600)][500:]
    length, sure = 0, False
    while not length:
        length = 0 if sure else policy.plan().length
        sure = not length and policy.next_is_plain()
        policy.observe(round_of(length, length))
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
    policy = known(head=USUAL)
    assert "x plain speed" in policy.plan().reason
    reasons = [plan.reason for plan in refused(policy, 900)]
    hopes = [reason for reason in reasons[700:] if "x plain speed" in reason]  # what was learnt of refusals fades
    assert set(reasons[700:]) - {*hopes} == {NOT_WORTHWHILE, PROBING, AHEAD} and len(hopes) <= 1


def test_a_reply_that_is_too_short_for_a_refused_draft_says_so() -> None:
    policy = known(head=USUAL)
    policy.begin(4)
    assert policy.plan() == Plan(0, TOO_RISKY)
    assert policy.plan([0.0]).reason != TOO_RISKY  # the drafter has nothing
    policy.begin(400)
    plan = policy.plan()
    assert plan.length
    policy.observe(round_of(plan.length, 0))
    policy.begin(4)
    assert policy.plan() == Plan(0, TOO_RISKY)
    useless = known(head=MachineTimes(((1, 1.0), (9, 99.0)), ((0, 0.0), (8, 9.0))))
    useless.begin(4)
    assert useless.plan().reason != TOO_RISKY


def test_without_the_clock_the_same_rounds_make_the_same_plans() -> None:
    """Whatever they take: a reply with a seed repeats."""
    first, second = known(head=FLAT), known(head=FLAT)
    for at, accepted in enumerate([0, 3, 1, 8, 8, 2, 0, 0, 5] * 8):
        plans = [policy.plan() for policy in (first, second)]
        assert plans[0] == plans[1]
        for policy, seconds in ((first, 1.0), (second, 0.1 + at % 7)):
            policy.observe(round_of(plans[0].length, min(accepted, plans[0].length), at * seconds))


# --- the clock --------------------------------------------------------------------------------


def test_a_pair_that_has_never_run_finds_out_what_a_plain_step_takes_first() -> None:
    learnt = Learnt.prior(USUAL, 0.5)
    policy = adaptive(learnt)
    assert policy.plan().reason == COMPARING and policy.plain_s is None
    lengths, again = list[int](), list[int]()
    speed(policy, USUAL, ALL_RIGHT, lengths)
    assert lengths[0] == lengths[1] == 0 and max(lengths) == 8
    assert policy.plain_s == pytest.approx(0.02, rel=0.1)
    speed(adaptive(learnt), USUAL, ALL_RIGHT, again)
    assert again[0] > 0


def test_a_prior_that_is_wrong_by_a_factor_of_two_is_found_out() -> None:
    for factor in (0.5, 2.0):
        learnt = Learnt.prior(USUAL, factor)
        for _ in range(2):
            speed(adaptive(learnt), USUAL, ALL_RIGHT)
        assert learnt.times.price(0, 8) == pytest.approx(USUAL.round_s(8), rel=0.15)


def test_a_round_that_repeats_tokens_after_a_refusal_has_a_price_of_its_own() -> None:
    times = StepTimes([PriorPrices("head", {1: 1.2, 2: 1.4})])
    times.begin(10)
    for _ in range(30):
        for _ in range(3):
            times.observe_plain(0.1)
        times.observe_draft(0, 2, 0.14)
        times.observe_draft(0, 2, 0.21, replayed=True)
    assert times.replay == pytest.approx(0.5, abs=0.1)
    assert times.price(0, 2) == pytest.approx(1.4, rel=0.05)


def test_what_is_known_of_prices_fades_no_further_than_to_the_prior() -> None:
    """However many plain rounds go by, in one reply or in thousands of them."""
    prior = PriorPrices("head", {1: 1.2, 2: 1.4, 8: 2.0})
    times = StepTimes([prior])
    times.begin(10)
    before = times.doubt(0, 8)
    for _ in range(3000):
        times.begin(10)
        for observe in (lambda: times.observe_plain(0.1), lambda: times.observe_draft(0, 2, 0.14)):
            times.elapse()
            observe()
    assert times.doubt(0, 2) < before / 2
    for _ in range(400_000):
        times.elapse()
    covariance = times.belief_after(10).covariance
    assert 0.99 * before < times.doubt(0, 8) <= before
    assert (abs(covariance - covariance.T) < 1e-12).all() and times.is_sound(times.belief_after(10))


def test_a_draft_that_came_out_empty_is_no_part_of_a_run_of_plain_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    policy, runs = known(lookup=USUAL), list[tuple[int, float]]()
    monkeypatch.setattr(policy._times, "observe_run", lambda steps, seconds, replayed: runs.append((steps, seconds)))
    for clock_s, hints, planned in ((1.0, (0.0,), True), (2.0, (0.0,), True), (9.0, (1.0,), True), (10.0, (), False)):
        length = policy.plan(hints).length if planned else 0
        assert bool(length) == (1.0 in hints)
        if length:
            assert policy.next_is_plain([0])
        policy.observe(round_of(0, 0, clock_s))
    assert runs == [(1, 1.0)]


# --- several drafters -------------------------------------------------------------------------


def test_a_drafter_that_says_it_has_nothing_is_not_asked() -> None:
    plan = known(lookup=FREE, head=FLAT).plan([0.0, None])
    assert plan.drafter == 1
    assert plan.reason.startswith("head: ")


def test_each_round_takes_the_drafter_that_is_worth_more_now() -> None:
    policy = known(lookup=FREE, head=FLAT)
    for _ in range(12):  # a head that is right now and then, copies that are right
        plan = policy.plan([0.0, None])
        policy.observe(round_of(plan.length, min(1, plan.length)))
        plan = policy.plan([1.0, None])
        policy.observe(round_of(plan.length, plan.length if plan.drafter == 0 else min(1, plan.length)))
    assert policy.plan([1.0, None]).drafter == 0
    assert policy.plan([0.0, None]).drafter == 1


def test_hints_are_learnt_about_apart() -> None:
    policy = known(lookup=USUAL)
    for _ in range(40):
        policy.observe(round_of(policy.plan([0.5]).length, 0))
        length = policy.plan([1.0]).length
        policy.observe(round_of(length, length))
    assert policy.plan([1.0]).length == 8
    assert policy.plan([0.5]).length <= 1


@pytest.mark.parametrize(("curve", "right"), [("M5 Max, 70B", "80% right"), ("stepped", "90% right")])
def test_copies_are_as_long_as_the_best_fixed_length(curve: str, right: str) -> None:
    """Hints say that there is something to copy all along: what a round is worth is then what copying makes."""
    times = costs_of(curve, "free")

    class Hinting(Adaptive):
        def plan(self, hints: object = ()) -> Plan:
            return super().plan([1.0])

    shares = []
    for seed in range(6):
        text, learnt = flags(right, seed), Learnt.prior(times).times
        learnt.learns = False
        best = max(speed(FixedLength(length), times, text) for length in range(9))
        shares.append(speed(Hinting([Candidate("lookup")], learnt), times, text) / best)
    assert sum(shares) / 6 > 0.96


# --- plain steps that run ahead ------------------------------------------------------------------


def test_what_runs_ahead_of_a_refused_draft_is_a_plain_step() -> None:
    """No plan was requested then: the last one counts once."""
    policy = known(head=USUAL)
    assert policy.plan().length > 0
    policy.observe(round_of(0, 0))
    believed = policy._candidates[0].expected_length.expected(None)[1]
    left = policy._budget.left
    for _ in range(20):
        policy.observe(round_of(0, 0))
    assert policy._budget.left > left
    assert policy._candidates[0].expected_length.expected(None)[1] >= believed


def test_those_that_hint_are_not_listened_to_where_that_cannot_be_paid_for() -> None:
    """The plain step that waits for what they say is dearer than one that is submitted ahead."""
    policy = known(lookup=MachineTimes(((1, 1.0), (9, 1.8)), ((0, 0.0), (8, 0.0))))
    policy.begin(64)
    sure = []
    for _ in range(24):
        policy.plan((0.0,))
        sure.append(policy.next_is_plain())
        policy.observe(round_of(0, 0))
    assert sure == sorted(sure) and not sure[0] and sure[-1]


def test_what_a_drafter_must_read_first_is_booked() -> None:
    """One that is right six times and then never: the longer it was not asked, the more each probe of it costs."""
    policy = known(head=MachineTimes(((1, 1.0), (2, 1.1), (9, 1.8)), ((0, 0.0), (1, 0.3), (8, 2.4))))
    candidate, prices = policy._candidates[0], dict[int, float]()
    tokens = drafts = 0
    while tokens < TOKENS:
        missed, length, before = candidate.unread - 1, policy.plan().length, policy._budget.left
        kept = length if drafts < 6 else 0
        drafts += length > 0
        policy.observe(round_of(length, kept))
        if length == 1 and not kept:
            prices[missed] = before + (1 + BUDGET_SHARE) - policy._budget.left
        tokens += 1 + kept
    assert len(prices) > 1 and sorted(prices.values()) == [prices[missed] for missed in sorted(prices)]
    assert drafts > 8


# --- the budget -----------------------------------------------------------------------------------


def test_a_budget_bounds_what_a_reply_can_lose() -> None:
    budget, spent, tokens = SlowdownBudget(), 0.0, 256
    for _ in range(tokens):
        price = 2.5 if budget.left >= 1.5 else 1.0
        budget.book(1, price)
        spent += price
    assert 1.005 * tokens < spent <= (1 + BUDGET_SHARE) * tokens + MAX_BUDGET_START


def test_gains_are_kept_up_to_a_limit() -> None:
    budget = SlowdownBudget()
    assert budget.left == MAX_BUDGET_START
    for _ in range(100):
        budget.book(9, 2.0)
    assert budget.left == MAX_BUDGET


@pytest.mark.parametrize(("tokens", "left"), [(16, 0.48), (64, 1.92), (1000, 3.0)])
def test_a_short_reply_may_lose_less(tokens: int, left: float) -> None:
    assert SlowdownBudget(tokens).left == pytest.approx(left)


def test_a_round_that_a_grammar_forced_is_counted_neither_as_time_nor_as_a_draft() -> None:
    learnt = Learnt.prior(USUAL)
    policy, clock_s = adaptive(learnt), 0.0
    for number in range(80):
        length = policy.plan().length  # with a grammar nothing is submitted ahead
        clock_s += 5.0 if number % 2 else 0.02 * USUAL.round_s(length)
        (policy.skip if number % 2 else policy.observe)(round_of(length, length, clock_s))
    assert 0.01 < learnt.times.plain_s < 0.04
