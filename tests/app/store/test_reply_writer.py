"""Replies written by a thread of their own: reported once they are on disk, held where the disk refuses."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from threading import Condition, Event

import pytest

from app.protocol import Pair, SamplingSettings
from app.store import ReplyWriter, Store, StoreError
from app.store.records import Ending
from app.store.reply_writer import RETRY_S, WRITE_S, Clock
from tests.app.store.toys import REPLY, SETTINGS, TEXT, ask, everything, round_done
from tests.app.window.chat.scene import Disk
from tests.waiting import HANG_S, until


class SteppedClock(Clock):
    """Stands still until a test steps it. timeout_s: for how long the writer is waiting."""

    def __init__(self) -> None:
        self.time_s, self.timeout_s = 100.0, -1.0
        self._changed = Condition()

    def now_s(self) -> float:
        return self.time_s

    def wait(self, changed: Condition, timeout_s: float | None) -> None:
        self._changed, self.timeout_s = changed, timeout_s or 0.0
        changed.wait()
        self.timeout_s = -1.0

    def advance(self, seconds: float) -> None:
        until(lambda: self.timeout_s == pytest.approx(seconds))
        with self._changed:
            self.time_s += seconds
            self._changed.notify_all()


@pytest.fixture
def clock() -> SteppedClock:
    return SteppedClock()


def begin_reply(store: Store) -> int:
    """Returns the id of a reply that streams."""
    conversation = store.create(SETTINGS).id
    question = store.add_question(conversation, None, "Why?")
    return store.begin_reply(conversation, question.id, Pair(), SamplingSettings()).id


def reader(place: Path, message: int) -> Callable[[], str]:
    """Reads the text of a message from the file, beside any store."""
    return lambda: ask(place, f"SELECT text FROM message WHERE id = {message}")[0][0]


def test_rounds_are_on_disk_when_they_are_reported_and_a_write_comes_after_an_interval(
    store: Store, place: Path, clock: SteppedClock
) -> None:
    message, seen = begin_reply(store), list[str]()
    on_disk = reader(place, message)
    writer = ReplyWriter(store, lambda: seen.append(on_disk()), clock)
    writer.append(message, REPLY)
    until(lambda: seen)
    (report,) = writer.take_reports()
    assert seen == [TEXT] and (report.rounds, report.failure, report.record) == (3, "", None)
    assert store.rounds(message) == REPLY
    for word in (" And", " so"):
        writer.append(message, [round_done(3, [word])])
    until(lambda: clock.timeout_s == pytest.approx(WRITE_S))
    assert writer.take_reports() == [] and on_disk() == TEXT
    clock.advance(WRITE_S)
    until(lambda: len(seen) > 1)
    assert seen[1] == f"{TEXT} And so" and writer.close(HANG_S)


def test_the_end_of_a_reply_is_written_at_once_and_reported_as_the_store_has_it(
    store: Store, clock: SteppedClock
) -> None:
    message = begin_reply(store)
    writer = ReplyWriter(store, lambda: None, clock)
    writer.append(message, REPLY[:1])
    assert writer.wait(HANG_S)
    writer.append(message, REPLY[1:])
    writer.end(message, Ending("complete", note="so"))
    assert writer.wait(HANG_S)
    reports = writer.take_reports()
    assert reports[-1].record == store.message(message) and sum(report.rounds for report in reports) == 3
    assert store.message(message).state == "complete" and store.search("sky") and writer.close(HANG_S)


def test_nobody_waits_for_a_disk_that_does_not_answer(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    message, trying, answers, beside = begin_reply(store), Event(), Event(), store.beside

    def slow() -> Store:
        trying.set()
        assert answers.wait(HANG_S)
        return beside()

    monkeypatch.setattr(store, "beside", slow)
    writer = ReplyWriter(store, lambda: None)
    writer.append(message, REPLY)
    assert trying.wait(HANG_S) and not writer.wait(0.0) and writer.take_reports() == []
    store.set_value("key", "value")
    answers.set()
    assert writer.wait(HANG_S) and store.message(message).text == TEXT and writer.close(HANG_S)


@pytest.mark.parametrize("by_hand", [True, False])
def test_what_a_full_disk_refuses_is_held_shown_and_written_later(
    store: Store, place: Path, clock: SteppedClock, by_hand: bool
) -> None:
    message, disk = begin_reply(store), Disk(store)
    on_disk, text = reader(place, message), "word " * 20_000
    writer = ReplyWriter(store, lambda: None, clock)
    with disk:
        writer.append(message, [round_done(0, [text])])
        assert not writer.wait(HANG_S)
        writer.append(message, [round_done(1, ["end"])])  # before the next trial, but reported
        writer.end(message, Ending("complete"))
        assert not writer.wait(HANG_S)
        reports = writer.take_reports()
        assert [report.rounds for report in reports if report.rounds] == [1, 1] and reports[-1].ended
        assert all("the disk is full" in report.failure and report.record is None for report in reports)
        assert store.message(message).text == text + "end" and len(store.rounds(message)) == 2
        assert on_disk() == ""
    if by_hand:
        writer.retry()
    else:
        clock.advance(RETRY_S)
    assert writer.wait(HANG_S)
    (report,) = writer.take_reports()
    assert report.record is not None and report.record.text == text + "end" == on_disk() and not report.rounds
    assert writer.close(HANG_S)


def test_closing_says_whether_everything_is_written(store: Store) -> None:
    message, disk = begin_reply(store), Disk(store)
    writer = ReplyWriter(store, lambda: None)
    writer.append(message, REPLY)
    assert writer.close(HANG_S) and len(everything(store)) == 2
    other = ReplyWriter(store, lambda: None)
    with disk:
        other.append(message, [round_done(3, ["word " * 20_000])])
        assert not other.close(HANG_S)
    assert ReplyWriter(store, lambda: None).close(HANG_S)  # which never wrote


def test_while_the_text_of_an_ended_reply_is_folded_for_search_the_store_can_be_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, folding, used = begin_reply(store), Event(), Event()

    def fold(text: str) -> str:
        folding.set()
        assert used.wait(HANG_S)
        return text

    monkeypatch.setattr("app.store.message_search.fold", fold)
    writer = ReplyWriter(store, lambda: None)
    writer.append(message, REPLY)
    writer.end(message, Ending("complete"))
    assert folding.wait(HANG_S)
    store.set_value("key", "value")
    store.rename(store.conversations()[0].id, "Another title")
    assert store.message(message).state == "complete" and store.rounds(message) == REPLY
    used.set()
    assert writer.close(HANG_S) and [hit.message for hit in store.search("sky")] == [message]


@pytest.mark.parametrize("what", ["continued", "deleted"])
def test_a_reply_that_changes_while_it_is_folded_is_not_found_by_what_it_was(
    store: Store, place: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    message = begin_reply(store)
    conversation = store.conversations()[0].id

    def fold(text: str) -> str:
        if what == "continued":
            store.resume_reply(message)
        else:
            store.delete(conversation)
            store.purge()
        return text

    store.append(message, REPLY)
    with monkeypatch.context() as patched, pytest.raises(StoreError) if what == "deleted" else nullcontext():
        patched.setattr("app.store.message_search.fold", fold)
        store.end_reply(message, Ending("complete"))
    assert ask(place, f"SELECT count(*) FROM folded WHERE message = {message}") == [(0,)]
