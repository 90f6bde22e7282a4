"""The sidebar: order, names, deletion with undo, and nothing left behind. Presets and values beside it."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from app.protocol import Pair, SamplingSettings
from app.store import Store, StoreError, conversation_store
from app.store.records import Attachment, ChatSettings, Ending
from tests.app.store.toys import SETTINGS, ask, converse, everything, round_done, say


def names(store: Store) -> list[str]:
    return [record.title for record in store.conversations()]


def named(store: Store, *titles: str) -> list[int]:
    ids = [store.create(SETTINGS).id for _ in titles]
    for id, title in zip(ids, titles, strict=True):
        store.rename(id, title)
    return ids


def test_pinned_ones_come_first_then_the_last_changed(store: Store) -> None:
    a, b, _ = named(store, "a", "b", "c")
    assert names(store) == ["c", "b", "a"]
    store.add_question(a, None, "?")
    assert names(store) == ["a", "c", "b"]
    store.pin(b, True)
    assert names(store) == ["b", "a", "c"]
    assert [record.pinned for record in store.conversations()] == [True, False, False]
    store.pin(b, False)
    assert names(store) == ["a", "c", "b"]


def test_a_new_conversation_has_its_settings_and_no_title(store: Store) -> None:
    new = store.create(SETTINGS)
    assert (new.title, new.pinned, new.settings) == ("", False, SETTINGS) and new.created_s == new.updated_s
    changed = ChatSettings(system="Other", sampling=SamplingSettings(draft_length=0))
    store.change_settings(new.id, changed)
    assert store.conversation(new.id).settings == changed
    assert store.conversations() == [store.conversation(new.id)]


def test_a_title_is_one_short_line(store: Store) -> None:
    (id,) = named(store, f"  two\nlines\t{'x' * 500}\ud800")
    title = store.conversation(id).title
    assert title.startswith("two lines xxx") and len(title) == 200


def test_a_title_that_is_cut_between_two_words_can_be_imported_again(store: Store) -> None:
    """The cut leaves no blank at its end, which the import would take for no title."""
    (id,) = named(store, "a" * 199 + " bc")
    assert store.conversation(id).title == "a" * 199
    assert store.import_json(store.export_json(id)).title == "a" * 199


def test_a_deletion_is_undone_whole(store: Store) -> None:
    kept, deleted = converse(store, 1), converse(store, 3)
    before = everything(store)
    store.delete(deleted)
    assert [record.id for record in store.conversations()] == [kept]
    store.undelete(deleted)
    assert everything(store) == before


def test_a_purged_conversation_is_gone_for_good(store: Store, place: Path) -> None:
    kept, deleted = converse(store, 2), converse(store, 2)
    before = store.path(kept)
    assert store.search("sky")  # which makes all messages searchable
    store.delete(deleted)
    assert store.purge() == 1
    assert store.purge() == 0
    for wrong in (store.undelete, store.path, store.export_json):
        with pytest.raises(StoreError, match=f"conversation {deleted} no longer exists"):
            wrong(deleted)
    assert store.path(kept) == before
    counts = ", ".join(f"(SELECT count(*) FROM {table})" for table in ("message", "rounds", "folded"))
    assert ask(place, f"SELECT {counts}") == [(4, 2, 4)]


def test_ids_are_never_used_again(store: Store) -> None:
    first = converse(store, 1)
    last = store.path(first)[-1].id
    store.delete(first)
    store.purge()
    again = converse(store, 1)
    assert again > first and store.path(again)[0].id > last


def test_purged_text_is_nowhere_in_the_files(place: Path) -> None:
    store = Store.open(place).store
    converse(store, 3)
    conversation = store.create(ChatSettings(system="qzjsystemq")).id
    store.rename(conversation, "qzjtitleq")
    files = [Attachment(name="qzjnameq", text="qzjfileq " * 3000)]
    question = store.add_question(conversation, None, "qzjquestionq " * 50, files)
    say(store, conversation, question.id, [round_done(0, ["qzjreplyq"])])
    store.close()
    assert len(list(place.parent.glob("*.backup-*"))) == 1
    store = Store.open(place).store
    secret = b"qzj"  # what a trigram is made of
    assert secret in on_disk(place)
    store.delete(conversation)
    store.purge()
    assert secret not in on_disk(place)
    store.close()
    assert secret not in on_disk(place)


def test_purging_waits_for_whoever_empties_the_log(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite refuses to erase a log that another connection empties, and does not wait for that."""
    waited = list[str]()
    emptying = SimpleNamespace(start=lambda: None, join=lambda: waited.append("for its end"))
    monkeypatch.setattr("app.store.database.threading", SimpleNamespace(Thread=lambda **_: emptying))
    monkeypatch.setattr(conversation_store, "APPENDS", 1)
    conversation = converse(store, 1)
    store.delete(conversation)
    assert store.purge() == 1 and waited


