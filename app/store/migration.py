"""Brings a store of an older version to this one, and copies tables from one store into another."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from app.store.database import TABLES, new_store


def upgrade(image: bytes) -> sqlite3.Connection:
    """Returns a store of this version in memory with everything that is in a sound store of an older one."""
    store = new_store()
    with attached(store, image):
        copy_tables(store)
        # Up to version 4 the rounds of a reply that had ended were one blob, and those of others had their texts.
        store.execute("INSERT INTO rounds SELECT message, 0, data FROM other.spans")
        store.execute("INSERT INTO rounds SELECT message, number + 1, data FROM other.chunk")
        texts = "SELECT text FROM other.chunk WHERE message = main.message.id ORDER BY number"
        text = f"text || coalesce((SELECT group_concat(text, '') FROM ({texts})), '')"
        store.execute(f"UPDATE main.message SET text = {text} WHERE state = 'streaming'")
    return store


@contextmanager
def attached(store: sqlite3.Connection, image: bytes) -> Iterator[None]:
    """Attaches another store as `other`."""
    store.execute("ATTACH ':memory:' AS other")
    store.deserialize(image, name="other")
    try:
        yield
    finally:
        store.execute("DETACH other")


def copy_tables(store: sqlite3.Connection) -> None:
    """Copies what is missing from the store that is attached, which may be of an older version."""
    for table in TABLES:
        columns = ", ".join(row[1] for row in store.execute(f"PRAGMA other.table_info ({table})"))
        if columns:
            store.execute(f"INSERT OR IGNORE INTO {table} ({columns}) SELECT {columns} FROM other.{table}")
