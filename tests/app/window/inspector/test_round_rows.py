"""The rows of a reply: times and speeds of each round, and what a plot makes of them."""

import random
from array import array
from math import isnan, nan

import pytest

from app.protocol import RoundDone
from app.reply import Reply
from app.window.inspector.charts import axis_end
from app.window.inspector.round_rows import MAX_POINTS, WINDOW_S, RoundRows, averaged, compact, stride, wilson
from engine.events import Round
from engine.metrics import Metrics
from tests.app.window.inspector.inspector_views import rows_of
from tests.app.window.inspector.sample_rounds import Maker, chains, mixed, plains, trees

REPLIES = {"chains": chains(60), "trees": trees(60), "mixed": mixed(200), "plain": plains(40)}


@pytest.mark.parametrize("reply", REPLIES.values(), ids=REPLIES)
def test_rows_are_the_same_whether_taken_in_pieces_or_at_once(reply: list[RoundDone]) -> None:
    draw, pieces, whole = random.Random(3), RoundRows(Reply(reply)), rows_of(reply)
    assert pieces.reply.read()
    while not pieces.complete:
        pieces.grow(draw.randrange(1, 20))
    assert [row.done for row in pieces.rows] == reply
    assert list(map(str, pieces.rows)) == list(map(str, whole.rows))  # nan as text, which equals itself
    assert whole.rows[-1].tokens == whole.reply.metrics.tokens == Metrics.of(one.round for one in reply).tokens


def plain_round(index: int, time_s: float, tokens: int = 1, id: int = 1) -> RoundDone:
    ids, texts = tuple(range(tokens)), ("a",) * tokens
    p, q = (1.0,) * tokens, (1.0,) * (tokens - 1)
    return RoundDone(id=id, round=Round(index, ids, ids[1:], tokens - 1, p, q, 1, time_s, texts=texts))


def test_speed_is_tokens_since_the_window_began_by_the_time_since() -> None:
    """A round every half second, of two tokens: 4 tokens/s and 2 a pass, from the second round on."""
    fold = rows_of([plain_round(i, 1.0 + i / 2, tokens=2) for i in range(20)])
    for name, expected in (("tokens_per_s", 4.0), ("tokens_per_pass", 2.0)):
        assert fold.column(name) == pytest.approx([nan] + [expected] * 19, nan_ok=True)


def test_speed_forgets_what_lies_before_its_window() -> None:
    slow = [plain_round(i, float(i)) for i in range(5)]
    fast = [plain_round(5 + i, 4 + (i + 1) / 10) for i in range(int(WINDOW_S * 10) + 5)]
    speed = rows_of([*slow, *fast]).column("tokens_per_s")
    assert speed[4] == pytest.approx(1.0)
    assert speed[-1] == pytest.approx(10.0)


def test_a_break_counts_neither_as_a_slow_round_nor_as_a_slow_passage() -> None:
    before = [plain_round(i, i / 10) for i in range(10)]
    after = [plain_round(10 + i, 60 + i / 10, id=2) for i in range(10)]
    fold = rows_of([*before, *after])
    assert fold.column("whole_ms")[10:] == pytest.approx([nan] + [100.0] * 9, nan_ok=True)
    assert fold.column("tokens_per_s")[11:] == pytest.approx([10.0] * 9)


def test_times_are_those_measured_and_the_whole_round_else() -> None:
    maker = Maker()
    timed, plain, later = maker.chain(5), maker.plain(), maker.chain(5)
    fold = rows_of([timed, plain, later])
    assert timed.round.draft_s is not None
    assert fold.rows[0].draft_ms == pytest.approx(timed.round.draft_s * 1000)
    assert isnan(fold.rows[1].verify_ms)
    assert isnan(fold.rows[0].whole_ms)
    assert fold.rows[1].whole_ms == pytest.approx((plain.round.time_s - timed.round.time_s) * 1000)


def test_a_clock_that_goes_back_gives_no_negative_times() -> None:
    fold = rows_of([plain_round(0, 1.0), plain_round(1, 0.5), plain_round(2, 2.0)])
    assert fold.column("clock_s") == [1.0, 1.0, 2.0]
    assert fold.rows[1].whole_ms == 0.0


# --- plots ------------------------------------------------------------------------------------


def test_means_leave_out_what_is_unknown() -> None:
    count = 4 * MAX_POINTS
    values = array("d", [nan if i % 3 == 0 else float(i) for i in range(count)])
    known = [[v for v in values[at : at + 4] if not isnan(v)] for at in range(0, count, 4)]
    assert averaged(values) == pytest.approx([sum(group) / len(group) for group in known])
    assert all(map(isnan, averaged(array("d", [nan] * count))))
    assert averaged(array("d", [1.0] * MAX_POINTS + [7.0]))[-1] == 7.0


def test_points_stay_where_they_are_while_more_come() -> None:
    strides = [stride(count) for count in range(1, 5_000)]
    assert set(strides) == {1, 2, 4, 8, 16, 32}
    assert strides == sorted(strides)


@pytest.mark.parametrize(
    ("value", "top"),
    [(0, 1), (-3, 1), (nan, 1), (float("inf"), 1), (1, 1), (1.01, 1.5), (71, 80), (80, 80), (81, 100), (0.032, 0.04)],
)
def test_an_axis_ends_at_the_next_round_number(value: float, top: float) -> None:
    assert axis_end([value]) == pytest.approx(top)
    assert axis_end([value, nan, 80, -4]) == max(80, axis_end([value]))
    assert axis_end([]) == 1


def test_intervals_hold_the_share_and_are_wide_for_small_samples() -> None:
    low, high = wilson(3, 4)
    assert low < 0.75 < high
    assert high - low > 0.5
    low, high = wilson(7_500, 10_000)
    assert low < 0.75 < high
    assert high - low < 0.02
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)


def test_counts_are_written_short() -> None:
    assert [compact(n) for n in (7, 999, 1_234, 9_949, 9_950, 19_001)] == ["7", "999", "1.2k", "9.9k", "10k", "19k"]
