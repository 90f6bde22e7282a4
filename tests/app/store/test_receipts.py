"""Receipts stay with their replies: over restarts, exports and damage; what a file claims is not taken for checked."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.store import Store, StoreError
from app.store.records import Ending, StoredReceipt
from engine.audit.receipt import Difference, Receipt
from tests.app.store.toys import REPLY, SETTINGS, converse, round_done, say, statistics_of

TOKENS = sum(len(one.round.tokens) for one in REPLY)
SAME = StoredReceipt(receipt=Receipt(TOKENS), made_s=1_700_000_000.0, redline="0.1.0")
NEAR = Difference(2, 11, 12, 1.0, 3.5, near_tie=True, plain_text=" the", other_text=" a")
FAILED = Difference(4, 12, 11, 900.5, 2.0, near_tie=False, plain_text="é", other_text="")
DIFFERS = StoredReceipt(receipt=Receipt(TOKENS, (NEAR, FAILED)), made_s=1_700_000_001.0, redline="0.1.0")
SAMPLED = StoredReceipt(receipt=Receipt(TOKENS, (), "distribution"), made_s=1.0)


def stored(store: Store, *kept: StoredReceipt) -> list[int]:
    """A conversation whose replies have these receipts; their ids."""
    conversation = converse(store, len(kept))
    replies = [record.id for record in store.path(conversation) if record.role == "assistant"]
    for reply, receipt in zip(replies, kept, strict=True):
        store.save_receipt(reply, receipt)
    return replies


def test_a_receipt_is_there_at_the_next_start_and_the_newest_counts(store: Store, place: Path) -> None:
    replies = stored(store, SAME, DIFFERS, SAMPLED)
    assert store.save_receipt(replies[0], DIFFERS).receipt == DIFFERS
    store.close()
    store = Store.open(place).store
    assert [store.message(reply).receipt for reply in replies] == [DIFFERS, DIFFERS, SAMPLED]
    assert [record.receipt for record in store.path(1) if record.role == "user"] == [None] * 3


def test_only_replies_have_receipts(store: Store) -> None:
    stored(store, SAME)
    with pytest.raises(StoreError, match="only a reply can be verified"):
        store.save_receipt(store.path(1)[0].id, SAME)
    with pytest.raises(StoreError, match="message 99 no longer exists"):
        store.save_receipt(99, SAME)
    assert store.path(1)[0].receipt is None


def test_a_reply_that_goes_on_keeps_its_receipt_which_is_stale(store: Store) -> None:
    (reply,) = stored(store, SAME)
    assert not store.message(reply).stale
    store.resume_reply(reply)
    store.end_reply(reply, Ending("stopped", statistics_of(REPLY)))
    assert not store.message(reply).stale  # it has not grown
    store.resume_reply(reply)
    more = [round_done(3, [" More"])]
    store.append(reply, more)
    ended = store.end_reply(reply, Ending("complete", statistics_of([*REPLY, *more])))
    assert ended.receipt == SAME and ended.stale


def test_what_a_check_needs_of_the_prompt_is_kept(place: Path) -> None:
    store = Store.open(place).store
    conversation = store.create(SETTINGS).id
    question = store.add_question(conversation, None, "Why?")
    reply = store.begin_reply(conversation, question.id, SETTINGS.pair, SETTINGS.sampling, "Be brief.")
    store.change_settings(conversation, replace(SETTINGS, system="Be long."))
    store.end_reply(reply.id, Ending("stopped", prompt="00ff"))
    store.resume_reply(reply.id)
    assert (store.message(reply.id).system, store.message(reply.id).prompt) == ("Be brief.", "00ff")
    assert store.end_reply(reply.id, Ending("complete", prompt="another day")).prompt == "00ff"
    other = say(store, conversation, question.id)
    assert (other.system, other.prompt) == (None, "")
    store.close()


# --- exports ------------------------------------------------------------------------------------


def test_an_export_has_receipts_and_an_import_knows_that_they_are_claims(store: Store, place: Path) -> None:
    replies = stored(store, SAME, DIFFERS, SAMPLED)
    exported = store.export_json(1)
    assert [m["receipt"] and m["receipt"]["receipt"]["tokens"] for m in json.loads(exported)["messages"]][1::2] == [
        6
    ] * 3
    found = [record for record in store.path(store.import_json(exported).id) if record.role == "assistant"]
    assert [record.receipt for record in found] == [replace(kept, elsewhere=True) for kept in (SAME, DIFFERS, SAMPLED)]
    assert all(not record.stale for record in found)
    assert store.message(replies[0]).receipt == SAME


# --- damage -------------------------------------------------------------------------------------


def test_a_reply_whose_rounds_are_damaged_is_exported_without_its_receipt(store: Store) -> None:
    """Which is of them: a document that has the one without the other is refused whole."""
    replies = stored(store, SAME, DIFFERS)
    with store._database.change():
        store._database.run("UPDATE rounds SET data = ? WHERE message = ?", b"{", replies[0])
    exported = json.loads(store.export_json(1))
    assert [bool(message["receipt"]) for message in exported["messages"][1::2]] == [False, True]
    found = store.path(store.import_json(json.dumps(exported)).id)
    assert [record.text for record in found] == [record.text for record in store.path(1)]
