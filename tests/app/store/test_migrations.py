"""Every older version of the file is brought to this one; what is newer or another program's is left alone."""

import errno
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from filelock import FileLock

from app.store import Store, StoreError
from app.store.database import APPLICATION_ID, VERSION, connect, prepare
from app.store.round_encoding import pack
from app.store.store_file import open_store_file
from tests.app.store.toys import REPLY, SETTINGS, TEXT, ask, converse, everything

# The tables of version 1, to the letter.
OLD_TABLES = """
    CREATE TABLE conversation (
        id INTEGER PRIMARY KEY AUTOINCREMENT, title TEXT NOT NULL,
        pinned INTEGER NOT NULL CHECK (pinned IN (0, 1)), created_s REAL NOT NULL, updated_s REAL NOT NULL,
        deleted_s REAL, shown INTEGER, settings TEXT NOT NULL) STRICT;
    CREATE TABLE message (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation INTEGER NOT NULL REFERENCES conversation ON DELETE CASCADE,
        parent INTEGER CHECK (parent < id), shown INTEGER CHECK (shown > id),
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        state TEXT NOT NULL CHECK (state IN ('complete', 'stopped', 'cut', 'failed', 'streaming')),
        created_s REAL NOT NULL, note TEXT NOT NULL DEFAULT '', tail TEXT NOT NULL DEFAULT '',
        statistics TEXT, pair TEXT, law TEXT, text TEXT NOT NULL, attachments TEXT) STRICT;
    CREATE INDEX family ON message (conversation, parent);
    CREATE INDEX streaming ON message (id) WHERE state = 'streaming';
    CREATE TABLE chunk (
        message INTEGER NOT NULL REFERENCES message ON DELETE CASCADE, number INTEGER NOT NULL,
        text TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (message, number)) STRICT, WITHOUT ROWID;
    CREATE TABLE spans (message INTEGER PRIMARY KEY REFERENCES message ON DELETE CASCADE, data BLOB NOT NULL) STRICT;
    CREATE TABLE preset (name TEXT PRIMARY KEY, settings TEXT NOT NULL) STRICT, WITHOUT ROWID;
    CREATE TABLE value (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"""
RECEIPTS = "".join(f"ALTER TABLE message ADD COLUMN {name} TEXT;" for name in ("system", "prompt", "receipt"))
THOUGHTS = "ALTER TABLE message ADD COLUMN thought TEXT;"


def make_old(place: Path, version: int) -> None:
    """A file as Redline of that version left it, with a reply that had been continued and a second that was cut."""
    place.parent.mkdir(parents=True)
    with closing(connect(place, "rwc")) as connection:
        prepare(connection)
        connection.executescript(f"{OLD_TABLES} {RECEIPTS if version > 2 else ''} {THOUGHTS if version > 5 else ''}")
        connection.executescript(f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}")
        connection.executescript(
            """INSERT INTO conversation (title, pinned, created_s, updated_s, shown, settings)
                VALUES ('Old', 1, 5, 6, 1, '{"system": "Old rules."}');
            INSERT INTO message (conversation, parent, shown, role, state, created_s, text, attachments) VALUES
                (1, NULL, 2, 'user', 'complete', 5, 'Why is the sea green?', '[{"name": "a", "text": "Algae"}]'),
                (1, 1, NULL, 'assistant', 'streaming', 6, 'The', NULL);
            INSERT INTO preset VALUES ('mine', '{}');"""
        )
        connection.execute("INSERT INTO spans VALUES (2, ?)", (msgspec.msgpack.encode([pack(REPLY[:1])]),))
        connection.execute("INSERT INTO chunk VALUES (2, 0, ' sky is blue', ?)", (pack(REPLY[1:2]),))
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


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_file_of_every_older_version_opens_with_all_that_is_in_it(place: Path, version: int) -> None:
    make_old(place, version)
    before = ask(place, "SELECT * FROM message")
    opened = Store.open(place)
    store = opened.store
    assert opened.notices == []
    assert [(c.title, c.pinned, c.settings.system) for c in store.conversations()] == [("Old", True, "Old rules.")]
    assert [(m.text, m.state) for m in store.path(1)] == [
        ("Why is the sea green?", "complete"),
        ("The sky is blue", "cut"),
    ]
    assert store.rounds(2) == REPLY[:2]
    assert [hit.message for hit in store.search("algae")] == [1]
    assert list(store.presets()) == ["mine"]
    assert [ask(old, "SELECT * FROM message") for old in place.parent.glob("*.backup-*")] == [before]
    converse(store, 1)
    assert ask(place, "PRAGMA user_version") == [(VERSION,)]
    assert ask(place, "PRAGMA integrity_check") == [("ok",)]
    store.close()


def test_an_upgrade_that_fails_halfway_leaves_the_old_file(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_old(place, 4)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("app.store.store_file._written", full)
        opened = Store.open(place)
        assert "the disk is full" in opened.notices[0] and len(opened.store.path(1)) == 2
        opened.store.close()
    assert ask(place, "PRAGMA user_version") == [(4,)] and len(ask(place, "SELECT * FROM message")) == 2
    opened = Store.open(place)
    assert opened.notices == [] and len(opened.store.path(1)) == 2
    opened.store.close()


def test_an_older_file_that_is_in_use_is_left_alone(place: Path) -> None:
    make_old(place, 4)
    with FileLock(f"{place}.lock"), pytest.raises(StoreError, match="in use by an older Redline; close it first"):
        Store.open(place)
    assert ask(place, "PRAGMA user_version") == [(4,)]


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
        StoreError, match=rf"newer Redline \(format {VERSION + 1}, this one reads up to {VERSION}\); update Redline"
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
