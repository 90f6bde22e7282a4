"""The inspector: what it shows is the reply, live or whole, at a bounded cost, in every state."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton, QWidget

from app.protocol import RoundDone
from app.reply import Reply
from app.store import StoreError
from app.store.records import Statistics
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT
from app.window.inspector import Inspector
from app.window.inspector.charts import CHARTS
from app.window.inspector.inspector import CHART_S, SLICE
from app.window.inspector.reply_summary import NUMBERS, figures
from engine.metrics import Metrics
from tests.app.window.inspector.inspector_views import (
    colours,
    open_inspector,
    plot_words,
    record,
    rows,
    take_all,
    tiles,
)
from tests.app.window.inspector.sample_rounds import chains, mixed, plains
from tests.app.window.stepped_clock import SteppedClock

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize("told", [mixed(100), plains(30)], ids=["mixed", "plain"])
def test_told_as_it_happens_is_the_same_as_shown_whole(told: list[RoundDone]) -> None:
    live, reply = open_inspector(), Reply()
    live.show_reply(reply, None)
    for i in range(0, len(told), 20):
        add(live, reply, told[i : i + 20])
        assert len(rows(live)) == len(told[: i + 20])
    live.end(record(reply.statistics))
    whole = open_inspector(told, statistics=reply.statistics)
    assert rows(live) == rows(whole)
    assert tiles(live) == tiles(whole) == figures(reply.statistics)
    assert plot_words(live) == plot_words(whole)


def add(inspector: Inspector, reply: Reply, told: list[RoundDone]) -> None:
    for one in told:
        reply.add(one)
    inspector.grow()


def test_numbers_are_those_of_the_record_once_the_reply_is_over() -> None:
    told, reply = mixed(60), Reply(mixed(40))
    inspector = open_inspector()
    inspector.show_reply(reply, None)
    take_all(inspector)
    assert tiles(inspector) == figures(Statistics.of(Metrics.of(one.round for one in told[:40])))
    other = Statistics.of(Metrics.of(one.round for one in told[:10]))
    inspector.end(record(other))
    assert tiles(inspector) == figures(other)
    add(inspector, reply, told[40:])
    assert tiles(inspector) == figures(Statistics.of(Metrics.of(one.round for one in told)))


def test_charts_are_drawn_now_and_then_while_a_reply_is_written_and_at_its_end(
    clock: SteppedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    inspector, reply, told = open_inspector(), Reply(), mixed(30)
    inspector.show_reply(reply, None)
    drawn: list[int] = []
    monkeypatch.setattr(inspector.charts, "show_rounds", lambda rows, describe: drawn.append(len(rows.rows)))
    for i, seconds in ((0, 0.0), (10, 0.0), (20, CHART_S)):
        clock.advance(seconds)
        add(inspector, reply, told[i : i + 10])
    inspector.end(record(reply.statistics))
    assert drawn == [30, 30] and len(rows(inspector)) == 30


def test_out_of_sight_it_draws_nothing_and_shows_all_when_it_comes_into_sight() -> None:
    inspector = Inspector()
    inspector.show_reply(Reply(mixed(80)), None)
    take_all(inspector)
    assert rows(inspector) == []
    inspector.show()
    assert len(rows(inspector)) == 80


def test_a_long_reply_is_taken_in_slices(clock: SteppedClock) -> None:
    inspector = open_inspector()
    told, read = mixed(3 * SLICE + 10), list[RoundDone]()
    inspector.show_reply(Reply(one for one in told if read.append(one) is None), None)
    assert inspector.busy and len(read) == SLICE  # from the disk, too
    clock.settle()
    assert not inspector.busy
    assert inspector.rounds.round_model.rowCount() == len(read) == len(told)


def test_rounds_that_are_damaged_are_not_shown_and_what_follows_is() -> None:
    def damaged() -> Iterator[RoundDone]:
        yield from told[: SLICE + 10]
        raise StoreError("some are missing")

    inspector, told = open_inspector(), mixed(SLICE + 20)
    reply = Reply(damaged())
    inspector.show_reply(reply, None)
    take_all(inspector)
    assert rows(inspector) == []
    add(inspector, reply, chains(5))
    assert len(rows(inspector)) == 5


def test_another_reply_replaces_one_that_was_still_being_taken_in() -> None:
    inspector = open_inspector()
    inspector.show_reply(Reply(mixed(3 * SLICE)), None)
    inspector.show_reply(Reply(chains(5)), None)
    take_all(inspector)
    assert inspector.rounds.round_model.rowCount() == 5


def test_plots_say_in_words_what_they_show() -> None:
    told = mixed(120)
    metrics = Metrics.of(one.round for one in told)
    acceptance, speed, times = plot_words(open_inspector(told))
    for place, (share, reached) in enumerate(zip(metrics.acceptance_by_position, metrics.reached, strict=True), 1):
        assert f"position {place}: {share:.0%} of {reached:,}" in acceptance
    assert "tokens/s at the end" in speed
    assert "tokens per pass at the end" in speed
    for word in ("verify", "draft", "whole"):
        assert word in times


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("count", "timed"), [(1, False), (3, True)])
def test_the_first_rounds_are_drawn_though_little_is_known(
    count: int, timed: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    inspector = open_inspector(mixed(count, timed=timed))
    for which in range(len(CHARTS)):
        inspector.charts.choose(which)
        QApplication.processEvents()
        assert inspector.charts.charts[which].isVisible()
        assert inspector.charts.charts[which].accessibleDescription()
    assert "Traceback" not in capfd.readouterr().err


def test_it_is_in_the_colours_of_the_look_and_nothing_is_left_of_another() -> None:
    inspector = open_inspector(mixed(60))
    for look, other in ((LIGHT, DARK), (DARK, LIGHT)):
        theme.show(look)
        QApplication.processEvents()
        there = colours(inspector)
        assert {look.background, look.text, look.tints["accepted"], look.hues["accepted"].lower()} <= there
        assert not set(other.tints.values()) & there


def test_everything_that_can_be_used_is_named_and_reached_by_the_keyboard() -> None:
    inspector = open_inspector(mixed(60))
    used = [w for w in inspector.findChildren(QWidget) if isinstance(w, QPushButton | QToolButton)]
    used += [inspector.rounds, *inspector.charts.charts, *inspector.summary.tiles]
    reached, widget = set(), inspector.nextInFocusChain()
    while widget is not inspector:
        if widget.focusPolicy() & Qt.FocusPolicy.TabFocus:
            reached.add(widget)
        widget = widget.nextInFocusChain()
    for widget in used:
        assert widget.accessibleName() or getattr(widget, "text", str)()
        assert widget in reached
    for tile, (name, definition) in zip(inspector.summary.tiles, NUMBERS.items(), strict=True):
        assert tile.toolTip() == tile.accessibleDescription() == definition
        assert tile.accessibleName().startswith(name)


def test_rounds_are_copied_from_the_menu_and_the_selected_one_by_its_key() -> None:
    inspector = open_inspector()
    inspector.sharing.renew()
    assert not [action for action in inspector.sharing.actions() if action.isEnabled() and not action.isSeparator()]
    inspector = open_inspector(mixed(10))
    inspector.activateWindow()
    inspector.rounds.setFocus()
    inspector.rounds.selectRow(4)
    QTest.keyClick(inspector.rounds, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert '"index": 4' in QApplication.clipboard().text()
    inspector.rounds.selectRow(3)
    inspector.sharing.renew()
    inspector.sharing.copy_chosen.trigger()
    assert '"index": 3' in QApplication.clipboard().text()
    for action in inspector.sharing.all[:2]:
        action.trigger()
        assert len(QApplication.clipboard().text().splitlines()) > 10
