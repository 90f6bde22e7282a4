"""The inspector: what it shows is the reply, live or whole, at a bounded cost, in every state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPushButton, QToolButton, QWidget

from app.protocol import RoundDone
from app.store import StoreError
from app.store.records import Statistics
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT
from app.window.inspector import Inspector
from app.window.inspector.charts import CHARTS
from app.window.inspector.inspector import FRAME_MS, SLICE
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
from tests.app.window.inspector.sample_rounds import chains, mixed, plains, trees
from tests.app.window.stepped_clock import SteppedClock

pytestmark = pytest.mark.usefixtures("app")


@pytest.mark.parametrize(
    "told", [chains(50), trees(50), mixed(150), plains(30)], ids=["chains", "trees", "mixed", "plain"]
)
def test_told_as_it_happens_is_the_same_as_shown_whole(told: list[RoundDone]) -> None:
    live = open_inspector()
    for i in range(0, len(told), 7):
        live.add_rounds(told[i : i + 7])
        if i % 3 == 0:
            live.update_now()
    statistics = Statistics.of(Metrics.of(one.round for one in told))
    live.end(record(statistics))
    take_all(live)
    whole = open_inspector(told, statistics=statistics)
    assert rows(live) == rows(whole)
    assert tiles(live) == tiles(whole) == figures(statistics)
    assert plot_words(live) == plot_words(whole)


def test_numbers_are_those_of_the_record_once_the_reply_is_over() -> None:
    told = mixed(40)
    inspector = open_inspector(told)
    assert tiles(inspector) == figures(Statistics.of(Metrics.of(one.round for one in told)))
    other = Statistics.of(Metrics.of(one.round for one in told[:10]))
    inspector.end(record(other))
    assert tiles(inspector) == figures(other)
    inspector.add_rounds(mixed(60)[40:])
    inspector.update_now()
    assert tiles(inspector) == figures(Statistics.of(Metrics.of(one.round for one in mixed(60))))


def test_what_comes_between_two_updates_waits_for_the_second(clock: SteppedClock) -> None:
    inspector = open_inspector([])
    told = mixed(300)
    for i in range(0, 300, 3):
        inspector.add_rounds(told[i : i + 3])
    assert rows(inspector) == []
    clock.advance(FRAME_MS / 1000)
    assert len(rows(inspector)) == 300


def test_out_of_sight_it_draws_nothing_and_shows_all_when_it_comes_into_sight() -> None:
    inspector = Inspector()
    inspector.add_rounds(mixed(80))
    inspector.update_now()
    assert rows(inspector) == []
    inspector.show()
    assert len(rows(inspector)) == 80


def test_a_long_reply_is_taken_in_slices(clock: SteppedClock) -> None:
    inspector = open_inspector()
    told, read = mixed(3 * SLICE + 10), list[RoundDone]()
    inspector.show_reply((one for one in told if read.append(one) is None), None)
    assert inspector.busy and len(read) == SLICE  # from the disk, too
    clock.settle()
    assert not inspector.busy
    assert inspector.rounds.round_model.rowCount() == len(read) == len(told)


def test_rounds_that_are_damaged_are_not_shown_and_what_follows_is() -> None:
    def damaged() -> Iterator[RoundDone]:
        yield from told[: SLICE + 10]
        raise StoreError("some are missing")

    inspector, told = open_inspector(), mixed(SLICE + 20)
    for meanwhile in (False, True):
        inspector.show_reply(damaged(), None)
        if not meanwhile:
            take_all(inspector)
            assert rows(inspector) == []
        inspector.add_rounds(chains(5))
        take_all(inspector)
        assert len(rows(inspector)) == 5


def test_another_reply_replaces_one_that_was_still_being_taken_in() -> None:
    inspector = open_inspector()
    inspector.show_reply(mixed(3 * SLICE), None)
    inspector.show_reply(chains(5), None)
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
@pytest.mark.parametrize(("count", "timed"), [(1, True), (1, False), (2, False), (3, True)])
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
