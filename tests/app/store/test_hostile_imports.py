"""A document that is no sound conversation is refused in one line, and nothing changes."""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from app.store import Store, StoreError, json_export
from tests.app.host.mutation import with_another_value
from tests.app.store.test_receipts import DIFFERS, TOKENS
from tests.app.store.toys import converse, everything

Edit = Callable[[dict[str, Any]], object]


def reply(d: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = d["messages"][1]
    return found


def a_round(d: dict[str, Any]) -> dict[str, Any]:
    """A chain of three, two of them accepted, then a correction."""
    found: dict[str, Any] = reply(d)["rounds"][1]["round"]
    return found


def receipt_in(document: dict[str, Any]) -> dict[str, Any]:
    """That of the reply with two differences."""
    found: dict[str, Any] = document["messages"][1]["receipt"]["receipt"]
    return found


def first_of(document: dict[str, Any]) -> dict[str, Any]:
    """Its near-tie."""
    found: dict[str, Any] = receipt_in(document)["differences"][0]
    return found


EDITS: dict[str, Edit] = {
    "no format": lambda d: d.pop("format"),
    "a newer version": lambda d: d.update(version=2),
    "no messages": lambda d: d.pop("messages"),
    "a message that is none": lambda d: d["messages"].append(7),
    "an unknown role": lambda d: reply(d).update(role="system"),
    "an unknown state": lambda d: reply(d).update(state="streaming"),
    "a title of two lines": lambda d: d.update(title="a\nb"),
    "a parent that comes later": lambda d: d["messages"][0].update(parent=1),
    "a reply to nothing": lambda d: reply(d).update(parent=None),
    "a reply to a reply": lambda d: d["messages"][3].update(parent=1),
    "a child of another": lambda d: d["messages"][0].update(shown=2),
    "a first that is none": lambda d: d.update(shown=1),
    "an attachment without a name": lambda d: d["messages"][0].update(attachments=[{"text": "x"}]),
    "a question with rounds": lambda d: d["messages"][0].update(rounds=reply(d)["rounds"]),
    "rounds that say something else": lambda d: reply(d).update(text="The sea"),
    "fewer probabilities than tokens": lambda d: a_round(d)["p"].pop(),
    "fewer q than drafted": lambda d: a_round(d)["q"].pop(),
    "more accepted than drafted": lambda d: a_round(d).update(accepted=4),
    "drafted texts of another draft": lambda d: reply(d)["rounds"][1]["drafted_texts"].pop(),
    "a token of more than 64 bits": lambda d: a_round(d)["tokens"].__setitem__(0, 2**70),
    "a probability above one": lambda d: a_round(d)["p"].__setitem__(0, 1.5),
    "a time without end": lambda d: a_round(d).update(draft_s=1e300),
    "a tree with a cycle": lambda d: a_round(d).update(parents=[1, 0, -1], path=[0, 1]),
    "a path that leaves the tree": lambda d: a_round(d).update(parents=[-1, 0, 0], path=[0, 7]),
    "an unknown acceptance rule": lambda d: d["settings"]["sampling"].update(acceptance="typical"),
    "an endless reply": lambda d: d["settings"]["sampling"].update(max_tokens=2**40),
    "an impossible seed": lambda d: reply(d)["sampling"].update(seed=2**64),
    "an impossible context": lambda d: reply(d)["pair"].update(context=0),
    "impossible counts": lambda d: reply(d)["statistics"].update(tokens=2**40),
    "an impossible count of plain rounds": lambda d: reply(d)["statistics"].update(plain_rounds=-1),
    "a plain step without end": lambda d: reply(d)["statistics"].update(plain_s=1e300),
    "of more tokens than there are": lambda d: receipt_in(d).update(tokens=TOKENS + 1),
    "a promise of its own": lambda d: receipt_in(d).update(promise="everything"),
    "differences out of order": lambda d: receipt_in(d)["differences"].reverse(),
    "a difference after the reply": lambda d: receipt_in(d)["differences"][1].update(position=TOKENS + 1),
    "a huge token": lambda d: first_of(d).update(other_token=10**30),
    "a token that differs from itself": lambda d: first_of(d).update(plain_token=12),
    "a token of a megabyte": lambda d: first_of(d).update(other_text="x" * 2**20),
    "a near-tie beyond its noise": lambda d: first_of(d).update(gap_ulps=1000.0),
    "a receipt for a question": lambda d: d["messages"][0].update(receipt=d["messages"][1]["receipt"]),
    "a receipt for a reply without rounds": lambda d: d["messages"][1].update(rounds=[]),
    "a version without end": lambda d: d["messages"][1]["receipt"].update(redline="1." * 10_000),
}  # fmt: skip


@pytest.fixture
def exported(store: Store) -> dict[str, Any]:
    """Two questions and replies, the first reply verified."""
    conversation = converse(store, 2)
    store.save_receipt(store.path(conversation)[1].id, DIFFERS)
    found: dict[str, Any] = json.loads(store.export_json(conversation))
    return found


def refused(store: Store, text: str) -> str:
    before = everything(store)
    with pytest.raises(StoreError) as caught:
        store.import_json(text)
    assert everything(store) == before
    said = str(caught.value)
    assert "\n" not in said and len(said) < 300
    return said


def test_every_unsound_document_is_refused(store: Store, exported: dict[str, Any]) -> None:
    store.import_json(json.dumps(exported))
    for name, edit in EDITS.items():
        edited = copy.deepcopy(exported)
        edit(edited)
        assert edited != exported, name
        said = refused(store, json.dumps(edited))
        assert ("newer" in said) == (name == "a newer version"), (name, said)


@pytest.mark.parametrize(
    "text",
    [
        *("", "\0", "null", "7", "[]", "{}", '"redline conversation"', "{" * 100_000, "[" * 100_000, "9" * 100_000),
        '{"format": "redline conversation", "version": 1, "messages": ' + "[" * 100_000,
        '{"format": "redline conversation", "version": 1, "messages": [], "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
        '{"format": "redline conversation", "version": 1e999, "messages": []}',
        '{"format": "redline conversation", "version": 0, "messages": []}',
        '{"format": "redline conversation", "version": 1, "messages": [], "created_s": NaN}',
        '{"format": "redline conversation", "version": 1, "messages": [], "title": "\\ud800"}',
        '{"format": "redline conversation", "version": 1, "messages": [], "title": "\ud800"}',
    ],
)
def test_what_is_no_document_is_refused(store: Store, text: str) -> None:
    refused(store, text)


def test_what_is_too_large_is_refused(store: Store, exported: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = json.dumps(exported)
    monkeypatch.setattr(json_export, "MOST_CHARACTERS", len(text) - 1)
    assert "too large" in refused(store, text)
    monkeypatch.undo()
    monkeypatch.setattr(json_export, "MOST_MESSAGES", 3)
    assert "4 messages" in refused(store, text)


@pytest.mark.slow
def test_a_deep_tree_is_no_trouble(store: Store) -> None:
    deep = [{"role": "user", "text": str(n), "parent": n - 1 if n else None} for n in range(5000)]
    text = json.dumps({"format": "redline conversation", "version": 1, "messages": deep})
    conversation = store.import_json(text).id
    assert [record.text for record in store.path(conversation)] == [str(n) for n in range(5000)]
    store.select(store.path(conversation)[-1].id)
    assert len(json.loads(store.export_json(conversation))["messages"]) == 5000


def test_a_document_with_anything_changed_is_refused_or_read_whole(store: Store, exported: dict[str, Any]) -> None:
    """Any value anywhere replaced by any other: never a crash, never half a conversation."""
    dice = random.Random(1)
    for _ in range(50):
        before = len(store.conversations())
        try:
            back = store.import_json(json.dumps(with_another_value(exported, dice)))
        except StoreError as error:
            assert "\n" not in str(error) and len(store.conversations()) == before
        else:
            store.path(back.id)
            assert "messages" in json.loads(store.export_json(back.id))
            store.delete(back.id)
