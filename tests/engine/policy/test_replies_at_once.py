"""Several replies at once: each drafts what serves all of them best, as they share the pass."""

from collections.abc import Sequence
from math import nan
from statistics import mean

import pytest

from engine.policy.adaptive import Adaptive
from engine.policy.joint_turns import PlanAmong, RoundAmong
from engine.policy.step_times import CPU_PASSES, JUMP_ROUNDS, PriorPrices, StepTimes
from tests.engine.policy.machine_times import MachineTimes
from tests.engine.policy.simulation import (
    LONGEST,
    Learnt,
    adaptive,
    batches,
    costs_of,
    flags,
    interrupted,
    prior_of,
    shares_together,
    speed,
    together,
)


@pytest.mark.slow_for("1", "4", "8")
@pytest.mark.parametrize("at_once", [1, 2, 4, 8])
def test_replies_at_once_are_not_much_slower_than_with_the_best_fixed_length_for_all(at_once: int) -> None:
    found = shares_together(at_once, ("head", "small model"), ("20% right", "80% right", "mixed")).values()
    assert mean(found) >= 0.98 and min(found) >= 0.9


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2, 4, 8])
def test_so_are_they_with_every_drafter_and_text(at_once: int) -> None:
    """And where drafting does not pay, no more than a little is lost in finding out."""
    found = shares_together(at_once)
    assert mean(found.values()) >= 0.985
    assert min(share for (_, _, text), share in found.items() if text == "0% right") >= 0.9


@pytest.mark.parametrize(
    ("draft_s", "text", "least"), [(0.05, "50% right", 0.97), (0.05, "80% right", 1.05), (0.25, "70% right", 0.98)]
)
def test_a_batch_that_nobody_follows_is_not_slower_than_plain(draft_s: float, text: str, least: float) -> None:
    """Replies that end before the others leave these a pass of fewer rows, which is no price of drafts."""
    costs = MachineTimes(CPU_PASSES, ((0, 0.0), (1, draft_s), (LONGEST, LONGEST * draft_s)))
    assert mean(batches(Learnt.prior(costs), costs, text, 8)) >= least


@pytest.mark.parametrize(("draft_s", "text"), [(0.05, "drifting"), (0.25, "mixed")])
def test_another_program_for_three_turns_does_not_change_what_drafts_are_believed_to_take(
    draft_s: float, text: str
) -> None:
    """It slows down few turns in a row, which are no reason to doubt all that was learnt."""
    costs = MachineTimes(CPU_PASSES, ((0, 0.0), (1, draft_s), (LONGEST, LONGEST * draft_s)))
    found = [once for name in "abcdef" for once in batches(Learnt.prior(costs), costs, text, 8, late=interrupted(name))]
    assert mean(found) >= 0.98 and min(found) >= 0.93


def drafted(at_once: int) -> float:
    """How many tokens a reply drafts in a round, one of so many on a machine whose rows are dear beyond a few."""
    times, lengths = costs_of("M4 Pro", "head"), list[int]()
    learnt = Learnt(StepTimes([prior_of(times)]))
    together(lambda: adaptive(learnt, at_once=at_once), times, "80% right", at_once, lengths)
    return mean(lengths)


def test_a_reply_alone_drafts_long_and_eight_hardly_at_all() -> None:
    alone = drafted(1)
    assert alone > 2
    assert drafted(8) < alone / 5


def test_so_many_replies_are_taken_to_be_a_pass_of_all_their_rows() -> None:
    """The pass goes by what is known of one reply, beyond that as the curve does. Drafting takes a row of each."""
    prior = PriorPrices("head", {1: 1.3, 3: 1.8}, passes=lambda rows: 1 + 0.2 * (rows - 1))  # 0.1 and 0.2 for drafting
    twice = prior.for_replies({1: 1.3, 3: 2.8}, 2)  # rounds have told that a pass of four rows takes 2.6
    assert twice == pytest.approx({0: 1.2, 1: 2.6 + 1.2 * 0.1, 3: 2.6 / 1.6 * 2.4 + 1.2 * 0.2})
    times = StepTimes([prior])
    times.begin(0)
    pair = times.for_replies(2)
    pair.begin(0)
    assert pair.price(0, 1) == pytest.approx((1.6 + 1.2 * 0.1) / 1.2)


