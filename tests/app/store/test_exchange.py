"""What is exported comes back equal; what people read is theirs."""

import json
import random
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from app.protocol import Pair, RoundDone, SamplingSettings
from app.store import Store
from app.store.records import Attachment, ChatSettings, Ending
from engine.events import Round
from tests.app.store.toys import REPLY, SETTINGS, TEXT, converse, round_done, say, statistics_of

LINE = st.text(st.characters(codec="utf-8"), max_size=8)
SHARE = st.floats(0, 1)
COUNT = st.integers(0, 2**31 - 1)


@st.composite
def rounds(draw: st.DrawFn) -> RoundDone:
    """Chains and trees, with and without texts and times."""
    drafted = draw(st.lists(COUNT, max_size=4))
    parents = path = None
    if drafted and draw(st.booleans()):
        parents = tuple(draw(st.integers(-1, i - 1)) for i in range(len(drafted)))
        path = draw(st.sampled_from([(), *_paths(parents)]))
    accepted = len(path) if path is not None else draw(st.integers(0, len(drafted)))
    tokens = draw(st.lists(COUNT, min_size=accepted, max_size=accepted + 1))
    return RoundDone(
        id=draw(COUNT),
        round=Round(
            index=draw(COUNT),
            tokens=tuple(tokens),
            drafted=tuple(drafted),
            accepted=accepted,
            p=tuple(draw(SHARE) for _ in tokens),
            q=tuple(draw(SHARE) for _ in drafted),
            width=draw(COUNT),
            time_s=draw(st.floats(0, 1e6)),
            reason=draw(LINE),
            texts=tuple(draw(LINE) for _ in tokens),
            parents=parents,
            path=path or (),
            draft_s=draw(st.none() | SHARE),
            verify_s=draw(st.none() | SHARE),
        ),
        drafted_texts=tuple(draw(LINE) for _ in drafted) if draw(st.booleans()) else (),
    )


def _paths(parents: tuple[int, ...]) -> list[tuple[int, ...]]:
    """From the root to each node."""
    paths: list[tuple[int, ...]] = []
    for node, parent in enumerate(parents):
        paths.append((*(paths[parent] if parent >= 0 else ()), node))
    return paths


SAMPLINGS = st.builds(
    SamplingSettings,
    temperature=st.just(0.0) | st.floats(0.001, 2),
    seed=st.none() | st.integers(0, 2**63 - 1),
    stop=st.lists(LINE.filter(bool), max_size=2).map(tuple),
)
SETTINGS_ = st.builds(ChatSettings, sampling=SAMPLINGS, system=LINE)
FILES = st.lists(st.builds(Attachment, name=LINE, text=LINE), max_size=2)


def grow(store: Store, dice: random.Random, data: st.DataObject) -> int:
    """A random tree of questions and replies, some edited, some gone on with, any of them shown."""
    conversation = store.create(data.draw(SETTINGS_)).id
    store.rename(conversation, data.draw(LINE))
    questions: list[int] = []
    replies: list[int] = []
    for _ in range(dice.randint(0, 12)):
        kind = dice.choice(["question", "reply", "reply", "select", "resume"]) if questions else "question"
        if kind == "question":
            parent = dice.choice([None, *replies])
            questions.append(store.add_question(conversation, parent, data.draw(LINE), data.draw(FILES)).id)
        elif kind == "reply":
            replies.append(store.begin_reply(conversation, dice.choice(questions), Pair(), data.draw(SAMPLINGS)).id)
            finish(store, replies[-1], data)
        elif kind == "select":
            store.select(dice.choice(questions + replies))
        elif replies:
            finish(store, store.resume_reply(dice.choice(replies)).id, data)
    return conversation


def finish(store: Store, reply: int, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 2))):
        store.append(reply, data.draw(st.lists(rounds(), max_size=2)))
    statistics = data.draw(st.none() | st.just(statistics_of(REPLY)))
    state = data.draw(st.sampled_from(["complete", "stopped", "cut", "failed"]))
    store.end_reply(
        reply, Ending(state, statistics, data.draw(LINE), data.draw(st.none() | SAMPLINGS), data.draw(LINE))
    )


def branches(store: Store, conversation: int) -> list[Any]:
    """Returns every branch of a tree without ids: first the one that is shown, then that of each message."""
    ids = [row[0] for row in store._database.rows("SELECT id FROM message WHERE conversation = ?", conversation)]
    seen = [seen_of(store, conversation)]
    for id in ids:
        store.select(id)
        seen.append(seen_of(store, conversation))
    return seen


def seen_of(store: Store, conversation: int) -> list[Any]:
    """Returns the branch that is shown, but for ids."""
    nameless = {"id": 0, "conversation": 0, "parent": None, "siblings": ()}
    return [(replace(record, **nameless), store.rounds(record.id)) for record in store.path(conversation)]


