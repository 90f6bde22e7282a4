"""A damaged file is set aside whole, said, never overwritten; what can be read of it is in the new one."""

import os
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from app.store import OpenResult, Store, StoreError
from app.store.recovery import LOST_NOTE, LOST_TITLE
from tests.app.store.toys import SETTINGS, TEXT, ask, converse, everything, prose, round_done, say
from tests.attack.store import PAGE, Target, attack, texts_of


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of some 300 pages, closed: twelve conversations, one of them long."""
    place = tmp_path_factory.mktemp("whole") / "conversations.sqlite"
    store = Store.open(place).store
    for number in range(12):
        conversation = converse(store, 60 if number == 5 else 3, prose(number, 150))
        store.rename(conversation, f"Conversation {number}")
    store.save_preset("mine", SETTINGS)
    store.close()
    return place


@pytest.fixture
def damaged(whole: Path, place: Path) -> Path:
    """A copy to damage."""
    place.parent.mkdir()
    shutil.copyfile(whole, place)
    return place


def aside(place: Path) -> list[Path]:
    return sorted(place.parent.glob("*.damaged-*.sqlite"))


def reopen(place: Path) -> OpenResult:
    """Opened, good for use, and whole."""
    opened = Store.open(place)
    conversation = converse(opened.store, 1, "after the damage")
    assert opened.store.path(conversation)[-1].text == TEXT
    assert opened.store.search("after the damage")
    assert ask(place, "PRAGMA integrity_check") == [("ok",)]
    assert ask(place, "PRAGMA foreign_key_check") == []
    return opened


def texts(place: Path) -> set[str]:
    """Of all questions, whichever are shown."""
    return {text for (text,) in ask(place, "SELECT text FROM message WHERE role = 'user'")}


def overwrite(place: Path, at: int, data: bytes) -> None:
    with place.open("r+b") as file:
        file.seek(at)
        file.write(data)


WRONG: dict[str, Callable[[Path], object]] = {
    "random bytes": lambda place: place.write_bytes(random.Random(1).randbytes(50_000)),
    "nothing in it": lambda place: place.write_bytes(b""),
    "a header alone": lambda place: place.write_bytes(place.read_bytes()[:100]),
    "zeros": lambda place: place.write_bytes(bytes(place.stat().st_size)),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_database_is_set_aside_as_it_is(damaged: Path, wrong: str) -> None:
    WRONG[wrong](damaged)
    before = damaged.read_bytes()
    opened = reopen(damaged)
    (kept,) = aside(damaged)
    assert kept.read_bytes() == before
    assert len(opened.notices) == 1 and kept.name in opened.notices[0] and "damaged" in opened.notices[0]
    assert len(opened.store.conversations()) == 1
    opened.store.close()


def test_a_folder_in_its_place_is_set_aside(place: Path) -> None:
    place.mkdir(parents=True)
    (place / "inside").write_text("kept")
    opened = reopen(place)
    (kept,) = aside(place)
    assert (kept / "inside").read_text() == "kept"
    assert "it is a folder" in opened.notices[0]
    opened.store.close()


def test_a_damaged_header_costs_nothing(damaged: Path, whole: Path) -> None:
    store = Store.open(whole).store
    wanted = everything(store)
    store.close()
    overwrite(damaged, 0, b"\xff" * 16)
    opened = Store.open(damaged)
    assert everything(opened.store) == wanted
    assert "Recovered: 12 conversations and 186 messages." in opened.notices[0]
    assert len(opened.store.search("sky is blue today", 200)) == 93
    opened.store.close()


@pytest.mark.parametrize("part", [0.02, 0.5, 0.98])
def test_of_a_file_cut_short_what_is_left_is_saved(damaged: Path, part: float) -> None:
    size = int(damaged.stat().st_size * part)
    os.truncate(damaged, size)
    before = damaged.read_bytes()
    opened = reopen(damaged)
    (kept,) = aside(damaged)
    assert kept.read_bytes() == before
    assert len(opened.notices) == 1
    if part >= 0.5:
        assert len(texts(damaged)) > 20
    opened.store.close()


def lose_rows(place: Path, sql: str) -> None:
    """As a lost page would, in a file that must be recovered."""
    connection = sqlite3.connect(place)
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute(sql)
    connection.commit()
    connection.close()
    overwrite(place, 0, b"\xff" * 16)


def test_a_lost_message_keeps_its_place_in_the_tree(damaged: Path) -> None:
    lose_rows(damaged, "DELETE FROM message WHERE id IN (2, 3)")
    opened = Store.open(damaged)
    path = opened.store.path(1)
    assert [record.id for record in path] == [1, 3, 4, 5, 6]  # of what 2 was nothing tells any more
    assert (path[1].role, path[1].text, path[1].state, path[1].note) == ("user", "", "failed", LOST_NOTE)
    assert "Some of it could not be read" in opened.notices[0]
    opened.store.close()


def test_a_lost_conversation_comes_back_without_its_name(damaged: Path) -> None:
    lose_rows(damaged, "DELETE FROM conversation WHERE id = 6")
    opened = Store.open(damaged)
    assert opened.store.conversation(6).title == LOST_TITLE
    assert len(opened.store.path(6)) == 120
    opened.store.close()


@pytest.mark.slow_for("UPDATE conversation SET shown*", "UPDATE message SET conversation*", "UPDATE sqlite*", "DELETE*")
@pytest.mark.parametrize(
    "wrong",
    [
        "UPDATE conversation SET shown = 3 WHERE id = 2",
        "UPDATE message SET parent = NULL, shown = NULL WHERE id = 3",
        "UPDATE message SET conversation = 1 << 60 WHERE id = 3",
        "DELETE FROM message WHERE id = 2",
        "UPDATE sqlite_sequence SET seq = 1 << 62",
        "UPDATE conversation SET deleted_s = 5 WHERE id = 1",
    ],
)
def test_messages_that_contradict_each_other_are_repaired_in_a_new_file(damaged: Path, wrong: str) -> None:
    with closing(sqlite3.connect(damaged)) as connection, connection:
        connection.execute(wrong)
    opened = reopen(damaged)
    assert "contradict" in opened.notices[0] and len(aside(damaged)) == 1
    assert len(texts(damaged)) == 94 and len(opened.store.path(6)) == 120
    opened.store.close()


def test_nothing_that_was_set_aside_is_ever_overwritten(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.store.store_file.time.strftime", lambda pattern: "20300101-120000")
    place.parent.mkdir()
    for number in range(3):
        place.write_bytes(b"damaged %d" % number)
        Path(f"{place}-wal").write_bytes(b"log %d" % number)
        Store.open(place).store.close()
    kept = {path.name: path.read_bytes() for path in place.parent.glob("*.damaged-*")}
    stem = "conversations.damaged-20300101-120000"
    assert {name: data for name, data in kept.items() if not name.endswith("-shm")} == {
        f"{stem}{again}.sqlite{beside}": data % number
        for number, again in enumerate(("", "-2", "-3"))
        for beside, data in (("", b"damaged %d"), ("-wal", b"log %d"))
    }


def test_damage_met_in_use_is_repaired_at_the_next_start(damaged: Path) -> None:
    store = Store.open(damaged).store
    rounds = [round_done(n, [f" {n * 7919 % 9973}"]) for n in range(9_000)]
    long = say(store, 1, 1, rounds).id
    store.close()
    store = Store.open(damaged).store
    (blob,) = ask(damaged, f"SELECT data FROM rounds WHERE message = {long}")[0]
    place = next(at for at in range(9000, 12000, 20) if blob[at : at + 20] in damaged.read_bytes())
    overwrite(damaged, damaged.read_bytes().index(blob[place : place + 20]) // PAGE * PAGE, bytes(PAGE))
    store._database.rows("PRAGMA shrink_memory")  # it has read the page before
    with pytest.raises(StoreError, match="damaged"):
        store.rounds(long)
    assert len(store.path(1)) == 2
    store.close()
    opened = reopen(damaged)
    assert len(aside(damaged)) == 1 and "12 conversations and 187 messages" in opened.notices[0]
    assert opened.store.rounds(long) == []
    opened.store.close()


# --- anywhere: the whole of it is a measurement, `python -m tests.attack store` ---------------


@pytest.mark.slow
def test_damage_costs_nothing_that_can_be_read() -> None:
    assert attack(seed=1, short=True) == []


@pytest.mark.slow
def test_what_was_on_damaged_pages_in_both_copies_comes_from_the_backup(tmp_path: Path) -> None:
    target = Target(tmp_path)
    place, data = tmp_path / "c.sqlite", target.data
    place.write_bytes(data)
    Store.open(place).store.close()
    assert len(list(tmp_path.glob("c.backup-*"))) == 1
    for name in list(target.pages)[::8]:
        damaged = bytearray(data)
        for page in target.pages[name]:
            damaged[page * PAGE : (page + 1) * PAGE] = bytes(PAGE)
        place.write_bytes(damaged)
        store, notices = Store.open(place)
        assert len(notices) == 1 and texts_of(store) == set(target.wanted.values())
        store.close()