def take_turn(views: Sequence[StepTimes], rounds: Sequence[RoundAmong]) -> None:
    """Has replies take part in a turn with these rounds: all plan before any reports."""
    for view, round_ in zip(views, rounds, strict=True):
        view.begin_turn()
        view.turns.plan(view._alone, PlanAmong(round_.drafter, round_.drafted, {0: 1.0, round_.drafted: 2.0}, 0.0))
    for view, round_ in zip(views, rounds, strict=True):
        view.turns.current[view._alone] = round_


def take_turns(views: Sequence[StepTimes]) -> None:
    """Has two replies take part in 40 plain turns of 0.1 s, and in as many of 0.3 s in which each drafts two tokens,
    eight of a kind in a row."""
    for view in views:
        view.begin(0)
    for turn in range(80):
        take_turn(views, [RoundAmong(0, 2, 0.3) if turn // 8 % 2 else RoundAmong(0, 0, 0.1)] * 2)


def test_turns_are_told_once_and_by_all() -> None:
    prior = PriorPrices("head", {1: 1.3, 2: 1.5, 4: 2.0})
    shared = StepTimes([prior])
    views = [shared.for_reply().for_replies(2) for _ in range(2)]
    take_turns(views)
    assert views[0].plain_s == views[1].plain_s == pytest.approx(0.1, rel=0.1)
    assert views[1].price(0, 2) == pytest.approx(3.0, rel=0.15)
    assert shared.learnt == {} and shared.of_several[2].learnt.keys() == {0}


def test_once_the_machine_has_another_speed_all_compare_with_plain_turns() -> None:
    """Drafted turns alone would not tell whether they or all turns take another time."""
    shared = StepTimes([PriorPrices("head", {1: 1.3, 2: 1.5, 4: 2.0})])
    views = [shared.for_reply().for_replies(2) for _ in range(2)]
    take_turns(views)
    compared = []
    for _ in range(JUMP_ROUNDS + 1):
        take_turn(views, [RoundAmong(0, 2, 0.9)] * 2)
        compared.append(views[0].turns.all_plain)
    assert compared == [False] * JUMP_ROUNDS + [True]


def test_replies_that_teach_nothing_know_what_the_others_drafted() -> None:
    """Each learns from the same turns by itself, else one that drafts nothing would take all passes for longer."""
    prior = PriorPrices("head", {1: 1.3, 2: 1.5, 4: 2.0})
    shared = StepTimes([prior])
    views = [shared.copy().for_replies(2) for _ in range(2)]
    take_turns(views)
    for view in views:
        assert view.plain_s == pytest.approx(0.1, rel=0.1)
        assert view.price(0, 2) == pytest.approx(3.0, rel=0.15)
        assert len(view.turns.others(view._alone)) == 1
    assert shared.learnt == {} and shared.of_several == {}


def test_a_reply_that_takes_the_place_of_one_that_ended_belongs_to_its_own_turn() -> None:
    """Otherwise its rounds would be told with those of the turn before from then on."""
    shared = StepTimes([PriorPrices("head", {1: 1.5})])
    plain, drafted = 0.1, 0.2
    views = [shared.for_reply().for_replies(2) for _ in range(2)]
    for turn in range(160):
        if turn % 16 == 3:
            views[0] = shared.for_reply().for_replies(2)
            views[0].begin(0)
        tokens, seconds = (1, drafted) if turn // 8 % 2 else (0, plain)
        take_turn(views, [RoundAmong(0, tokens, nan if turn % 16 == 3 else seconds), RoundAmong(0, tokens, seconds)])
    assert views[0].plain_s == pytest.approx(plain, rel=0.05)
    assert views[0].price(0, 1) == pytest.approx(drafted / plain, rel=0.05)


def test_replies_that_ended_do_not_shift_the_turns_of_those_that_follow() -> None:
    """Eight replies end, some of them in mid-turn, and eight others begin: each of their turns has a round of each."""
    shared = StepTimes([PriorPrices("head", {1: 1.5})])
    for replies, ending in ((8, 5), (8, 0)):
        views = [shared.for_reply().for_replies(replies) for _ in range(replies)]
        for view in views:
            view.begin(0)
        for turn in range(80):
            take_turn(views, [RoundAmong(0, 1, 0.2) if turn % 8 == 7 else RoundAmong(0, 0, 0.1)] * 8)
        for view in views[:ending]:
            view.begin_turn()
            view.turns.current[view._alone] = RoundAmong(0, 0, 0.1)
    assert views[0].plain_s == pytest.approx(0.1, rel=0.02)
    assert views[0].price(0, 1) == pytest.approx(2.0, rel=0.02)


def test_fewer_replies_than_the_class_has_teach_the_same() -> None:
    """Five replies go by what eight have taught, and teach them, so times are converted by the rows of both."""
    prior = PriorPrices("head", {1: 1.3, 2: 1.6}, passes=lambda rows: 1 + 0.1 * (rows - 1))  # 0.2 and 0.4 for drafting
    shared = StepTimes([prior])
    views = [shared.for_reply().for_replies(5) for _ in range(5)]
    for view in views:
        view.begin(0)
    for turn in range(80):
        take_turn(views, [RoundAmong(0, 1, 1.9 + 1.4 * 0.2) if turn // 8 % 2 else RoundAmong(0, 0, 1.4)] * 5)
    eight = shared.for_reply().for_replies(8)
    eight.begin(0)
    assert (views[0].plain_s, eight.plain_s) == pytest.approx((1.4, 1.7), rel=0.02)
    assert views[0].price(0, 1) == pytest.approx((1.9 + 1.4 * 0.2) / 1.4, rel=0.02)
    assert eight.price(0, 1) == pytest.approx((2.5 + 1.7 * 0.2) / 1.7, rel=0.02)


def test_a_reply_whose_rounds_must_repeat_does_not_ask_who_else_is_there() -> None:
    times = costs_of("M4 Pro", "head")
    lengths = []
    for at_once in (1, 8):
        learnt = Learnt(StepTimes([prior_of(times)], learns=False))
        lengths.append(list[int]())
        speed(adaptive(learnt, at_once=at_once), times, flags("70% right", 1), lengths[-1])
    assert lengths[0] == lengths[1]


def test_replies_of_different_texts_draft_differently() -> None:
    """Drafts that are right may be long, as they cost the others little: no one length serves all so well."""
    found = shares_together(4, ("free", "head"), ("mixed",)).values()
    assert mean(found) >= 1.05


def test_plain_rounds_of_several_replies_stay_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that went ahead alone would have a pass of its own, of all weights for one row. Once nobody has drafted in
    some turns, all go ahead in the same turns, until somebody has a draft to try."""
    ahead = []
    for at_once in (1, 2):
        prices = PriorPrices("drafter", dict.fromkeys(range(1, LONGEST + 1), 20.0))
        policy = adaptive(Learnt(StepTimes([prices])), at_once=at_once)
        policy.begin(100)
        assert policy.plan().length == 0
        ahead.append(policy.next_is_plain())
    assert ahead == [True, False]
    times = MachineTimes(((1, 1.0), (9, 9.0)), ((0, 0.0), (1, 1.0), (LONGEST, 8.0)))
    learnt, look, turns = Learnt(StepTimes([prior_of(times)])), Adaptive.next_is_plain, dict[int, set[bool]]()

    def noted(self: Adaptive) -> bool:
        goes_ahead = look(self)
        turns.setdefault(self._times.turns.count, set()).add(goes_ahead)
        return goes_ahead

    monkeypatch.setattr(Adaptive, "next_is_plain", noted)
    together(lambda: adaptive(learnt, at_once=4), times, "0% right", 4)
    assert all(len(told) == 1 for told in turns.values()) and mean(True in told for told in turns.values()) > 0.9


def who_goes_ahead(views: Sequence[StepTimes], planned: Sequence[bool], ready: Sequence[bool]) -> list[bool]:
    """Returns which replies go ahead in a plain turn."""
    told = []
    for view, plans, one in zip(views, planned, ready, strict=True):
        view.begin_turn()
        if plans:
            view.turns.plan(view._alone, PlanAmong(0, 0, {0: 1.0}, 0.0))
        else:
            view.turns.keep_plan(view._alone)
        told.append(view.turns.goes_ahead(view._alone, one))
    for view in views:
        view.turns.current[view._alone] = RoundAmong(0, 0, 0.1)
    return told


def test_replies_go_ahead_together_or_not_at_all() -> None:
    """One that is not ready, as it has something to draft, or never asks, as it has a grammar, keeps all from it."""
    shared = StepTimes([PriorPrices("head", {1: 1.3})])
    views = [shared.for_reply().for_replies(2) for _ in range(2)]
    for _ in range(16):
        take_turn(views, [RoundAmong(0, 0, 0.1)] * 2)
    yes, no = [True, True], [False, False]
    assert who_goes_ahead(views, yes, yes) == no  # nobody has said before that it is ready
    assert who_goes_ahead(views, yes, yes) == yes
    assert who_goes_ahead(views, no, [True, False]) == yes
    assert who_goes_ahead(views, no, yes) == no
    assert who_goes_ahead(views, yes, yes) == yes
    assert who_goes_ahead([view._alone.for_replies(3) for view in views], no, yes) == no


def test_a_turn_goes_by_its_rows_and_by_its_longest_draft() -> None:
    """Three draft one token and one drafts three, so one reply drafts twice more, alone, while the others wait."""
    prior = PriorPrices("small model", {1: 1.25, 2: 1.5, 3: 1.75}, passes=lambda rows: 1 + 0.05 * (rows - 1))
    assert [prior.turn_ratio((n,) * 4, 4) for n in (0, 1, 2, 3)] == pytest.approx([1.0] * 4)
    one, rows = [1.25 - 1.05, 1.5 - 1.1, 1.75 - 1.15], 1 + 0.05 * 9  # drafting takes that; ten rows
    even = [1 + 0.05 * (4 * n - 1) + 1.15 * drafting for n, drafting in ((2, one[0]), (3, one[1]))]
    takes = rows + 1.15 * one[0] + (one[2] - one[0])
    assert prior.turn_ratio((1, 3, 1, 1), 4) == pytest.approx(takes / (even[0] * even[1]) ** 0.5)


def test_while_somebody_reads_turns_tell_nothing() -> None:
    shared = StepTimes([PriorPrices("head", {1: 1.3})])
    views = [shared.for_reply().for_replies(2) for _ in range(2)]
    view = views[0]
    view.begin(0)
    before = view.plain_s
    for _ in range(20):
        take_turn(views, [RoundAmong(0, 0, nan)] * 2)
    assert view.plain_s == before


def test_replies_come_to_the_same_draft_length() -> None:
    """Each goes by what the others plan; by what they did before, they would draft much and little in turns."""
    times, lengths = costs_of("M4 Pro", "head"), list[int]()
    learnt = Learnt(StepTimes([prior_of(times)]))
    together(lambda: adaptive(learnt, at_once=4), times, "80% right", 4, lengths)
    turns = [lengths[i : i + 4] for i in range(0, len(lengths), 4)]
    assert mean(len(set(turn)) == 1 for turn in turns) > 0.95  # 0.86 where they go by what the others did two turns ago


def test_a_turn_of_two_drafters_is_that_of_the_one_that_all_wait_for() -> None:
    """Prompt lookup takes no time, so it has not become dear because others draft with a head."""
    shared = StepTimes([PriorPrices("lookup", {1: 1.1}), PriorPrices("head", {1: 1.3})])
    views = [shared.for_reply().for_replies(2) for _ in range(2)]
    for view in views:
        view.begin(0)
    for turn in range(80):
        drafted, seconds = (1, 0.2) if turn // 8 % 2 else (0, 0.1)
        rounds = [RoundAmong(drafter, drafted, seconds) for drafter in (1, 0)]  # the one with the head tells first
        take_turn(views, rounds if turn < 40 else rounds[::-1])
    assert views[0].price(1, 1) == pytest.approx(2.0, rel=0.05)
    assert views[0].price(0, 1) < 1.7
    assert views[0].turn_price([(0, 1), (1, 1)]) == pytest.approx(2.0, rel=0.05)