def test_any_conversation_comes_back_equal(store: Store) -> None:
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large]

    @settings(deadline=None, max_examples=10, phases=[Phase.generate], suppress_health_check=slow)
    @given(st.randoms(use_true_random=True), st.data())
    def check(dice: random.Random, data: st.DataObject) -> None:
        conversation = grow(store, dice, data)
        exported = store.export_json(conversation)
        back = store.import_json(exported)
        was = store.conversation(conversation)
        assert (back.title, back.created_s, back.updated_s, back.settings) == (
            *(was.title, was.created_s, was.updated_s, was.settings),
        )
        assert back.id != conversation
        assert store.export_json(back.id) == exported
        assert branches(store, back.id) == branches(store, conversation)

    check()


def test_what_was_imported_is_found_and_goes_on(store: Store) -> None:
    conversation = converse(store, 2)
    back = store.import_json(store.export_json(conversation))
    question, reply = store.path(back.id)[-2:]
    assert {hit.conversation for hit in store.search("blue today")} == {conversation, back.id}
    store.resume_reply(reply.id)
    store.append(reply.id, [round_done(3, [" More"])])
    assert store.end_reply(reply.id, Ending("complete")).text == f"{TEXT} More"
    assert store.add_question(back.id, question.parent, "Edited").versions == 2
    assert {hit.conversation for hit in store.search("blue today")} == {conversation, back.id}


def test_the_json_says_what_it_is_and_where_each_token_came_from(store: Store) -> None:
    document = json.loads(store.export_json(converse(store, 1)))
    assert (document["format"], document["version"]) == ("redline conversation", 1)
    question, reply = document["messages"]
    assert (question["parent"], question["shown"], reply["parent"], document["shown"]) == (None, 1, 0, 0)
    assert reply["text"] == TEXT
    assert [one["origins"] for one in reply["rounds"]] == [
        *(["bonus"], ["accepted", "accepted", "corrected"], ["accepted", "bonus"]),
    ]


def test_no_import_chooses_the_machines_that_are_connected_to(store: Store) -> None:
    shared = Pair(target="large", drafter="lookup", hosts="elsewhere/hosts.json")
    conversation = store.create(ChatSettings(pair=shared)).id
    question = store.add_question(conversation, None, "Why?")
    store.end_reply(store.begin_reply(conversation, question.id, shared, SamplingSettings()).id, Ending("complete"))
    exported = store.export_json(conversation)
    assert "hosts.json" in exported
    back = store.import_json(exported)
    alone = Pair(target="large", drafter="lookup")
    assert back.settings.pair == alone
    assert [record.pair for record in store.path(back.id)] == [None, alone]
    assert store.path(conversation)[1].pair == shared


def test_a_streaming_reply_is_exported_as_cut(store: Store) -> None:
    conversation = converse(store, 0)
    reply = store.begin_reply(conversation, store.add_question(conversation, None, "?").id, Pair(), SamplingSettings())
    store.append(reply.id, REPLY[:1])
    back = store.path(store.import_json(store.export_json(conversation)).id)[-1]
    assert (back.state, back.text, store.rounds(back.id)) == ("cut", "The", REPLY[:1])


def test_a_document_of_the_first_version_is_read(store: Store) -> None:
    """What others may have kept. Only what is needed is there."""
    text = (Path(__file__).parent / "conversation-1.json").read_text()
    path = store.path(store.import_json(text).id)
    assert [(r.role, r.text, r.state) for r in path] == [
        ("user", "Why?", "complete"),
        ("assistant", "Beca\ufffd", "cut"),
    ]
    assert store.rounds(path[1].id)[0].round.texts == ("Be", "ca")


def test_markdown_is_for_people(store: Store) -> None:
    conversation = converse(store, 0)
    store.rename(conversation, "The sky")
    files = [Attachment(name="sky.md", text="```\ncode\n```")]
    reply = say(store, conversation, store.add_question(conversation, None, "Why?", files).id)
    asked = store.add_question(conversation, reply.id, "And then?")
    cut = store.begin_reply(conversation, asked.id, SETTINGS.pair, SETTINGS.sampling)
    store.end_reply(cut.id, Ending("cut", None, "The engine died."))
    markdown = store.export_markdown(conversation)
    assert markdown == (
        "# The sky\n\n## You\n\nFile sky.md:\n````\n```\ncode\n```\n````\n\nWhy?\n\n"
        f"## Reply\n\n{TEXT}\n\n## You\n\nAnd then?\n\n## Reply\n\n*(empty)*\n\n*Interrupted. The engine died.*\n"
    )
