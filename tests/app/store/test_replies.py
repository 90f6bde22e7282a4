"""A reply is on disk as it streams, and whole when it ends."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from app.protocol import Pair, SamplingSettings
from app.store import Store, StoreError
from app.store.records import Ending
from app.store.round_encoding import fault_of_round, pack, unpack
from engine.events import Refusal
from tests.app.store.toys import REPLY, SETTINGS, TEXT, ask, round_done, say
from tests.app.window.inspector.sample_rounds import CORRECTED

# round_done(1, [" sky", " is"], 2, 1) as the first version wrote it.
WRITTEN = (
    "78bb1dbe5e109b88ea6376141f33427d3c898b1be65b2013ee53c6850593907cfa00e6c14948bebe80ec2f66b8bf1e1b8301d45fabd2322b"
    "525314124b144c203e9cb444a138bb72b1426631a9de9bb428c560518a2100befe54df"
)


@pytest.fixture
def question(store: Store) -> tuple[int, int]:
    """A conversation and the question in it."""
    conversation = store.create(SETTINGS).id
    return conversation, store.add_question(conversation, None, "Why?").id


def test_a_streaming_reply_reads_as_far_as_it_is_here_and_elsewhere(
    store: Store, place: Path, question: tuple[int, int]
) -> None:
    reply = store.begin_reply(*question, Pair(), SamplingSettings())
    for number in range(len(REPLY)):
        store.append(reply.id, [REPLY[number]])
        other = Store.open(place).store
        for seen in (store, other):
            shown = seen.path(question[0])[-1]
            assert (shown.text, shown.state) == (
                "".join(t for o in REPLY[: number + 1] for t in o.round.texts),
                "streaming",
            )
            assert seen.rounds(reply.id) == REPLY[: number + 1]
        other.close()
    with pytest.raises(StoreError, match="stop it first"):
        store.resume_reply(reply.id)
    assert store.end_reply(reply.id, Ending("complete", tail="!")).text == f"{TEXT}!"


def test_a_reply_goes_on_where_it_was_without_what_it_had_held_back(store: Store, question: tuple[int, int]) -> None:
    reply = store.begin_reply(*question, Pair(), SamplingSettings(seed=3))
    store.append(reply.id, REPLY[:1])
    assert store.end_reply(reply.id, Ending("cut", None, "The engine died.", None, "\ufffd")).text == "The\ufffd"
    resumed = store.resume_reply(reply.id)
    assert (resumed.id, resumed.text, resumed.state, resumed.note) == (reply.id, "The", "streaming", "")
    store.append(reply.id, REPLY[1:])
    assert store.path(question[0])[-1].text == TEXT
    ended = store.end_reply(reply.id, Ending("complete"))
    assert (ended.text, ended.sampling, store.rounds(reply.id)) == (TEXT, SamplingSettings(seed=3), REPLY)
    assert [hit.message for hit in store.search("the sky is blue today")] == [reply.id]


def test_damaged_rounds_are_said_and_leave_the_text(store: Store, place: Path, question: tuple[int, int]) -> None:
    reply = say(store, *question)
    batch = ask(place, "SELECT data FROM rounds")[0][0]
    for damaged in (
        b"",
        b"\xc1",
        b"\x91\xc4\x00",
        batch[:9] + bytes(4) + batch[13:],
        batch[:-3],
        pack(REPLY[1:]),
        pack(REPLY[:-1]),
        pack(REPLY[::-1]),
    ):
        with sqlite3.connect(place) as connection:
            connection.execute("UPDATE rounds SET data = ?", (damaged,))
        connection.close()
        with pytest.raises(StoreError, match="rounds of this reply are damaged"):
            store.rounds(reply.id)
        assert store.path(question[0])[-1].text == TEXT
        assert '"rounds":[]' in store.export_json(question[0])
    store.resume_reply(reply.id)
    store.append(reply.id, [round_done(3, [" And on."])])
    assert store.end_reply(reply.id, Ending("complete")).text == f"{TEXT} And on."
    with pytest.raises(StoreError, match="rounds of this reply are damaged"):
        store.rounds(reply.id)  # the new ones alone would stand at the wrong places


def test_rounds_are_packed_small_and_read_back_exactly() -> None:
    rounds = [round_done(n, [" the", " and"], 3, 1) for n in range(4)]
    packed = pack(rounds)
    assert unpack(packed) == rounds
    assert len(packed) < 150  # against 900 as MessagePack


def test_the_format_on_disk_does_not_change_by_itself() -> None:
    """Another primer, or another name of a field, would make old rounds unreadable."""
    assert unpack(bytes.fromhex(WRITTEN)) == [round_done(1, [" sky", " is"], 2, 1)]


def test_why_a_draft_was_refused_is_kept_in_few_bytes_and_old_rounds_do_not_know() -> None:
    bare = msgspec.structs.replace(CORRECTED, round=replace(CORRECTED.round, rule="", draws=(), refusal=None))
    assert unpack(pack([CORRECTED])) == [CORRECTED]
    assert unpack(pack([bare])) == [bare]
    assert len(pack([CORRECTED] * 50)) - len(pack([bare] * 50)) < 200
    assert unpack(bytes.fromhex(WRITTEN))[0].round.refusal is None
    assert fault_of_round(CORRECTED) == ""
    for changes in ({"draws": (0.5,) * 3}, {"draws": (0.5, 2.0)}, {"refusal": Refusal(1.5)}):
        assert fault_of_round(msgspec.structs.replace(CORRECTED, round=replace(CORRECTED.round, **changes)))
