"""What a model thought is stored apart from its answer, and travels with it."""

import json
from dataclasses import replace

import pytest

from app.protocol import RoundDone
from app.store import Store, StoreError
from app.store.records import Ending, messages_of
from engine.reply_channels import Channel
from tests.app.store.toys import SETTINGS, round_done, statistics_of


def marked(one: RoundDone, *channels: Channel) -> RoundDone:
    return RoundDone(id=one.id, round=replace(one.round, channels=channels), drafted_texts=one.drafted_texts)


REPLY = [
    marked(round_done(0, [""]), "markup"),
    marked(round_done(1, ["The sun", " <b>"]), "thought", "thought"),
    marked(round_done(2, [".", "", "Blue"]), "thought", "markup", "answer"),
]


def thinking_reply(store: Store, rounds: list[RoundDone]) -> int:
    """Returns a conversation with a reply in batches of a round each; the last one is not written yet by itself."""
    conversation = store.create(SETTINGS).id
    question = store.add_question(conversation, None, "Why?")
    reply = store.begin_reply(conversation, question.id, SETTINGS.pair, SETTINGS.sampling)
    for one in rounds:
        store.append(reply.id, [one])
    return conversation


def test_thought_and_answer_are_stored_apart_while_they_stream_and_after(store: Store) -> None:
    conversation = thinking_reply(store, REPLY[:2])
    reply = store.path(conversation)[-1]
    assert (reply.thought, reply.text) == ("The sun <b>", "")
    store.append(reply.id, REPLY[2:])
    ended = store.end_reply(reply.id, Ending("complete", statistics_of(REPLY), tail="!"))
    assert (ended.thought, ended.text) == ("The sun <b>.", "Blue!")
    assert ended.statistics is not None and ended.statistics.thought_tokens == 3
    assert store.rounds(reply.id) == REPLY
    assert not store.search("sun") and store.search("blue")
    last = messages_of("", store.path(conversation))[-1]
    assert (last.content, last.thought) == ("Blue!", "The sun <b>.")


def test_the_thought_comes_back_from_an_export_and_is_told_from_the_answer(store: Store) -> None:
    conversation = thinking_reply(store, REPLY)
    store.end_reply(store.path(conversation)[-1].id, Ending("stopped", statistics_of(REPLY)))
    text = store.export_json(conversation)
    back = store.path(store.import_json(text).id)[-1]
    assert (back.thought, back.text) == ("The sun <b>.", "Blue")
    assert store.rounds(back.id) == REPLY
    markdown = store.export_markdown(conversation)
    assert "<details><summary>Thought for 0 s, 3 tokens</summary>\n\n```\nThe sun <b>.\n```\n\n</details>" in markdown
    document = json.loads(text)
    document["messages"][1]["thought"] = "forged"
    with pytest.raises(StoreError, match="a thought that does not match its rounds"):
        store.import_json(json.dumps(document))
    document = json.loads(text)
    document["messages"][1]["rounds"][1]["round"]["channels"] = ["thought"]
    with pytest.raises(StoreError, match="channels"):
        store.import_json(json.dumps(document))


@pytest.mark.parametrize("thought", [2, 0])
def test_the_model_reads_the_question_of_a_reply_that_never_answered(store: Store, thought: int) -> None:
    conversation = thinking_reply(store, REPLY[:thought])
    question, reply = store.path(conversation)
    store.end_reply(reply.id, Ending("stopped", statistics_of(REPLY[:thought])))
    store.add_question(conversation, reply.id, "And now?")
    assert [(message.role, message.content) for message in messages_of("", store.path(conversation))] == [
        ("user", question.text),
        ("user", "And now?"),
    ]
