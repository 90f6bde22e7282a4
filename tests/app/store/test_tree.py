"""Messages are a tree; what is shown of it is one branch, remembered at every fork."""

import pytest

from app.protocol import Pair, SamplingSettings
from app.store import Store, StoreError
from app.store.records import Attachment, Ending
from tests.app.store.toys import REPLY, SETTINGS, TEXT, converse, say, statistics_of


def texts(store: Store, conversation: int) -> list[str]:
    return [record.text for record in store.path(conversation)]


def test_a_question_and_its_reply_are_on_screen_as_they_were_given(store: Store) -> None:
    conversation = store.create(SETTINGS).id
    files = (Attachment(name="notes.txt", text="a\0b 🙂\n```"), Attachment(name="", text=""))
    question = store.add_question(conversation, None, "Why?\0 é", files)
    reply = say(store, conversation, question.id)
    assert store.path(conversation) == [question, reply]
    assert (question.text, question.attachments, question.state) == ("Why?\0 é", files, "complete")
    assert (reply.text, reply.state, reply.parent) == (TEXT, "complete", question.id)
    assert (reply.pair, reply.sampling, reply.statistics) == (SETTINGS.pair, SETTINGS.sampling, statistics_of(REPLY))


def test_an_edited_question_is_a_sibling_and_is_shown(store: Store) -> None:
    conversation = converse(store, 2)
    first, reply, second, _ = store.path(conversation)
    edited = store.add_question(conversation, reply.id, "Edited")
    assert (edited.version, edited.versions, edited.siblings) == (2, 2, (second.id, edited.id))
    assert store.path(conversation) == [first, reply, edited]
    again = store.add_question(conversation, None, "Another beginning")
    assert (again.version, again.versions) == (2, 2)
    assert store.path(conversation) == [again]


def test_switching_versions_and_back_keeps_the_branch_after_them(store: Store) -> None:
    conversation = converse(store, 3)
    long_branch = texts(store, conversation)
    question, first = store.path(conversation)[:2]
    second = say(store, conversation, question.id)
    store.add_question(conversation, second.id, "After the second")
    assert texts(store, conversation) == [question.text, second.text, "After the second"]
    store.select(first.id)
    assert texts(store, conversation) == long_branch
    store.select(second.id)
    assert texts(store, conversation)[-1] == "After the second"


def test_settings_and_the_seed_are_those_of_each_reply(store: Store) -> None:
    conversation = converse(store, 1)
    question = store.path(conversation)[0]
    reply = store.begin_reply(conversation, question.id, Pair(target="other"), SamplingSettings(temperature=1.0))
    ended = store.end_reply(
        reply.id, Ending("failed", None, "No memory", SamplingSettings(temperature=1.0, seed=2**64 - 1))
    )
    assert (ended.pair, ended.sampling) == (Pair(target="other"), SamplingSettings(temperature=1.0, seed=2**64 - 1))
    assert (ended.state, ended.note, ended.statistics, ended.text) == ("failed", "No memory", None, "")
    assert store.conversation(conversation).settings == SETTINGS


def test_what_is_not_there_is_refused_in_one_line(store: Store) -> None:
    conversation, other = converse(store, 1), converse(store, 1)
    question, reply = store.path(conversation)
    for wrong in (
        lambda: store.path(99),
        lambda: store.select(99),
        lambda: store.rename(99, "x"),
        lambda: store.undelete(99),
        lambda: store.add_question(99, None, "x"),
        lambda: store.add_question(conversation, 99, "x"),
        lambda: store.add_question(other, reply.id, "of another conversation"),
        lambda: store.begin_reply(conversation, reply.id, Pair(), SamplingSettings()),
        lambda: store.append(reply.id, REPLY),
        lambda: store.end_reply(reply.id, Ending("complete")),
        lambda: store.resume_reply(question.id),
        lambda: store.export_json(99),
        lambda: store.export_markdown(99),
    ):
        with pytest.raises(StoreError, match=r"^[^\n]+; [^\n]+$"):
            wrong()
    assert store.path(conversation) == [question, reply]


def test_text_that_is_no_unicode_is_kept_with_a_replacement(store: Store) -> None:
    conversation = store.create(SETTINGS).id
    question = store.add_question(conversation, None, "a\ud800b", [Attachment(name="\udcff", text="\ud83d\ude42")])
    assert (question.text, question.attachments) == ("a\ufffdb", (Attachment(name="\ufffd", text="🙂"),))


def test_an_edited_reply_is_a_version_that_no_model_wrote(store: Store) -> None:
    conversation = converse(store, 1)
    question, reply = store.path(conversation)
    edited = store.add_edited_reply(reply.id, "Because I say so")
    assert store.path(conversation) == [question, edited] and edited.siblings == (reply.id, edited.id)
    assert (edited.text, edited.state, edited.note, edited.statistics) == (
        "Because I say so",
        "complete",
        "Edited",
        None,
    )
    assert [hit.message for hit in store.search("because say")] == [edited.id] and not edited.checkable
    back = store.import_json(store.export_json(conversation))
    assert texts(store, back.id) == [question.text, "Because I say so"]
    with pytest.raises(StoreError, match="only a reply"):
        store.add_edited_reply(question.id, "x")


def test_a_version_is_deleted_with_what_follows_it_until_it_is_restored(store: Store) -> None:
    conversation = converse(store, 2)
    before = store.path(conversation)
    question, reply = before[:2]
    edited = store.add_edited_reply(reply.id, "another")
    store.select(before[-1].id)
    expected = store.path(conversation)
    deleted = store.delete_version(reply.id)
    shown = store.path(conversation)
    assert [record.id for record in shown] == [question.id, edited.id] and shown[-1].versions == 1
    assert store.search("sky 1") == [] and [one.id for one in store.conversations()] == [conversation]
    with pytest.raises(StoreError, match="only version"):
        store.delete_version(edited.id)
    store.restore_version(deleted, expected[1])
    assert store.path(conversation) == expected
    deleted = store.delete_version(reply.id)
    store.purge()
    with pytest.raises(StoreError, match="for good"):
        store.restore_version(deleted, expected[1])
    assert [record.id for record in store.path(conversation)] == [question.id, edited.id]