def on_disk(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.parent.iterdir())


def test_closing_purges_and_the_next_start_does_after_a_crash(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(place).store
    store.delete(converse(store, 1))
    store.close()
    store.close()
    assert ask(place, "SELECT count(*) FROM conversation") == [(0,)]
    store = Store.open(place).store
    conversation = converse(store, 1)
    store.delete(conversation)
    store._database.close()  # as a crash leaves it
    for undo_s, left in ((conversation_store.UNDO_S, 1), (0.0, 0)):
        monkeypatch.setattr("app.store.conversation_store.UNDO_S", undo_s)
        store = Store.open(place).store
        assert ask(place, "SELECT count(*) FROM conversation") == [(left,)]
        store._database.close()


@pytest.mark.parametrize("clock_s", [0.0, 1.5e9, 4e9], ids=["1970", "years back", "years ahead"])
def test_a_deletion_by_a_wrong_clock_is_new_when_the_clock_is_right(
    place: Path, monkeypatch: pytest.MonkeyPatch, clock_s: float
) -> None:
    """A crash keeps `close` from purging it."""
    store = Store.open(place).store
    kept = store.create(SETTINGS).id
    with monkeypatch.context() as wrong:
        wrong.setattr("app.store.conversation_store.time.time", lambda: clock_s)
        store.delete(kept)
    store._database.close()
    store = Store.open(place).store
    store.undelete(kept)
    store.delete(kept)
    assert store.purge(600.0) == 0 and store.purge() == 1
    store.close()


def test_a_conversation_that_streams_is_purged_when_it_has_ended(store: Store) -> None:
    conversation = store.create(SETTINGS).id
    reply = store.begin_reply(conversation, store.add_question(conversation, None, "?").id, Pair(), SamplingSettings())
    store.delete(conversation)
    assert store.purge() == 0
    store.append(reply.id, [round_done(0, ["x"])])
    store.end_reply(reply.id, Ending("stopped"))
    assert store.purge() == 1


def test_presets_are_kept_by_name(store: Store, place: Path) -> None:
    assert store.presets() == {}
    store.save_preset(" creative ", SETTINGS)
    store.save_preset("Bold", ChatSettings())
    store.save_preset("creative", ChatSettings(system="x"))
    assert list(store.presets().items()) == [("Bold", ChatSettings()), ("creative", ChatSettings(system="x"))]
    store.delete_preset("Bold")
    store.delete_preset("never there")
    other = Store.open(place).store
    assert other.presets() == {"creative": ChatSettings(system="x")}
    other.close()
    with pytest.raises(StoreError, match="needs a name"):
        store.save_preset(" \n", SETTINGS)


def test_values_are_kept_by_key(store: Store) -> None:
    assert store.value("window") is None
    store.set_value("window", "a\0b 🙂")
    store.set_value("other", "")
    store.set_value("window", "c")
    assert (store.value("window"), store.value("other")) == ("c", "")


def test_a_damaged_field_takes_nothing_with_it(store: Store) -> None:
    conversation = converse(store, 1)
    for table, column in (("message", "statistics"), ("message", "attachments"), ("conversation", "settings")):
        store._database.connection.execute(f"UPDATE {table} SET {column} = '{{\"broken'")
    question, reply = store.path(conversation)
    assert (reply.statistics, reply.sampling, reply.pair) == (None, SETTINGS.sampling, SETTINGS.pair)
    assert "damaged" in reply.note
    assert question.attachments == (Attachment(name="damaged attachments", text='{"broken'),)
    assert store.conversations()[0].settings == ChatSettings()
