"""Only what is near the view exists, and what the reader looks at stays where it is."""

from collections.abc import Iterator
from itertools import count, pairwise

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication

from app.protocol import RoundDone
from app.reply import Reply
from app.store import StoreError
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT
from app.window.transcript.reply_tile import ReplyTile
from app.window.transcript.text_page import TextPage
from tests.app.window.transcript.conftest import MakeStage, Stage
from tests.app.window.transcript.samples import REPLY, conversation, live, question, reply, rounds

WIDE, NARROW = 800, 560


def long_chat(stage: MakeStage, messages: int = 60, tokens: int = 8_000) -> tuple[Stage, list[int]]:
    """A stage with a long conversation, and the messages whose rounds were asked for."""
    one, asked = stage(), []
    path, told = conversation(messages, tokens)

    def reply_of(message: int) -> Reply:
        asked.append(message)
        return Reply(told.get(message, ()))

    one.transcript.show_branch(path, reply_of)
    one.settle()
    return one, asked


def line_at_top(stage: Stage) -> str:
    """The text of the line at the upper edge of the view."""
    column = stage.transcript.column
    for y in range(0, 200, 4):
        page = column.viewport().childAt(column.viewport().width() // 2, y)
        while page is not None and not isinstance(page, TextPage):
            page = page.parentWidget()
        if page is not None:
            place = page.mapFrom(column.viewport(), QPoint(page.width() // 2, y))
            cursor = page.textCursor()
            cursor.setPosition(page.character_at(place.y()))
            return cursor.block().text()
    return ""


@pytest.mark.slow
def test_rounds_are_asked_for_when_a_reply_comes_into_view(stage: MakeStage) -> None:
    one, asked = long_chat(stage)
    assert 1 <= len(asked) <= 3
    one.scroll_to(0)
    assert 2 in asked
    assert len(asked) == len(set(asked)) < 10


def test_a_conversation_that_is_opened_while_the_list_is_hidden_stands_at_its_end_when_it_is_shown(
    stage: MakeStage,
) -> None:
    one, path = stage(), conversation(60, 8_000)
    column = one.transcript.column
    one.transcript.hide()
    one.transcript.show_branch(path[0], lambda message: Reply(path[1].get(message, ())))
    one.transcript.show()
    one.settle()
    assert column.at_end and column.verticalScrollBar().value() == column.verticalScrollBar().maximum() > 0
    assert one.tiles[-1].entry is column.entries[-1]
    one.transcript.show_branch([], lambda _: Reply())
    one.settle()
    assert not column.tiles and column.verticalScrollBar().maximum() == 0


def test_only_messages_near_the_view_are_widgets(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    bar = one.transcript.column.verticalScrollBar()
    for part in range(6):
        one.scroll_to(bar.maximum() * part // 6)
        one.idle()
        assert len(one.transcript.column.tiles) <= 20
        assert len(one.transcript.findChildren(ReplyTile)) <= 20
        assert len(one.transcript.findChildren(TextPage)) <= 40


def test_pages_that_take_long_are_laid_out_one_a_turn(stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    one = stage(WIDE, 3000)
    monkeypatch.setattr(one.clock, "work_s", count().__next__)  # each look at the clock takes a second
    one.transcript.show_branch([question(1), reply(2, (REPLY + "\n\n") * 5, 1)], lambda _: Reply())

    def pages() -> int:
        return sum(len(tile.pages) for tile in one.tiles if isinstance(tile, ReplyTile))

    counts = [pages()]
    while counts[-1] < 3 and len(counts) < 100:
        one.clock.turn()
        counts.append(pages())
    assert counts[0] == 0 and counts[-1] == 3  # the time is used up before the first, but none waits for ever
    assert all(after - before <= 1 for before, after in pairwise(counts))


def test_a_long_reply_is_read_in_slices(stage: MakeStage, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (REPLY + "\n\n") * 30
    told = list(rounds(text))[:40]
    one, asked = stage(WIDE, 900), list[RoundDone]()
    monkeypatch.setattr(one.clock, "work_s", count().__next__)

    def rounds_of(_: int) -> Iterator[RoundDone]:
        for done in told:
            asked.append(done)
            yield done

    one.transcript.show_branch([question(1), reply(2, text, 1)], lambda message: Reply(rounds_of(message)))
    counts = [len(asked)]
    while one.transcript.column.entries[-1].long_unread and len(counts) < 1000:
        one.clock.turn()
        counts.append(len(asked))
    assert counts[0] == 0 and len(set(counts)) > 2
    assert counts[-1] == len(told) and one.transcript.column.entries[-1].source == text


def test_what_is_far_from_the_view_is_forgotten_and_read_again(stage: MakeStage) -> None:
    one, asked = long_chat(stage)
    last, bar = one.transcript.column.entries[-1], one.transcript.column.verticalScrollBar()
    before = last.reply
    one.scroll_to(0)
    assert last._reply is None and last.height(700, one.transcript.options) > 0
    one.scroll_to(bar.maximum())
    assert last.reply is not before and last.reply.text == before.text
    assert asked.count(last.record.id) == 2


def test_a_reply_whose_rounds_are_damaged_is_shown_without_them(stage: MakeStage) -> None:
    def rounds_of(_: int) -> Iterator[RoundDone]:
        yield from list(rounds(REPLY))[:3]
        raise StoreError("some are missing")

    one = stage(WIDE, 900)
    one.transcript.show_branch([question(1), reply(2, REPLY, 1)], lambda message: Reply(rounds_of(message)))
    entry = one.transcript.column.entries[-1]
    assert entry.source == REPLY and not entry.reply.spans


def test_heights_that_were_guessed_wrong_do_not_move_what_is_read(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    one.scroll_to(one.transcript.column.verticalScrollBar().maximum() // 2)
    before = line_at_top(one)
    one.idle()
    one.idle()
    assert before and line_at_top(one) == before


@pytest.mark.slow
def test_scrolling_up_shows_every_message_once_in_order(stage: MakeStage) -> None:
    one, _ = long_chat(stage, 20, 4000)
    seen: list[int] = []
    bar = one.transcript.column.verticalScrollBar()
    while bar.value() or not seen:
        one.scroll_to(bar.value() - 200)
        seen += [tile.entry.record.id for tile in reversed(one.tiles)]
    assert list(dict.fromkeys(seen)) == list(range(20, 0, -1))


def test_resizing_keeps_the_line_that_was_at_the_top(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    one.scroll_to(one.transcript.column.verticalScrollBar().maximum() // 3)
    one.idle()
    before = line_at_top(one)
    one.transcript.resize(NARROW, 600)
    one.settle()
    assert before and line_at_top(one) == before
    one.transcript.resize(WIDE, 600)
    one.settle()
    assert line_at_top(one) == before


@pytest.mark.slow
def test_another_look_moves_nothing_and_keeps_the_selection(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    one.scroll_to(one.transcript.column.verticalScrollBar().maximum() // 2)
    one.idle()
    page = next(page for page in one.transcript.findChildren(TextPage) if page.length > 40)
    page.select(5, 30)
    chosen, before = page.selected_text(), line_at_top(one)
    theme.show(DARK)
    one.settle()
    assert (page.selected_text(), line_at_top(one)) == (chosen, before)
    assert DARK.text in page.document().toHtml()
    theme.show(LIGHT)
    assert LIGHT.text in page.document().toHtml()


def test_the_end_is_followed_until_the_reader_scrolls_up(stage: MakeStage) -> None:
    one, told = stage(), list(rounds(REPLY * 4))
    one.transcript.show_branch([question(1)], lambda _: Reply())
    one.transcript.begin_reply(live(2, 1))
    bar, jump_button = one.transcript.column.verticalScrollBar(), one.transcript.jump_button
    one.stream(told[:200])
    one.frame()
    assert bar.value() == bar.maximum() > 0
    assert not jump_button.isVisible()
    one.scroll_to(bar.maximum() // 2)
    before = line_at_top(one)
    one.stream(told[200:])
    one.frame()
    assert line_at_top(one) == before
    assert jump_button.isVisible()
    jump_button.click()
    one.settle()
    assert bar.value() == bar.maximum()
    assert not jump_button.isVisible()


def test_a_message_can_be_revealed(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    one.transcript.reveal(21)
    one.settle()
    tile = one.transcript.column.tiles[one.transcript.column.entries[20]]
    assert 0 <= tile.y() <= 20


def test_another_branch_keeps_what_both_share_where_it_is(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    path = [entry.record for entry in one.transcript.column.entries]
    one.transcript.reveal(21)
    one.settle()
    before = line_at_top(one)
    one.transcript.show_branch([*path[:40], question(900, "Something else", 40)], lambda _: Reply())
    one.settle()
    assert line_at_top(one) == before


def test_switching_a_version_leaves_the_message_where_it_is(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    path = [entry.record for entry in one.transcript.column.entries]
    column = one.transcript.column
    one.transcript.reveal(21)
    column.scroll_by(-200)
    one.idle()
    tile = next(tile for tile in column.shown_tiles() if tile.y() > 0)
    place, y = column.entries.index(tile.entry), tile.y()
    other = replace(path[place], id=901, text="Another version.", version=2, versions=2)
    below = [reply(n, REPLY, n - 1) if n % 2 else question(n, "Why?", n - 1) for n in range(902, 920)]
    one.transcript.show_branch([*path[:place], other, *below], lambda _: Reply())
    one.settle()
    assert column.tiles[column.entries[place]].y() == y


def test_a_reply_of_one_endless_line_is_shown_and_followed(stage: MakeStage) -> None:
    one = stage()
    text = "endless " * 8000
    one.transcript.show_branch([question(1)], lambda _: Reply())
    one.transcript.begin_reply(live(2, 1))
    one.stream(list(rounds(text)))
    one.frame()
    bar = one.transcript.column.verticalScrollBar()
    pages = one.transcript.findChildren(TextPage)
    assert bar.value() == bar.maximum() > 0
    assert 0 < len(pages) < len(one.transcript.column.entries[-1].pieces)


def test_what_is_selected_survives_scrolling_away(stage: MakeStage) -> None:
    one, _ = long_chat(stage)
    tile = one.tiles[-1]
    page = tile.focus_widgets()[0]
    assert isinstance(page, TextPage)
    page.select(0, 10)
    one.scroll_to(0)
    one.idle()
    assert tile.entry in one.transcript.column.tiles
    assert page.selected_text()


def test_a_page_leaves_the_wheel_to_the_conversation(stage: MakeStage) -> None:
    """Qt hands an event that was made here no further than to the page itself."""
    one, _ = long_chat(stage)
    page = one.transcript.findChildren(TextPage)[0]
    place = QPointF(page.rect().center())
    event = QWheelEvent(
        place,
        QPointF(page.mapToGlobal(place)),
        QPoint(0, 0),
        QPoint(0, 240),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(page.viewport(), event)
    assert not event.isAccepted()
