"""A full context: what the model is given from then on is the user's choice, is stored, and is what a check decodes."""

from pathlib import Path

import pytest

from app.protocol import Message, Reply, RoundDone, Stop, Verify
from app.store import Store
from app.store.records import SUMMARY_OPENING, ContextTrim, MessageRecord, messages_of, trim_in_words
from app.window.chat.context_trimmer import REQUEST, STOPPED, SUMMARY_TOKENS, TOO_LONG
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene, whole_path
from tests.app.window.stepped_clock import LongWaitsClock
from tests.app.window.waiting import HANG_S, until

CONTEXT = 1600  # words, as the fake host counts
REPLY = 12  # words
QUESTION = "and then? " * 150  # 300 words


def words(messages: tuple[Message, ...]) -> int:
    return sum(len(message.content.split()) for message in messages)


def full(scene: Scene, turns: int = 5) -> None:
    """Fills the context with so many turns of 312 words."""
    scene.ready()
    for _ in range(turns):
        scene.ask(QUESTION)


def send_trimmed(scene: Scene, summarize: bool, text: str = "go on") -> Reply:
    """Sends a question that the context is too full for; returns the request for its reply."""
    before = len(scene.ended)
    scene.controller.send_trimmed(text, (), summarize)
    until(lambda: len(scene.ended) > before)
    request = scene.requested(Reply)[-1]
    assert isinstance(request, Reply)
    return request


def test_the_last_turns_that_fit_are_sent_and_the_next_question_goes_on_from_there(tmp_path: Path) -> None:
    sent: list[bool] = []
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT) as scene:
        scene.controller.question_sent.connect(lambda: sent.append(True))
        full(scene)
        request = send_trimmed(scene, summarize=False)
        assert sent == [True]
        assert [message.role for message in request.messages] == ["user", "assistant"] * 3 + ["user"]
        reserved = CONTEXT // 4
        assert words(request.messages) <= CONTEXT - reserved < words(request.messages) + 312
        question = scene.controller.path[-2]
        assert question.trim == ContextTrim(kept=6)
        assert scene.controller.verify(scene.controller.path[-1].id)
        until(scene.verification_over)
        assert scene.requested(Verify)[-1].messages == request.messages
        scene.ask("and on")
        assert scene.requested(Reply)[-1].messages[: len(request.messages)] == request.messages
        first = scene.controller.path[0]
        assert scene.controller.edit(first.id, "another beginning")
        until(lambda: not scene.controller.busy)
        assert [message.content for message in scene.requested(Reply)[-1].messages] == ["another beginning"]


def test_what_the_model_sees_survives_a_restart_an_export_and_an_import(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT) as scene:
        full(scene)
        request = send_trimmed(scene, summarize=True)
        library, conversation = scene.controller.library, scene.controller.conversation.id
        exported = library.export_json(conversation)
        sentence = trim_in_words(scene.controller.path[-2].trim or ContextTrim(kept=0))
        assert sentence in library.export_markdown(conversation) and "a summary of" in sentence
    path = whole_path(tmp_path)
    assert messages_of("", path[:-1]) == request.messages
    other = Store.open(tmp_path / "other.sqlite").store
    imported = other.path(other.import_json(exported).id)
    assert messages_of("", imported[:-1]) == request.messages
    other.close()


def test_the_rest_is_summarized_by_the_model_and_the_summary_is_shown(tmp_path: Path) -> None:
    seen: list[str] = []
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT) as scene:
        scene.controller.trimmer.progressed.connect(seen.append)
        full(scene)
        request = send_trimmed(scene, summarize=True)
        asked = scene.requested(Reply)[-2]
        assert asked.messages[-1].content == REQUEST and asked.sampling.max_tokens == SUMMARY_TOKENS
        assert words(asked.messages) <= CONTEXT - SUMMARY_TOKENS and len(asked.messages) > 2
        summary = text_of(REPLY).strip()
        assert seen[-1].strip() == summary and scene.controller.path[-2].trim.summary == summary
        assert request.messages[0].content.startswith(f"{SUMMARY_OPENING}\n{summary}\n\n")
        assert request.messages[-1].content == "go on"
        assert words(request.messages) <= CONTEXT // 2 + REPLY + 10
        assert not [record for record in scene.controller.path if REQUEST in record.text]


