"""Disks that are full, logs that are damaged, and two at once."""

import errno
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from app.protocol import Pair, SamplingSettings
from app.reply import ReplyLog
from app.store import Store, StoreError
from app.store.database import Database, explain
from app.store.records import Ending
from tests.app.store.toys import SETTINGS, ask, converse, crash, everything, prose, round_done
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[3]


# --- a full disk ------------------------------------------------------------------------------


def fill(store: Store) -> None:
    """No page more from now on."""
    pages = store._database.rows("PRAGMA page_count")[0][0]
    store._database.rows(f"PRAGMA max_page_count = {pages}")


def make_room(store: Store) -> None:
    store._database.rows("PRAGMA max_page_count = 1000000")


def test_a_reply_that_ended_before_the_disk_was_full_is_found_after_the_next_start(
    store: Store, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conversation = converse(store, 1)
    question = store.add_question(conversation, None, "And now?")
    reply = store.begin_reply(conversation, question.id, Pair(), SamplingSettings())
    text = prose(3, 5_000)
    store.append(reply.id, [round_done(0, [text])])
    assert store.end_reply(reply.id, Ending("complete")).state == "complete"
    word = f'"{text[-40:].strip()}"'
    with monkeypatch.context() as patched:
        patched.setattr("app.store.message_search.fold", lambda text: text * 9)  # more than the pages that are free
        fill(store)
        assert store.message(reply.id).text == text and not store.search(word)
    make_room(store)
    store.close()
    with closing(Store.open(place).store) as other:
        assert [hit.message for hit in other.search(word)] == [reply.id]


def test_a_full_disk_costs_nothing_that_was_there_and_what_it_refused_comes_later(store: Store, place: Path) -> None:
    conversation = converse(store, 2)
    question = store.add_question(conversation, None, "And now?")
    reply = store.begin_reply(conversation, question.id, Pair(), SamplingSettings())
    before = everything(store)
    fill(store)
    rounds = [round_done(n, [f" {prose(n, 200)}"]) for n in range(40)]
    log = ReplyLog(store)
    for one in rounds:
        log.append(reply.id, [one])
    assert len(log.held(reply.id)) > 30 and "disk is full; free up space" in log.failure
    with pytest.raises(StoreError, match="disk is full"):
        store.add_question(conversation, None, prose(1, 20_000))
    with pytest.raises(StoreError, match="disk is full"):
        store.end_reply(reply.id, Ending("complete"))
    assert everything(store)[1][1][:-1] == before[1][1][:-1]
    make_room(store)
    assert log.retry() == {} and not log.holds_any
    other = Store.open(place).store
    assert other.rounds(reply.id) == rounds
    other.close()
    assert store.end_reply(reply.id, Ending("complete")).text == "".join(one.round.texts[0] for one in rounds)
    assert ask(place, "PRAGMA integrity_check") == [("ok",)]


def test_a_start_on_a_full_disk_reads_what_is_there_and_says_so(
    store: Store, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk refuses what every start writes first: that a reply was cut."""
    conversation = converse(store, 2)
    reply = store.begin_reply(conversation, store.path(conversation)[0].id, Pair(), SamplingSettings())
    store.append(reply.id, [round_done(0, ["kept"])])
    copy = crash(store, place, tmp_path / "crashed")
    change = Database.change

    @contextmanager
    def refused(database: Database) -> Iterator[None]:
        if database.writable:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise explain(error, database.path) from error
        with change(database):
            yield

    monkeypatch.setattr(Database, "change", refused)
    opened = Store.open(copy)
    assert len(opened.notices) == 1 and "the disk is full" in opened.notices[0]
    assert opened.store.message(reply.id).text == "kept" and opened.store.message(reply.id).state == "cut"
    with pytest.raises(StoreError, match="can only be read"):
        opened.store.create(SETTINGS)
    opened.store.close()


def test_a_first_start_on_a_full_disk_opens_with_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("app.store.store_file._written", refuse)
    opened = Store.open(tmp_path / "c.sqlite")
    assert "the disk is full" in opened.notices[0] and opened.store.conversations() == []
    opened.store.close()


# --- the log ----------------------------------------------------------------------------------


@pytest.fixture
def crashed(store: Store, place: Path, tmp_path: Path) -> Path:
    """A file whose last 30 questions are only in its log."""
    conversation = converse(store, 2)
    store._database.rows("PRAGMA wal_checkpoint (TRUNCATE)")
    for number in range(30):
        store.add_question(conversation, None, f"question {number}")
    return crash(store, place, tmp_path / "crashed")


def logs_aside(place: Path) -> list[Path]:
    return list(place.parent.glob("*.damaged-*-wal"))


@pytest.mark.parametrize("gone", [True, False])
def test_a_log_without_its_database_is_set_aside(crashed: Path, gone: bool) -> None:
    """SQLite would delete it."""
    data = Path(f"{crashed}-wal").read_bytes()
    crashed.unlink()
    if not gone:
        crashed.touch()
    opened = Store.open(crashed)
    (kept,) = logs_aside(crashed)
    assert kept.read_bytes() == data and len(opened.notices) == 1
    converse(opened.store, 1)
    opened.store.close()


# --- two at once ------------------------------------------------------------------------------


def test_two_stores_write_in_turn(store: Store, place: Path) -> None:
    other = Store.open(place).store
    for number in range(6):
        converse(store if number % 2 else other, 1)
    assert everything(store) == everything(other) and len(store.conversations()) == 6
    other.close()
    converse(store, 1)


@pytest.mark.slow
def test_two_processes_that_start_at_once_share_one_file(tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom app.store import Store, database, store_file\n"
        f"database.BUSY_S = store_file.BUSY_S = {HANG_S}\nfrom tests.app.store.toys import converse\n"
        "change = database.Database.change\n"  # rounds wait too, which `ReplyLog` would hold and write later
        "database.Database.change = lambda self, wait=True: change(self)\n"
        "sys.stdin.readline()\nopened = Store.open(Path(sys.argv[1]))\nassert opened.notices == []\n"
        "for n in range(20): converse(opened.store, 1)\nopened.store.close()\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "c.sqlite")]
    pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
    both = [subprocess.Popen(command, cwd=ROOT, text=True, **pipes) for _ in range(2)]
    for process in both:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in both:
        assert process.communicate()[1] == "" and process.returncode == 0
    store = Store.open(tmp_path / "c.sqlite").store
    assert len(store.conversations()) == 40
    store.close()


def test_a_damaged_file_in_use_is_not_taken_away(store: Store, place: Path) -> None:
    place.write_bytes(b"damaged " * 1000)
    with pytest.raises(StoreError, match="in use; close the other Redline"):
        Store.open(place)
    assert place.read_bytes() == b"damaged " * 1000
