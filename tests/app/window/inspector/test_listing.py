"""The list of rounds: bounded whatever the length, follows the newest, says what it shows."""

from dataclasses import replace
from math import nan

import pytest
from msgspec.structs import replace as replace_fields
from PySide6.QtCore import QEvent, QModelIndex, QRectF, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit, QTableView

from app.protocol import Machines, RoundDone
from app.window.inspector.round_detail import about
from app.window.inspector.round_list import RoundDelegate, RoundList, times_text
from tests.app.window.inspector.inspector_views import hover, open_inspector, rows_of
from tests.app.window.inspector.sample_rounds import CORRECTED, Maker, chains, mixed, trees

pytestmark = pytest.mark.usefixtures("app")


def open_list(told: list[RoundDone]) -> RoundList:
    view = RoundList()
    view.resize(320, 300)
    view.show()
    view.show_rounds(rows_of(told))
    QApplication.processEvents()
    return view


def newest_in_sight(view: RoundList) -> bool:
    last = view.visualRect(view.round_model.index(view.round_model.rowCount() - 1, 0))
    return view.viewport().rect().intersects(last)


def grow(view: RoundList, told: list[RoundDone]) -> None:
    rows = view.round_model.rounds
    for one in told:
        rows.reply.add(one)
    rows.grow(len(told))
    view.grow()
    QApplication.processEvents()


def test_the_newest_round_stays_in_sight_as_they_come() -> None:
    told = mixed(400)
    view = open_list(told[:100])
    for i in range(100, 400, 30):
        grow(view, told[i : i + 30])
        assert newest_in_sight(view)


def test_who_scrolled_away_stays_there_until_asking_for_the_newest() -> None:
    told = mixed(400)
    view = open_list(told[:200])
    view.verticalScrollBar().setValue(100)
    assert not view.following
    grow(view, told[200:])
    assert view.verticalScrollBar().value() == 100
    view.follow()
    assert newest_in_sight(view)
    view.grow()
    assert view.following
    view.verticalScrollBar().setValue(0)
    assert not view.following
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum())
    assert view.following


def test_a_list_asks_only_for_the_rows_in_sight_however_many_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    told, asked = mixed(3_000), set[int]()
    place = RoundDelegate.place
    monkeypatch.setattr(
        RoundDelegate, "place", lambda self, done, *rest: asked.add(done.round.index) or place(self, done, *rest)
    )
    view = open_list(told[:2_900])
    for start in range(2_900, 3_000, 20):
        grow(view, told[start : start + 20])
    view.verticalScrollBar().setValue(view.verticalScrollBar().maximum() // 2)
    view.grab()
    assert 0 < len(asked) < 300


@pytest.mark.parametrize("width", [200, 320, 480])
def test_pieces_stay_within_their_row_and_what_has_no_room_is_counted(width: int) -> None:
    delegate = RoundDelegate()
    for told in [*chains(30, length=12), *trees(30)]:
        box = QRectF(0, 0, width, delegate.height)
        placed = delegate.place(told, box)
        assert all(box.contains(spot) for spot, _ in placed.pieces)
        count = len(told.round.drafted) + len(told.round.tokens) - told.round.accepted
        assert len(placed.pieces) + placed.more == count


def test_the_round_pointed_at_or_selected_last_is_looked_at() -> None:
    view = open_list(mixed(50))
    seen: list[object] = []
    view.looked_at.connect(lambda row: seen.append(row and row.number))
    view.setCurrentIndex(QModelIndex())
    QTest.keyClick(view, Qt.Key.Key_Up)
    assert seen[-1] == 50  # the keyboard begins at the newest
    view.setCurrentIndex(view.round_model.index(45, 0))
    assert seen[-1] == 46
    hover(view.viewport(), 100, 10)
    assert seen[-1] == view.rowAt(10) + 1
    QTest.keyClick(view, Qt.Key.Key_Down)
    assert seen[-1] == 47
    hover(view.viewport(), 100, 15)
    QApplication.sendEvent(view.viewport(), QEvent(QEvent.Type.Leave))
    assert seen[-1] == 47


def test_a_row_says_in_words_what_it_shows() -> None:
    view = open_list(chains(3))
    row = view.round_model.rounds.rows[1]
    said = view.round_model.index(1, 0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert said.startswith("round 2, chain of 5, ")
    assert said.endswith(f"expects 1.62x plain speed; {times_text(row)}")


def test_times_are_labelled_by_what_they_are() -> None:
    maker = Maker()
    timed = open_list([maker.chain(5), maker.plain(), maker.chain(5)]).round_model.rounds.rows
    assert times_text(timed[0]).startswith("draft 6.0 · verify ")
    assert times_text(timed[0], short=True).startswith("6.0 + ")
    assert times_text(timed[1]).startswith("round ")
    assert times_text(open_list(mixed(2, timed=False)).round_model.rounds.rows[0]) == ""


def test_the_arrow_keys_go_from_token_to_token_and_each_is_explained() -> None:
    last = replace_fields(CORRECTED, round=replace(CORRECTED.round, index=3))
    inspector = open_inspector([*chains(3), last])
    table = next(view for view in inspector.findChildren(QTableView) if view.accessibleName() == "Tokens of the round")
    why = inspector.findChild(QPlainTextEdit)
    assert why is not None and why.accessibleName() == "Why this token"
    assert why.toPlainText().startswith("The drafter proposed “ blue” with probability 38%.")
    assert "min(1, p(x)/q(x))" in table.currentIndex().data(Qt.ItemDataRole.AccessibleDescriptionRole)
    QTest.keyClick(table, Qt.Key.Key_Up)
    assert "so it is kept with probability 0.750" in why.toPlainText()
    for _ in range(3):
        QTest.keyClick(table, Qt.Key.Key_Down)
    assert why.toPlainText() == "Not decided: a token before it in the draft was refused."


def test_what_the_network_took_of_a_round_is_an_estimate_and_only_with_machines() -> None:
    machines = Machines(names=("localhost", "studio"), pass_s=0.0014, row_s=0.0001)
    series = open_list([Maker(timed=True).chain(7)]).round_model.rounds
    row = series.rows[0]._replace(verify_ms=14.0)
    width = row.done.round.width
    assert f"about {1.4 + 0.1 * (width - 1):.1f} of 14 ms on the network" in about(row, machines)
    assert "network" not in about(row)
    assert "network" not in about(row._replace(verify_ms=nan, whole_ms=nan), machines)
    assert "about 0.5 of 0.5 ms on the network" in about(row._replace(verify_ms=0.5), machines)
    assert "of 20 ms on the network" in about(row._replace(verify_ms=nan, whole_ms=20.0), machines)
