"""Sending, stopping, versions, conversations: what the controller emits and what is on disk."""

import itertools
import json
import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.protocol import Count, Load, Pair, Reply
from app.store.records import Attachment
from app.window.chat import title_of
from app.window.chat.controller import NO_ROUNDS
from app.window.chat.reply_controller import OTHER_MODEL_FIRST
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene, reopened, whole_path
from tests.app.window.waiting import until

GPT_MESSAGE = {
    "author": {"role": "user"},
    "content": {"content_type": "text", "parts": ["Hello"]},
    "create_time": 1.7e9,
}


def test_a_reply_is_emitted_and_saved_with_its_statistics(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=10, tail="\ufffd") as scene:
        record = scene.ask("Why is the sky blue?\nIn one line.")
        assert record.state == "complete" and record.text == text_of(30) + "\ufffd"
        assert scene.text(record.id) == text_of(30)
        numbers = record.statistics
        assert numbers is not None and record.sampling is not None and record.sampling.seed is not None
        assert (numbers.tokens, numbers.rounds, numbers.drafted, numbers.accepted) == (30, 10, 30, 20)
        assert numbers.prompt_tokens == 30 and numbers.acceptance_rate == pytest.approx(2 / 3)
        assert scene.controller.conversation.title == "Why is the sky blue?"
        assert [one.round.index for one in scene.controller.rounds_of(record.id)] == list(range(10))
    path = whole_path(tmp_path)
    assert [message.role for message in path] == ["user", "assistant"]
    assert path[1] == record


def test_stop_before_the_models_are_loaded_ends_the_reply(tmp_path: Path) -> None:
    with Scene(tmp_path, hold_at=("load",)) as scene:
        scene.controller.send("hi")
        scene.controller.stop()
        until(lambda: scene.ended)
        assert scene.ended[0].state == "stopped" and not scene.controller.busy


def test_a_continued_reply_is_one_reply(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=10, hold_after=3) as scene:
        scene.controller.send("hi")
        message = scene.streaming(9)
        scene.controller.stop()
        until(lambda: scene.ended)
        stopped = scene.ended[0]
        assert scene.controller.resume(message)
        scene.go_on()
        until(lambda: len(scene.ended) == 2)
        whole = scene.ended[1]
        tokens = len(scene.tokens(message))
        assert whole.id == message and whole.text == text_of(tokens) and whole.text.startswith(stopped.text)
        assert whole.statistics is not None and whole.statistics.tokens == tokens
        assert whole.statistics.prompt_tokens == 30
        rounds = scene.controller.rounds_of(message)
        assert [one.round.index for one in rounds] == list(range(len(rounds)))
        assert all(a.round.time_s <= b.round.time_s for a, b in itertools.pairwise(rounds))
        assert (
            stopped.sampling is not None and whole.sampling is not None and whole.sampling.seed == stopped.sampling.seed
        )
        assert not scene.controller.resume(message)  # it is complete


def test_a_reply_whose_last_rounds_are_lost_is_not_continued_and_keeps_its_text(tmp_path: Path) -> None:
    """The model would be given less of it than the user sees."""
    with Scene(tmp_path, rounds=10, hold_after=3) as scene:
        scene.controller.send("hi")
        message = scene.streaming(9)
        scene.controller.stop()
        until(lambda: scene.ended)
        database = scene.controller.library.store._database
        last = "SELECT max(number) FROM rounds WHERE message = ?1"
        database.rows(f"DELETE FROM rounds WHERE message = ?1 AND number = ({last})", message)
        assert not scene.controller.resume(message) and scene.notice(NO_ROUNDS)
        assert scene.controller.library.store.message(message) == scene.ended[0]


