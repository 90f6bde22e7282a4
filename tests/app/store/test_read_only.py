"""A file or a folder that can only be read is opened for reading, and says so."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.protocol import Pair, SamplingSettings
from app.store import Store, StoreError
from tests.app.store.toys import REPLY, SETTINGS, TEXT, converse, crash

NOBODY = 65534


@pytest.fixture
def shelf() -> Iterator[Path]:
    """A folder that everybody may enter, for permissions that hold for root too: it becomes nobody meanwhile."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    os.seteuid(os.getuid())
    shutil.rmtree(folder)


def lock_away(folder: Path, mode: int) -> None:
    for path in folder.iterdir():
        path.chmod(mode)
    folder.chmod(0o555)
    if os.getuid() == 0:
        os.seteuid(NOBODY)


@pytest.mark.parametrize("crashed", [False, True])
def test_a_folder_that_can_only_be_read_opens_for_reading(
    store: Store, place: Path, shelf: Path, crashed: bool
) -> None:
    """crashed: half of it is in the log."""
    conversation = converse(store, 2)
    reply = store.begin_reply(conversation, store.path(conversation)[0].id, Pair(), SamplingSettings())
    store.append(reply.id, REPLY)
    if crashed:
        copy = crash(store, place, shelf)
    else:
        store.close()
        copy = Path(shutil.copyfile(place, shelf / place.name))
    lock_away(shelf, 0o444)
    opened = Store.open(copy)
    read = opened.store
    assert len(opened.notices) == 1 and "is read-only" in opened.notices[0]
    assert (read.path(conversation)[1].text, read.path(conversation)[1].state) == (TEXT, "cut")
    assert read.rounds(reply.id) == REPLY
    assert [hit.message for hit in read.search("sky blue", 1)] == [reply.id]
    assert read.export_json(conversation)
    for write in (
        lambda: read.create(SETTINGS),
        lambda: read.add_question(conversation, None, "?"),
        lambda: read.delete(conversation),
        lambda: read.save_preset("x", SETTINGS),
        lambda: read.resume_reply(reply.id),
        lambda: read.import_json('{"format": "redline conversation", "version": 1, "messages": []}'),
    ):
        with pytest.raises(StoreError, match="it can only be read; check the permissions"):
            write()
    read.close()


def test_a_file_that_can_only_be_read_opens_for_reading(store: Store, place: Path, shelf: Path) -> None:
    conversation = converse(store, 1)
    store.close()
    shutil.copyfile(place, shelf / place.name)
    before = (shelf / place.name).read_bytes()
    lock_away(shelf, 0o444)
    os.seteuid(os.getuid())
    shelf.chmod(0o777)  # the folder may be written, the file may not
    if os.getuid() == 0:
        os.seteuid(NOBODY)
    opened = Store.open(shelf / place.name)
    assert "is read-only" in opened.notices[0]
    assert opened.store.path(conversation)[1].text == TEXT
    opened.store.close()
    assert (shelf / place.name).read_bytes() == before


def test_what_cannot_even_be_read_is_refused(store: Store, place: Path, shelf: Path) -> None:
    store.close()
    copy = Path(shutil.copyfile(place, shelf / place.name))
    lock_away(shelf, 0o000)
    for path, said in ((copy, "cannot be read"), (shelf / "new.sqlite", "cannot be created"), (shelf / "a" / "b", "")):
        with pytest.raises(StoreError, match=f"{said}.*; "):
            Store.open(path)


def test_of_a_damaged_file_that_can_only_be_read_what_is_left_is_shown(store: Store, place: Path, shelf: Path) -> None:
    conversation = converse(store, 1)
    store.close()
    damaged = b"\xff" * 16 + place.read_bytes()[16:]
    (shelf / "c.sqlite").write_bytes(damaged)
    lock_away(shelf, 0o444)
    opened = Store.open(shelf / "c.sqlite")
    assert "is read-only" in opened.notices[0] and "1 conversation and 2 messages" in opened.notices[0]
    assert opened.store.path(conversation)[1].text == TEXT
    opened.store.close()
    assert [(path.name, path.read_bytes()) for path in shelf.iterdir()] == [("c.sqlite", damaged)]
