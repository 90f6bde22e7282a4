"""A reply that streams looks, at every moment and in the end, like one that was opened."""

from __future__ import annotations

import itertools
import random

import pytest
from msgspec.structs import replace
from PySide6.QtGui import QTextDocument

from app.protocol import Told
from app.window.reading import TOKEN
from app.window.transcript.reply import ReplyTile
from engine.events import PromptProgress
from tests.window.transcript.conftest import MakeStage, Stage
from tests.window.transcript.samples import PARAGRAPH, REPLY, THOUGHT, live, question, reply, rounds

LONG = (REPLY + "\n\n") * 3


def reply_tile(stage: Stage) -> ReplyTile:
    tile = stage.transcript.column.shown()[-1]
    assert isinstance(tile, ReplyTile)
    return tile


def characters(document: QTextDocument) -> list[tuple[str, object, str, str]]:
    """Every stretch of text with its token, its ground and its line."""
    found = []
    block = document.begin()
    while block.isValid():
        place = block.begin()
        while not place.atEnd():
            fragment = place.fragment()
            shape = fragment.charFormat()
            cue = f"{shape.underlineStyle()} {shape.foreground().color().name()}"
            found.append((fragment.text(), shape.property(TOKEN), shape.background().color().name(), cue))
            place += 1
        found.append(("\n", block.textList() is not None, "", ""))
        block = block.next()
    return found


def shown(stage: Stage) -> list[list[tuple[str, object, str, str]]]:
    """All of the reply's pages, whether or not they are in view."""
    tile = reply_tile(stage)
    tile.arrange(700, -100_000, 200_000)
    return [characters(tile.body.pages[index].document()) for index in sorted(tile.body.pages)]


