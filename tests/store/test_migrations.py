"""Every older version of the file is brought to this one; what is newer or another program's is left alone."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.store import Store, StoreError, schema
from app.store.database import connect, prepare
from app.store.store_file import open_store_file
from tests.store.toys import REPLY, SETTINGS, TEXT, ask, converse, everything


def make_old(place: Path, version: int) -> None:
    """A file as Redline of that version left it, with a conversation of two messages and a third that was cut."""
    place.parent.mkdir(parents=True)
    with closing(connect(place, "rwc")) as connection:
        prepare(connection)
        schema.migrate(connection, version)
        if version:
            connection.executescript(
                """INSERT INTO conversation (title, pinned, created_s, updated_s, shown, settings)
                    VALUES ('Old', 1, 5, 6, 1, '{"system": "Old rules."}');
                INSERT INTO message (conversation, parent, shown, role, state, created_s, text, attachments) VALUES
                    (1, NULL, 2, 'user', 'complete', 5, 'Why is the sea green?', '[{"name": "a", "text": "Algae"}]'),
                    (1, 1, NULL, 'assistant', 'streaming', 6, 'Well', NULL);
                INSERT INTO chunk VALUES (2, 0, ', algae', x'00');
                INSERT INTO preset VALUES ('mine', '{}');"""
            )
        if version in (2, 3):
            connection.executescript(OLD_SEARCH)


OLD_SEARCH = """
    CREATE TABLE passage (
        message INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE, folded TEXT NOT NULL) STRICT;
    CREATE TABLE waiting (message INTEGER PRIMARY KEY REFERENCES passage ON DELETE CASCADE) STRICT;
    CREATE VIRTUAL TABLE found USING fts5 (folded, content = 'passage', content_rowid = 'message',
        tokenize = 'trigram case_sensitive 1', detail = 'none', columnsize = 0);
    INSERT INTO passage VALUES (1, 'why is the sea green?');
    INSERT INTO found (rowid, folded) VALUES (1, 'why is the sea green?');"""


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_a_file_of_every_older_version_opens_with_all_that_is_in_it(place: Path, version: int) -> None:
    make_old(place, version)
    opened = Store.open(place)
    store = opened.store
    assert opened.notices == []
    assert [(c.title, c.pinned, c.settings.system) for c in store.conversations()] == [("Old", True, "Old rules.")]
    assert [(m.text, m.state) for m in store.path(1)] == [
        ("Why is the sea green?", "complete"),
        ("Well, algae", "cut"),
    ]
    assert [hit.message for hit in store.search("algae")] == [2, 1]
    assert list(store.presets()) == ["mine"]
    converse(store, 1)
    assert ask(place, "PRAGMA user_version") == [(schema.VERSION,)]
    assert ask(place, "PRAGMA application_id") == [(schema.APPLICATION_ID,)]
    assert ask(place, "PRAGMA integrity_check") == [("ok",)]
    store.close()


@pytest.mark.parametrize("version", range(1, schema.VERSION))
def test_an_old_file_becomes_what_a_new_one_is(place: Path, tmp_path: Path, version: int) -> None:
    make_old(place, version)
    Store.open(place).store.close()
    Store.open(tmp_path / "new.sqlite").store.close()
    tables = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name"
    assert ask(place, tables) == ask(tmp_path / "new.sqlite", tables)


def test_a_migration_that_fails_halfway_leaves_the_old_version(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(place, 1)
    before = ask(place, "SELECT * FROM message")
    broken = ("CREATE TABLE half (x)", "INSERT INTO nowhere VALUES (1)")
    with closing(connect(place)) as connection, monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (schema.MIGRATIONS[0], broken))
        with pytest.raises(sqlite3.OperationalError):
            schema.migrate(connection)
    assert ask(place, "PRAGMA user_version") == [(1,)]
    assert ask(place, "SELECT * FROM message") == before
    opened = Store.open(place)
    assert opened.notices == [] and len(opened.store.path(1)) == 2
    opened.store.close()


def files(folder: Path) -> dict[str, bytes]:
    """But for what SQLite shares between connections, the lock, the index and backups."""
    ours = (".lock", "-shm", ".search.sqlite", ".search.sqlite-wal")
    kept = (path for path in folder.iterdir() if not path.name.endswith(ours) and ".backup-" not in path.name)
    return {path.name: path.read_bytes() for path in kept}


@pytest.mark.parametrize("logged", [False, True])
def test_a_newer_version_is_refused_and_untouched(place: Path, logged: bool) -> None:
    """logged: what makes it newer is still in its log, as a crash leaves it."""
    store = Store.open(place).store
    converse(store, 2)
    store._database.connection.execute("ALTER TABLE message ADD COLUMN mood TEXT")
    store._database.connection.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    if logged:
        kept = files(place.parent)
        store._database.close()
        for name, data in kept.items():
            (place.parent / name).write_bytes(data)
        assert kept[f"{place.name}-wal"]
    else:
        store.close()
    before = files(place.parent)
    with pytest.raises(StoreError, match=r"newer Redline \(format 5, this one reads up to 4\); update Redline"):
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
    ready = open_store_file(place)
    assert place.stat().st_mode & 0o077 == 0 and place.parent.stat().st_mode & 0o077 == 0
    asked = {name: ready.database.rows(f"PRAGMA {name}")[0][0] for name in SAFE}
    assert asked == SAFE
    ready.database.close()


SAFE = {"journal_mode": "wal", "synchronous": 1, "foreign_keys": 1, "secure_delete": 1, "busy_timeout": 2000}
