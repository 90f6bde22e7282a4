"""A reply that thinks, in the window: stopped in its thought, continued, drawn again and asked anew."""

from pathlib import Path

import pytest

from app.protocol import Reply
from app.store.records import LENGTH_REACHED, THOUGHT_REACHED, UNANSWERED
from app.window.transcript.reply_tile import can_continue
from tests.app.window.chat.fake_host import text_of, word
from tests.app.window.chat.scene import Scene, whole_path
from tests.app.window.waiting import until


def words(first: int, end: int) -> str:
    return "".join(word(number) for number in range(first, end))


def test_thought_and_answer_are_saved_apart_with_the_settings_that_were_used(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=4, thought=7, temperature=0.6) as scene:
        record = scene.ask()
        assert (record.thought, record.text) == (text_of(7), words(7, 12))
        assert record.statistics is not None and record.statistics.thought_tokens == 7
        assert record.sampling is not None and record.sampling.temperature == 0.6
        assert "temperature" in record.sampling.from_model
        scene.ask("And?")
        sent = scene.requested(Reply)[-1]
        assert [(m.content, m.thought) for m in sent.messages if m.role == "assistant"] == [
            (record.text, record.thought)
        ]
    assert whole_path(tmp_path)[1].thought == record.thought


@pytest.mark.parametrize(
    ("reason", "note"),
    [
        pytest.param("thought", THOUGHT_REACHED, id="thought"),
        pytest.param("length", f"{LENGTH_REACHED} {UNANSWERED}", id="length", marks=pytest.mark.slow),
    ],
)
def test_a_reply_that_reached_a_limit_in_its_thought_says_so_and_goes_on(
    tmp_path: Path, reason: str, note: str
) -> None:
    with Scene(tmp_path, rounds=2, thought=9, reason=reason) as scene:
        record = scene.ask()
        assert (record.thought, record.text, record.note) == (text_of(6), "", note)
        assert can_continue(record)
        assert scene.controller.resume(record.id)
        until(lambda: len(scene.ended) == 2)
        assert (scene.ended[1].thought, scene.ended[1].text) == (text_of(9), words(9, 12))
        assert scene.requested(Reply)[-1].continuation_ids == tuple(range(6))


@pytest.mark.slow
def test_a_reply_stopped_in_its_thought_goes_on_and_is_drawn_again_and_asked_anew(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=60, thought=120, hold_after=3) as scene:
        scene.controller.send("why")
        message = scene.streaming(9)
        scene.controller.stop()
        until(lambda: scene.ended)
        stopped = scene.ended[0]
        assert (stopped.state, stopped.text) == ("stopped", "") and stopped.thought.startswith(text_of(9))
        assert scene.controller.resume(message)
        scene.go_on()
        until(lambda: len(scene.ended) == 2)
        assert scene.ended[1].thought == text_of(120) and scene.ended[1].text.startswith(word(120))
        assert not scene.controller.regenerate(message)  # greedy, it would be the same
        scene.press("always writes the same reply", "Write It Again")
        until(lambda: len(scene.ended) == 3)
        again = scene.ended[2]
        assert (again.thought, again.versions) == (text_of(120), 2)
        question = scene.controller.path[0]
        assert scene.controller.edit(question.id, "why not")
        until(lambda: len(scene.ended) == 4)
        assert scene.ended[3].thought == text_of(120)
        assert [m.content for m in scene.requested(Reply)[-1].messages] == ["why not"]