def streamed(stage: Stage, text: str, seed: int, frames: int = 40) -> None:
    """`text` told in bursts of any size."""
    told, chance = list(rounds(text, seed)), random.Random(seed)
    stage.transcript.show_path([question(1)], lambda _: [])
    stage.transcript.begin(live(2, 1))
    at = 0
    while at < len(told):
        count = chance.choice((1, 2, len(told) // frames + 1))
        stage.transcript.tell(2, told[at : at + count])
        stage.frame(chance.uniform(0.01, 0.3))
        at += count
    stage.frame()


def opened(stage: Stage, text: str, told: list[Told]) -> None:
    stage.transcript.show_path([question(1), reply(2, text, 1)], lambda _: told)
    stage.settle()


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize(
    "text", [REPLY, LONG, THOUGHT + REPLY, "word " * 2500], ids=["short", "long", "thought", "line"]
)
def test_streaming_equals_opening(stage: MakeStage, text: str, raw: bool) -> None:
    first, second = stage(), stage()
    for one in (first, second):
        one.transcript.set_raw(raw)
    streamed(first, text, seed=3)
    first.transcript.end(reply(2, text, 1))
    opened(second, text, list(rounds(text, 3)))
    assert shown(first) == shown(second)


def test_every_token_is_on_screen_when_its_time_has_come(stage: MakeStage) -> None:
    one = stage()
    streamed(one, LONG, seed=1)
    assert one.transcript.column.entries[-1].source == LONG


def test_tokens_of_a_round_appear_one_after_the_other(stage: MakeStage) -> None:
    one = stage()
    told = list(rounds(PARAGRAPH, per_s=20.0))
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.begin(live(2, 1))
    one.transcript.tell(2, told[:6])
    seen = []
    for _ in range(20):
        one.frame(0.01)
        seen.append(one.transcript.column.entries[-1].source)
    assert len(set(seen)) > 2
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(seen))


def test_with_reduced_motion_they_appear_at_once(stage: MakeStage) -> None:
    one = stage()
    told = list(rounds(PARAGRAPH, per_s=1.0))
    one.transcript.set_reduced_motion(True)
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.begin(live(2, 1))
    one.transcript.tell(2, told)
    one.frame(0.0)
    assert one.transcript.column.entries[-1].source == PARAGRAPH


def test_the_end_shows_what_was_still_to_come(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.begin(live(2, 1))
    one.transcript.tell(2, list(rounds(PARAGRAPH)))
    one.transcript.end(reply(2, PARAGRAPH + " The end.", 1))
    assert reply_tile(one).body.pages[0].toPlainText().endswith("The end.")
    assert not reply_tile(one).entry.live


def test_rounds_of_a_reply_that_is_not_shown_are_left_alone(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.tell(77, list(rounds(PARAGRAPH)))
    one.frame()
    assert len(one.transcript.column.entries) == 1


def test_a_reply_that_streams_behind_another_conversation_is_whole_when_it_comes_back(stage: MakeStage) -> None:
    one, told = stage(), list(rounds(LONG))
    half = len(told) // 2
    streaming = [question(1), live(2, 1)]
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.begin(live(2, 1))
    one.transcript.tell(2, told[:10])
    one.transcript.show_path([replace(question(9), conversation=2)], lambda _: [])
    one.transcript.tell(2, told[10:half])
    one.transcript.show_path(streaming, lambda _: told[:half])
    one.transcript.begin(live(2, 1))
    one.transcript.tell(2, told[half:])
    one.frame()
    assert one.transcript.column.entries[-1].source == LONG


def test_a_stopped_reply_goes_on_where_it_was(stage: MakeStage) -> None:
    one, told = stage(), list(rounds(LONG))
    first = [*told[:20]]
    text = "".join(text for round_ in first for text in round_.round.texts)
    stopped = replace(reply(2, text, 1), state="stopped")
    one.transcript.show_path([question(1), stopped], lambda _: first)
    one.settle()
    one.transcript.begin(replace(stopped, state="streaming"))
    one.transcript.tell(2, told[20:])
    one.frame()
    assert one.transcript.column.entries[-1].source == LONG
    assert len(one.transcript.column.entries) == 2


def test_a_regenerated_reply_takes_the_place_of_the_old_one(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_path([question(1), reply(2, PARAGRAPH, 1), question(3, "More?", 2)], lambda _: [])
    one.transcript.begin(live(4, 1))
    assert [entry.record.id for entry in one.transcript.column.entries] == [1, 4]


def test_a_waiting_reply_says_how_far_the_prompt_has_been_read(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.begin(live(2, 1))
    one.transcript.progress(2, PromptProgress(512, 2048, 0, 0.1))
    waiting = reply_tile(one).waiting
    assert waiting.text() == "reading the prompt 512 of 2,048"
    one.transcript.progress(2, PromptProgress(2048, 2048, 0, 0.2))
    assert waiting.text().strip() in ("▍", "")
    one.transcript.tell(2, list(rounds(PARAGRAPH)))
    one.frame()
    assert not waiting.isVisible()


def test_plain_decoding_is_not_tinted_and_speculation_is(stage: MakeStage) -> None:
    one = stage()
    plain = [replace(told, drafted_texts=()) for told in rounds(PARAGRAPH, drafted=0)]
    opened(one, PARAGRAPH, plain)
    grounds = {ground for page in shown(one) for _, _, ground, _ in page}
    two = stage()
    opened(two, PARAGRAPH, list(rounds(PARAGRAPH)))
    tinted = {ground for page in shown(two) for _, _, ground, _ in page}
    assert not grounds & set(one.transcript.manner.look.tints.values())
    assert set(two.transcript.manner.look.tints.values()) <= tinted


def test_tints_go_and_come_back_at_once(stage: MakeStage) -> None:
    one = stage()
    opened(one, PARAGRAPH, list(rounds(PARAGRAPH)))
    before = shown(one)
    one.transcript.set_tints(False)
    without = shown(one)
    one.transcript.set_tints(True)
    assert not {ground for page in without for _, _, ground, _ in page} & set(one.transcript.manner.look.tints.values())
    assert shown(one) == before
