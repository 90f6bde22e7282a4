"""A file of an older format is set aside whole; one of a newer format, or another program's, is left alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from filelock import FileLock

from app.store import Store, StoreError
from app.store.database import VERSION
from app.store.store_file import open_store_file
from tests.app.store.toys import REPLY, SETTINGS, TEXT, ask, converse, crash, everything


def make_outdated(store: Store) -> None:
    """Gives an open store the tables of no present format."""
    store._database.connection.execute("ALTER TABLE message RENAME COLUMN sampling TO law")
    store._database.connection.execute(f"PRAGMA user_version = {VERSION - 1}")


@pytest.mark.parametrize("logged", [False, True])
def test_a_file_of_an_older_format_is_set_aside_whole(store: Store, place: Path, tmp_path: Path, logged: bool) -> None:
    """logged: what makes it older is still in its log, as a crash leaves it."""
    converse(store, 2)
    make_outdated(store)
    old = crash(store, place, tmp_path / "crashed") if logged else place
    store.close()
    before = ask(place, "SELECT * FROM message")
    opened = Store.open(old)
    (aside,) = old.parent.glob("*.outdated-*.sqlite")
    assert len(opened.notices) == 1 and aside.name in opened.notices[0]
    assert f"older version of Redline (format {VERSION - 1}, this one reads {VERSION})" in opened.notices[0]
    assert opened.store.conversations() == [] and len(ask(aside, "SELECT * FROM message")) == len(before) == 4
    converse(opened.store, 1)
    opened.store.close()
    assert Store.open(old).notices == [] and ask(aside, "SELECT * FROM message") == before


def test_a_file_of_an_older_format_that_is_in_use_is_left_alone(store: Store, place: Path) -> None:
    converse(store, 1)
    make_outdated(store)
    store.close()
    with FileLock(f"{place}.lock"), pytest.raises(StoreError, match=r"older version of Redline .*; close that Redline"):
        Store.open(place)
    assert len(ask(place, "SELECT law FROM message")) == 2


def files(folder: Path) -> dict[str, bytes]:
    """But for what SQLite shares between connections, the lock and backups."""
    ours = (".lock", "-shm")
    kept = (path for path in folder.iterdir() if not path.name.endswith(ours) and ".backup-" not in path.name)
    return {path.name: path.read_bytes() for path in kept}


@pytest.mark.parametrize("logged", [False, True])
def test_a_newer_version_is_refused_and_untouched(place: Path, logged: bool) -> None:
    """logged: what makes it newer is still in its log, as a crash leaves it."""
    store = Store.open(place).store
    converse(store, 2)
    store._database.connection.execute("ALTER TABLE message ADD COLUMN mood TEXT")
    store._database.connection.execute(f"PRAGMA user_version = {VERSION + 1}")
    if logged:
        kept = files(place.parent)
        store._database.close()
        for name, data in kept.items():
            (place.parent / name).write_bytes(data)
        assert kept[f"{place.name}-wal"]
    else:
        store.close()
    before = files(place.parent)
    with pytest.raises(
        StoreError, match=rf"newer Redline \(format {VERSION + 1}, this one reads {VERSION}\); update Redline"
    ):
        Store.open(place)
    assert {name: data for name, data in files(place.parent).items() if data} == {n: d for n, d in before.items() if d}


def test_the_database_of_another_program_is_refused_and_untouched(place: Path) -> None:
    place.parent.mkdir()
    with closing(sqlite3.connect(place)) as connection:
        connection.execute("CREATE TABLE message (id)")
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    before = files(place.parent)
    with pytest.raises(StoreError, match="belongs to another program"):
        Store.open(place)
    assert files(place.parent) == before


def test_what_is_kept_survives_a_restart(place: Path) -> None:
    store = Store.open(place).store
    conversation = converse(store, 2)
    store.save_preset("mine", SETTINGS)
    before = everything(store)
    store.close()
    again = Store.open(place)
    assert again.notices == []
    assert everything(again.store) == before
    assert again.store.rounds(again.store.path(conversation)[-1].id) == REPLY
    assert again.store.path(conversation)[-1].text == TEXT
    again.store.close()


def test_the_file_is_for_its_user_alone_and_its_settings_are_safe(place: Path) -> None:
    database, _ = open_store_file(place)
    assert place.stat().st_mode & 0o077 == 0 and place.parent.stat().st_mode & 0o077 == 0
    asked = {name: database.rows(f"PRAGMA {name}")[0][0] for name in SAFE}
    assert asked == SAFE
    database.close()


SAFE = {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "secure_delete": 1, "busy_timeout": 2000}
