"""What is appended is on disk at once; what the disk refuses is held, and written when it can be."""

import sqlite3
from pathlib import Path

import pytest

from app.protocol import Pair, SamplingSettings
from app.reply import ReplyLog
from app.store import Store
from app.store.records import CUT_NOTE, Ending
from tests.app.store.toys import REPLY, SETTINGS, TEXT, round_done, statistics_of
from tests.app.window.chat.scene import Disk


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "conversations.sqlite").store


def begin_reply(store: Store) -> int:
    """Returns the id of a reply that streams."""
    conversation = store.create(SETTINGS).id
    question = store.add_question(conversation, None, "Why?")
    return store.begin_reply(conversation, question.id, Pair(), SamplingSettings()).id


def test_what_is_appended_is_on_disk_and_the_end_writes_the_text(store: Store, tmp_path: Path) -> None:
    message, log = begin_reply(store), ReplyLog(store)
    for number, one in enumerate(REPLY, 1):
        log.append(message, [one])
        other = Store.open(tmp_path / "conversations.sqlite").store
        assert other.rounds(message) == REPLY[:number] and TEXT.startswith(other.message(message).text)
        other.close()
    record = log.end(message, Ending("complete"))
    assert record is not None and (record.text, record.state) == (TEXT, "complete")
    assert not log.holds_any and log.failure == ""
    store.close()


def test_what_a_full_disk_refuses_is_held_and_written_later(store: Store) -> None:
    message, disk, log = begin_reply(store), Disk(store), ReplyLog(store)
    long = round_done(0, [f"word{number} " for number in range(5_000)])
    with disk:
        log.append(message, [long])
        assert "the disk is full" in log.failure and log.held(message) == [long]
        log.append(message, [round_done(1, ["end"])])
        assert log.end(message, Ending("complete")) is None
        assert len(log.held(message)) == 2 and store.rounds(message) == []
        assert log.retry() == {} and "the disk is full" in log.failure
    records = log.retry()
    assert records[message].text.endswith(" end") and records[message].state == "complete"
    assert len(store.rounds(message)) == 2 and not log.holds_any and log.failure == ""
    store.close()


def test_another_program_that_writes_is_not_waited_for(store: Store, tmp_path: Path) -> None:
    message, log = begin_reply(store), ReplyLog(store)
    blocker = sqlite3.connect(tmp_path / "conversations.sqlite", isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    log.append(message, REPLY[:1])
    assert "another program is writing" in log.failure and log.held(message) == REPLY[:1]
    blocker.execute("ROLLBACK")
    blocker.close()
    log.append(message, REPLY[1:])
    assert log.retry() == {} and store.rounds(message) == REPLY
    store.close()


@pytest.mark.parametrize("continued", [False, True])
def test_a_reply_that_was_cut_has_the_text_and_the_numbers_of_all_its_rounds(tmp_path: Path, continued: bool) -> None:
    """Also one that was stopped and continued before: its numbers are not those of its first part."""
    place = tmp_path / "conversations.sqlite"
    store = Store.open(place).store
    message, log = begin_reply(store), ReplyLog(store)
    log.append(message, REPLY[:1])
    if continued:
        log.end(message, Ending("stopped", statistics_of(REPLY[:1]), tail="\ufffd"))
        store.resume_reply(message)
    log.append(message, REPLY[1:])
    store.close()
    opened = Store.open(place)
    cut = opened.store.message(message)
    assert (cut.state, cut.note, cut.text) == ("cut", CUT_NOTE, TEXT)
    assert cut.statistics == statistics_of(REPLY)
    assert opened.store.rounds(message) == REPLY and opened.notices == []
    assert [hit.message for hit in opened.store.search("sky blue")] == [message]
    opened.store.close()
