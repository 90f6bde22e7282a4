"""The fold of rounds: the numbers are those of `engine.metrics`, however the rounds arrive."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import isnan

import pytest
from msgspec.structs import replace as changed

from app.protocol import RoundDone
from app.store.records import Statistics
from app.window.inspector.round_series import WINDOW_S, RoundSeries
from engine.events import Round
from engine.metrics import Metrics
from tests.window.inspector.made import Maker, chains, mixed, plains, trees

REPLIES = {"chains": chains(60), "trees": trees(60), "mixed": mixed(200), "plain": plains(40)}


def folded(*batches: Sequence[RoundDone]) -> RoundSeries:
    fold = RoundSeries()
    for batch in batches:
        fold.add(batch)
    return fold


def state(fold: RoundSeries) -> tuple[object, ...]:
    """Everything a fold shows; nan as text, which equals itself."""
    series = [[str(value) for value in values] for values in vars(fold.series).values()]
    return fold.rows, series, fold.metrics, fold.timed, fold.unsound


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_numbers_are_those_of_the_metrics(reply: list[RoundDone]) -> None:
    metrics = Metrics.of(told.round for told in reply)
    fold = folded(reply)
    assert fold.metrics == metrics
    assert fold.statistics == Statistics.of(metrics)


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_told_in_pieces_is_the_same_as_told_at_once(reply: list[RoundDone]) -> None:
    draw = random.Random(3)
    cuts = [0, *sorted(draw.sample(range(len(reply)), 9)), len(reply)]
    pieces = [reply[a:b] for a, b in pairwise(cuts)]
    assert state(folded(*pieces)) == state(folded(reply))


def test_rounds_told_again_change_nothing() -> None:
    reply = REPLIES["mixed"]
    assert state(folded(reply, reply[40:90], reply[::-1])) == state(folded(reply))


@pytest.mark.parametrize("seed", range(4))
def test_rounds_in_any_order_come_to_the_same(seed: int) -> None:
    reply = REPLIES["mixed"]
    shuffled = list(reply)
    random.Random(seed).shuffle(shuffled)
    fold = RoundSeries()
    moved = [not fold.add(shuffled[i : i + 17]) for i in range(0, len(shuffled), 17)]
    assert any(moved)
    assert state(fold) == state(folded(reply))


def test_rounds_in_order_say_that_nothing_moved() -> None:
    fold = RoundSeries()
    assert all(fold.add([told]) for told in REPLIES["chains"])


def test_another_round_under_a_known_index_is_left_out() -> None:
    first, second = chains(2)
    impostor = changed(second, round=replace(second.round, index=0))
    assert folded([first], [impostor]).rows == [first]


def test_a_round_that_contradicts_itself_is_left_out_and_counted() -> None:
    told, tree = chains(1)[0], trees(1)[0]
    wrong = [
        changed(told, round=replace(told.round, accepted=10**9)),
        changed(told, round=replace(told.round, accepted=-1)),
        changed(told, round=replace(told.round, index=-1)),
        changed(tree, round=replace(tree.round, path=(99,))),
        changed(tree, round=replace(tree.round, parents=(0, *(tree.round.parents or ())[1:]))),
        changed(tree, round=replace(tree.round, parents=())),
    ]
    fold = folded(wrong)
    assert fold.rows == []
    assert fold.unsound == len(wrong)
    assert folded(wrong, [told]).rows == [told]


def plain_round(index: int, time_s: float, tokens: int = 1, id: int = 1) -> RoundDone:
    texts = tuple("a" for _ in range(tokens))
    ids = tuple(range(tokens))
    drafted = ids[1:]
    return RoundDone(
        id=id,
        round=Round(
            index,
            ids,
            drafted,
            tokens - 1,
            tuple(1.0 for _ in ids),
            tuple(1.0 for _ in drafted),
            1,
            time_s,
            texts=texts,
        ),
    )


def test_speed_is_tokens_since_the_window_began_by_the_time_since() -> None:
    """A round every half second, of two tokens: 4 tokens/s and 2 a pass, from the second round on."""
    fold = folded([plain_round(i, 1.0 + i / 2, tokens=2) for i in range(20)])
    assert isnan(fold.series.tokens_per_s[0])
    assert isnan(fold.series.tokens_per_pass[0])
    assert fold.series.tokens_per_s[1:].tolist() == pytest.approx([4.0] * 19)
    assert fold.series.tokens_per_pass[1:].tolist() == pytest.approx([2.0] * 19)


def test_speed_forgets_what_lies_before_its_window() -> None:
    slow = [plain_round(i, float(i)) for i in range(5)]
    fast = [plain_round(5 + i, 4 + (i + 1) / 10) for i in range(int(WINDOW_S * 10) + 5)]
    speed = folded(slow, fast).series.tokens_per_s
    assert speed[4] == pytest.approx(1.0)
    assert speed[-1] == pytest.approx(10.0)


def test_a_break_counts_neither_as_a_slow_round_nor_as_a_slow_passage() -> None:
    before = [plain_round(i, i / 10) for i in range(10)]
    after = [plain_round(10 + i, 60 + i / 10, id=2) for i in range(10)]
    series = folded(before, after).series
    assert isnan(series.whole_ms[10])
    assert series.whole_ms[11:].tolist() == pytest.approx([100.0] * 9)
    assert series.tokens_per_s[11:].tolist() == pytest.approx([10.0] * 9)


def test_times_are_those_measured_and_the_whole_round_else() -> None:
    maker = Maker()
    timed, plain, later = maker.chain(5), maker.plain(), maker.chain(5)
    fold = folded([timed, plain, later])
    assert timed.round.draft_s is not None
    assert fold.series.draft_ms[0] == pytest.approx(timed.round.draft_s * 1000)
    assert isnan(fold.series.verify_ms[1])
    assert isnan(fold.series.whole_ms[0])
    assert fold.series.whole_ms[1] == pytest.approx((plain.round.time_s - timed.round.time_s) * 1000)
    assert fold.timed
    assert not folded(mixed(30, timed=False)).timed


def test_a_clock_that_goes_back_gives_no_negative_times() -> None:
    fold = folded([plain_round(0, 1.0), plain_round(1, 0.5), plain_round(2, 2.0)])
    assert fold.series.clock_s.tolist() == [1.0, 1.0, 2.0]
    assert fold.series.whole_ms[1] == 0.0
