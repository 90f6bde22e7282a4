"""Replies written by a thread of their own: reported once they are on disk, held where the disk refuses."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from app.protocol import Pair, SamplingSettings
from app.store import ReplyWriter, Store, StoreError
from app.store.records import Ending
from tests.app.store.toys import REPLY, SETTINGS, TEXT, ask, everything, round_done
from tests.app.window.chat.scene import Disk


def streaming(store: Store) -> int:
    """Begins a reply, and returns its id."""
    conversation = store.create(SETTINGS).id
    question = store.add_question(conversation, None, "Why?")
    return store.begin_reply(conversation, question.id, Pair(), SamplingSettings()).id


def test_rounds_are_on_disk_when_they_are_reported(store: Store, place: Path) -> None:
    message, seen = streaming(store), list[str]()
    writer = ReplyWriter(store, lambda: seen.append(ask(place, f"SELECT text FROM message WHERE id = {message}")[0][0]))
    writer.append(message, REPLY)
    assert writer.wait(5) and writer.close(5)
    (report,) = writer.take_reports()
    assert seen == [TEXT] and (report.rounds, report.failure, report.record) == (3, "", None)
    assert store.rounds(message) == REPLY


def test_the_end_of_a_reply_is_reported_as_the_store_has_it(store: Store) -> None:
    message = streaming(store)
    writer = ReplyWriter(store, lambda: None)
    writer.append(message, REPLY)
    writer.end(message, Ending("complete", note="so"))
    assert writer.wait(5)
    reports = writer.take_reports()
    assert reports[-1].record == store.message(message) and sum(report.rounds for report in reports) == 3
    assert store.message(message).state == "complete" and store.search("sky") and writer.close(5)


def test_nobody_waits_for_a_file_that_is_in_use(store: Store, place: Path) -> None:
    message = streaming(store)
    writer = ReplyWriter(store, lambda: None)
    other = sqlite3.connect(place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    began_s = time.monotonic()
    writer.append(message, REPLY)
    assert time.monotonic() - began_s < 1 and not writer.wait(0.05)
    other.execute("ROLLBACK")
    assert writer.wait(5) and store.message(message).text == TEXT and writer.close(5)
    other.close()


def test_what_a_full_disk_refuses_is_held_shown_and_written_later(store: Store, place: Path) -> None:
    message, disk = streaming(store), Disk(store)
    writer = ReplyWriter(store, lambda: None)
    large = [round_done(0, ["word " * 20_000])]
    with disk:
        writer.append(message, large)
        assert not writer.wait(5)
        writer.append(message, [round_done(1, ["end"])])  # within a second: not tried, but reported
        writer.end(message, Ending("complete"))
        assert not writer.wait(5)
        reports = writer.take_reports()
        assert [report.rounds for report in reports if report.rounds] == [1, 1] and reports[-1].ended
        assert all("the disk is full" in report.failure and report.record is None for report in reports)
        assert store.message(message).text == "word " * 20_000 + "end" and len(store.rounds(message)) == 2
        assert ask(place, f"SELECT text FROM message WHERE id = {message}") == [("",)]
    writer.retry()
    assert writer.wait(5)
    (report,) = writer.take_reports()
    assert report.record is not None and report.record.text == "word " * 20_000 + "end" and not report.rounds
    assert writer.close(5)


def test_closing_says_whether_everything_is_written(store: Store, place: Path) -> None:
    message, disk = streaming(store), Disk(store)
    writer = ReplyWriter(store, lambda: None)
    writer.append(message, REPLY)
    assert writer.close(5) and len(everything(store)) == 2
    other = ReplyWriter(store, lambda: None)
    with disk:
        other.append(message, [round_done(3, ["word " * 20_000])])
        assert not other.close(5)
    assert ReplyWriter(store, lambda: None).close(5)  # which never wrote


def test_while_the_text_of_an_ended_reply_is_folded_for_search_the_store_can_be_used(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    message, folding, used = streaming(store), threading.Event(), threading.Event()

    def fold(text: str) -> str:
        folding.set()
        assert used.wait(5)
        return text

    monkeypatch.setattr("app.store.message_search.fold", fold)
    writer = ReplyWriter(store, lambda: None)
    writer.append(message, REPLY)
    writer.end(message, Ending("complete"))
    assert folding.wait(5)
    store.set_value("key", "value")
    store.rename(store.conversations()[0].id, "Another title")
    assert store.message(message).state == "complete" and store.rounds(message) == REPLY
    used.set()
    assert writer.close(5) and [hit.message for hit in store.search("sky")] == [message]


@pytest.mark.parametrize("what", ["continued", "deleted"])
def test_a_reply_that_changes_while_it_is_folded_is_not_found_by_what_it_was(
    store: Store, place: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    message = streaming(store)
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