@pytest.mark.slow
def test_a_second_trim_keeps_the_summary_of_the_first(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT) as scene:
        full(scene)
        send_trimmed(scene, summarize=True)
        summary = scene.controller.path[-2].trim.summary
        for _ in range(4):
            scene.ask(QUESTION)
        request = send_trimmed(scene, summarize=False)
        assert scene.controller.path[-2].trim.summary == summary
        assert request.messages[0].content.startswith(f"{SUMMARY_OPENING}\n{summary}")
        send_trimmed(scene, summarize=True, text=QUESTION)
        assert summary in scene.requested(Reply)[-2].messages[0].content


def test_a_question_that_is_too_long_alone_is_refused_with_the_reason(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT) as scene:
        full(scene, 2)
        path = list(scene.controller.path)
        scene.controller.send_trimmed("word " * CONTEXT, (), False)
        until(lambda: scene.notice(TOO_LONG))
        assert scene.controller.path == path and not scene.controller.busy


@pytest.mark.slow
@pytest.mark.parametrize("end", ["stop", "new"])
def test_a_summary_ends_by_stop_or_with_another_conversation_and_nothing_is_sent(tmp_path: Path, end: str) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT) as scene:
        full(scene)
        path = list(scene.controller.path)
        scene.controller.send_trimmed("go on", (), True)
        assert scene.controller.busy and scene.controller.in_use
        getattr(scene.controller, end)()
        until(lambda: scene.notice(STOPPED))
        assert scene.controller.path == (path if end == "stop" else []) and not scene.controller.busy
        assert scene.ask("short").state == "complete"


@pytest.mark.slow
def test_a_missing_round_ends_a_summary_and_the_engine_stops(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT, skip_after=22) as scene:
        full(scene)  # in 20 rounds
        scene.controller.send_trimmed("go on", (), True)
        until(lambda: scene.notice("inconsistent data"))
        assert scene.requested(Stop) and not scene.controller.busy and not scene.controller.host.in_use


def test_an_engine_that_is_silent_during_a_summary_is_reported_and_can_be_restarted(
    tmp_path: Path, long_waits: LongWaitsClock
) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT, hang_after=22) as scene:
        full(scene)  # in 20 rounds
        scene.controller.send_trimmed("go on", (), True)
        until(lambda: sum(isinstance(answer, RoundDone) for answer in scene.answers) == 22)
        long_waits.advance(HANG_S)
        scene.press("has not responded for", "Restart Engine")
        until(lambda: scene.notice("Nothing was sent."))
        assert not scene.controller.busy


def record(place: int, text: str, trim: ContextTrim | None = None) -> MessageRecord:
    role = "assistant" if place % 2 else "user"
    return MessageRecord(id=place + 1, conversation=1, parent=place or None, role=role, text=text, trim=trim)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kept", "summary", "want"),
    [(0, "", ["e"]), (2, "", ["c", "d", "e"]), (1, "", ["e"]), (99, "", ["a", "b", "c", "d", "e"])],
)
def test_the_model_is_given_what_is_kept_from_a_question_on(kept: int, summary: str, want: list[str]) -> None:
    """An answer without its question is left out too."""
    path = [record(place, text) for place, text in enumerate("abcd")]
    path.append(record(4, "e", ContextTrim(kept=kept, summary=summary)))
    assert [message.content for message in messages_of("", path)] == want
    later = [*path, record(5, "f"), record(6, "g")]
    assert [message.content for message in messages_of("", later)] == [*want, "f", "g"]


@pytest.mark.parametrize("switch", [True, False])
def test_a_model_that_thinks_has_room_to_or_is_told_not_to_and_its_thought_is_no_summary(
    tmp_path: Path, switch: bool
) -> None:
    with Scene(tmp_path, rounds=REPLY // 3, context=CONTEXT, thought=REPLY // 2, thinking=switch) as scene:
        full(scene)
        send_trimmed(scene, summarize=True)
        asked = scene.requested(Reply)[-2].sampling
        assert asked.thinking is (False if switch else None) and asked.max_tokens == SUMMARY_TOKENS
        assert asked.max_thought_tokens == (SUMMARY_TOKENS if switch else CONTEXT // 4)
        room = CONTEXT - SUMMARY_TOKENS - (0 if switch else CONTEXT // 4)
        assert words(scene.requested(Reply)[-2].messages) <= room
        summary = text_of(REPLY).removeprefix(text_of(REPLY // 2)).strip()
        assert scene.controller.path[-2].trim.summary == summary