def test_regenerating_and_editing_make_versions_that_can_be_switched(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        first = scene.ask("one")
        controller = scene.controller
        assert not controller.regenerate(first.id)  # greedy, it would be the same
        scene.press("always writes the same reply", "Write It Again")
        until(lambda: len(scene.ended) == 2)
        second = scene.ended[1]
        assert (second.version, second.versions) == (2, 2) and second.parent == first.parent
        controller.select(first.id)
        assert [record.id for record in controller.path][1] == first.id
        assert controller.edit(controller.path[0].id, "two")
        until(lambda: len(scene.ended) == 3)
        assert [record.text for record in controller.path] == ["two", text_of(6)]
        assert (controller.path[0].version, controller.path[0].versions) == (2, 2)
    assert [record.text for record in whole_path(tmp_path)] == ["two", text_of(6)]


def test_attachments_go_to_the_model_and_stay_with_an_edited_question(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1) as scene:
        scene.ready()
        assert scene.controller.send("", (Attachment(name="notes.txt", text="alpha beta"),))
        until(lambda: scene.ended)
        assert scene.controller.conversation.title == "notes.txt"
        scene.controller.edit(scene.controller.path[0].id, "read it")
        until(lambda: len(scene.ended) == 2)
        assert scene.controller.path[0].attachments[0].text == "alpha beta"
        assert not scene.controller.send("  \n ")


def test_two_conversations_stream_at_once_and_each_is_stopped_alone(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=400, hold_after=10) as scene:
        controller = scene.controller
        controller.send("a long one")
        first, first_chat = scene.streaming(30), controller.conversation.id
        controller.new()
        assert not controller.busy and controller.path == []
        assert controller.send("meanwhile")
        second, second_chat = scene.streaming(30), controller.conversation.id
        assert controller.replies.conversations() == {first_chat, second_chat} and controller.busy
        assert not controller.send("and again") and scene.notice("still being written") is not None
        scene.go_on(20)
        until(lambda: len(scene.tokens(first)) + len(scene.tokens(second)) >= 120)
        assert min(len(scene.tokens(first)), len(scene.tokens(second))) > 30
        controller.stop()
        until(lambda: scene.ended)
        assert [one.id for one in scene.ended] == [second] and not controller.busy
        assert controller.replies.conversations() == {first_chat}
        assert scene.text(second) == scene.ended[0].text == text_of(len(scene.tokens(second)))
        controller.open(first_chat)
        live = controller.path[-1]
        assert controller.busy and live.state == "streaming" and scene.began[-1].id == first
        assert live.text == text_of(len(scene.tokens(first)))
        controller.stop()
        until(lambda: len(scene.ended) == 2)
        assert scene.text(first) == scene.ended[1].text


def test_a_reply_of_another_model_waits_until_the_others_are_written(tmp_path: Path) -> None:
    waits = list[tuple[int, str]]()
    with Scene(tmp_path, rounds=4, hold_after=2) as scene:
        controller = scene.controller
        controller.replies.waiting.connect(lambda *one: waits.append(one))
        controller.send("of one model")
        first = scene.streaming()
        controller.new()
        other = replace(controller.conversation.settings, pair=Pair(target="another"))
        controller.change_settings(other)
        assert controller.send("of another")
        second = scene.began[-1].id
        assert waits == [(second, OTHER_MODEL_FIRST)] and len(scene.requested(Load)) == 1
        controller.new()
        controller.change_settings(replace(other, pair=Pair()))
        assert controller.send("behind it, of the first model")
        scene.go_on()
        until(lambda: len(scene.ended) == 1 and not controller.replies.running)
        assert [one.pair.target for one in scene.requested(Load)] == ["builtin", "another", "builtin"]
        texts = {one.id: one.text for one in map(controller.library.store.message, (first, second))}
        assert texts == {first: text_of(12), second: text_of(12)}


@pytest.mark.slow
def test_a_reply_that_ends_in_another_conversation_is_reported(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=30, hold_after=2) as scene:
        scene.controller.send("over there")
        message = scene.streaming()
        scene.controller.new()
        scene.go_on()
        until(lambda: scene.notice("is complete"))
        assert not scene.ended
        scene.press("is complete", "Show Conversation")
        assert scene.controller.path[-1].id == message and scene.controller.path[-1].state == "complete"


def test_an_unused_conversation_is_not_saved_and_the_last_one_opens_again(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1) as scene:
        scene.ask("kept")
        kept = scene.controller.conversation.id
        scene.controller.new()
        scene.controller.new()
        assert [record.id for record in scene.controller.library.conversations()] == [kept]
        scene.controller.open(kept)
    with Scene(tmp_path) as scene:
        assert scene.controller.conversation.id == kept and len(scene.controller.path) == 2


def test_deleting_stops_a_reply_and_can_be_undone(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=10_000, hold_after=2) as scene:
        controller = scene.controller
        controller.send("doomed")
        scene.streaming()
        conversation = controller.conversation.id
        controller.deletion.delete(conversation)
        assert controller.library.conversations() == [] and controller.conversation.id == 0
        until(lambda: not controller.replies.running)
        scene.press("was deleted", "Undo")
        assert controller.conversation.id == conversation and controller.path[-1].state == "stopped"
        controller.deletion.undo()  # nothing more to undo
        controller.library.change(lambda: controller.library.store.rename(conversation, ""))
        controller.deletion.delete(conversation)
        assert scene.notice("“New Chat” was deleted.") is not None
    assert reopened(tmp_path).conversations() == []


def test_a_reply_is_edited_and_the_versions_deleted_and_restored(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        written = scene.ask("Why?")
        controller = scene.controller
        assert controller.edit(written.id, "Because.")
        edited = controller.path[-1]
        assert (edited.text, edited.note, edited.versions) == ("Because.", "Edited", 2)
        controller.delete_version(edited.id)
        assert controller.path[-1].id == written.id and controller.path[-1].versions == 1
        scene.press("Version 2 of 2 was deleted", "Undo")
        assert controller.path[-1] == edited
        controller.select(written.id)
        scene.ask("And then?")
        controller.delete_version(written.id)
        assert [record.text for record in controller.path] == ["Why?", "Because."]
        controller.deletion.undo()
        assert [record.text for record in controller.path[:3]] == ["Why?", written.text, "And then?"]
        controller.select(edited.id)
        assert scene.ask("So?").id and "Because." in scene.requested(Reply)[-1].messages[1].content


@pytest.mark.slow
def test_replies_are_learned_and_go_and_come_back_with_their_conversation(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=3) as scene:
        controller, history = scene.controller, scene.history
        first = scene.ask("not yet")
        assert history.read("abc") == {} and scene.requested(Reply)[-1].history == ""
        controller.set_learning(True)
        second = scene.ask("and now")
        tokens = [token for one in controller.rounds_of(second.id) for token in one.round.tokens]
        assert {key: list(ids) for key, ids in history.read("abc").items()} == {(first.conversation, second.id): tokens}
        assert scene.requested(Reply)[-1].history == str(history.folder)
        cache = Path(scene.requested(Reply)[-1].cache)
        assert cache.is_file() and scene.requested(Reply)[0].cache == ""
        for written, sent in ((b"", ""), (b"what is remembered", str(cache))):
            cache.write_bytes(written)
            scene.requests.clear()
            controller.open(second.conversation)
            until(lambda sent=sent: scene.requested(Count) and scene.requested(Count)[-1].cache == sent)
        controller.new()
        third = scene.ask("elsewhere")
        controller.deletion.delete(second.conversation)
        assert set(history.read("abc")) == {(third.conversation, third.id)} and not cache.exists()
        controller.deletion.undo()
        learned = {(second.conversation, second.id), (third.conversation, third.id)}
        assert set(history.read("abc")) == learned and cache.read_bytes() == b"what is remembered"
        history.add("abc", 1000, 1, [1, 2])  # of a conversation that another start purged
        controller.set_learning(True)
        assert set(history.read("abc")) == learned
        controller.deletion.delete(second.conversation)
    assert [path.name for path in history.folder.rglob("*.tokens*")] == [f"{third.conversation}.tokens"]
    with Scene(tmp_path) as scene:
        scene.controller.set_learning(False)
        assert not history.folder.exists()


@pytest.mark.slow
def test_a_reply_that_was_deleted_while_it_streamed_is_not_learned(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=10_000, hold_after=2) as scene:
        scene.controller.set_learning(True)
        scene.controller.send("doomed")
        scene.streaming()
        scene.controller.deletion.delete(scene.controller.conversation.id)
        until(lambda: not scene.controller.replies.running)
        assert scene.history.read("abc") == {}


def test_an_import_is_shown_as_it_goes_on_and_leaves_nothing_when_it_is_cancelled(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        controller, shown = scene.controller, list[tuple[str, float]]()
        known = controller.library.conversations()
        controller.importing.progressed.connect(lambda text, share: shown.append((text, share)))
        endless, file = tmp_path / "endless.json", tmp_path / "export.json"
        os.mkfifo(endless)  # which nobody writes to
        controller.import_file(str(endless))
        controller.import_file(str(file))
        assert "one file at a time" in scene.notices[-1].text
        controller.importing.cancel()
        assert shown == [("Reading “endless.json”…", 0.0), ("", 1.0)] and not controller.importing.running
        assert controller.library.conversations() == known
        file.write_text(json.dumps([{"title": str(n), "mapping": {"a": {"message": GPT_MESSAGE}}} for n in range(400)]))
        controller.import_file(str(file))
        until(lambda: not controller.importing.running)
        assert any(share > 0 for text, share in shown if text) and controller.conversation.title == "399"
        assert len(controller.library.conversations()) == len(known) + 400 and "400" in scene.notices[-1].text
        file.write_text("no JSON")
        controller.import_file(str(file))
        until(lambda: scene.notices[-1].level == "error")
        assert not controller.importing.running


def test_a_title_is_the_first_line_with_words_cut_between_words() -> None:
    assert title_of("# Hello\nthere") == "Hello"
    assert title_of("\n\n  - one two  ") == "one two" and title_of("km / h") == "km/h"
    long = title_of("word " * 40)
    assert long == "word word word word word word word word word…" and len(long) <= 48
    assert title_of("x" * 100) == "x" * 47 + "…"
    assert title_of(" \n") == ""


@pytest.mark.slow
def test_the_window_is_kept_awake_until_a_reply_has_ended_or_its_engine_has_died(
    tmp_path: Path, activities: list[str]
) -> None:
    with Scene(tmp_path, rounds=1000, hold_after=2) as scene:
        scene.ready()
        until(lambda: activities and activities[-1] == "ends")
        assert scene.controller.send("Why?")
        scene.streaming()
        assert activities[-1] == "begins"
        scene.controller.stop()
        until(lambda: scene.ended and activities == ["begins", "ends"] * (len(activities) // 2))
        assert scene.controller.send("And now?")
        until(lambda: len(scene.began) == 2 and scene.tokens(scene.began[-1].id))
        assert activities[-1] == "begins"
        scene.kill_host()
        until(lambda: len(scene.ended) == 2)
        until(lambda: activities == ["begins", "ends"] * (len(activities) // 2))
