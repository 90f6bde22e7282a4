"""A reply is shown as it comes, and its sentences are announced."""

import itertools
import random

import pytest
from msgspec.structs import replace
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QTextDocument
from PySide6.QtWidgets import QApplication, QWidget

from app.reply import Reply
from app.window.common.widgets import announce
from app.window.transcript.announcer import BETWEEN_S, Announcer, without_marks
from app.window.transcript.reply_tile import ReplyTile
from engine.events import PromptProgress
from tests.app.window.markdown.documents import characters, described
from tests.app.window.transcript.conftest import MakeStage, Stage
from tests.app.window.transcript.samples import PARAGRAPH, REPLY, THOUGHT, live, question, reply, rounds


def test_sentences_come_whole_and_no_faster_than_they_can_be_heard() -> None:
    said: list[tuple[float, str]] = []
    now_s = 0.0
    announcer = Announcer(lambda text: said.append((now_s, text)))
    for word in ("One sentence. " * 40).split(" "):
        now_s += 0.05
        announcer.receive(word + " ", now_s)
    assert said and {text for _, text in said} == {"One sentence."}
    assert all(b - a >= BETWEEN_S for (a, _), (b, _) in itertools.pairwise(said))


def test_marks_of_markdown_are_not_read_out() -> None:
    assert without_marks("## The **small** `model` drafts") == "The small model drafts"
    assert without_marks("So **$\\frac{a}{b}$** is \\(x^2\\), not $5") == "So a/b is x², not $5"


def test_a_reply_without_a_full_stop_is_not_kept_back_for_ever() -> None:
    said: list[str] = []
    announcer = Announcer(said.append)
    for n in range(200):
        announcer.receive("word ", n * 0.1)
    assert said


def test_the_next_reply_does_not_go_on_with_the_last() -> None:
    said: list[str] = []
    announcer = Announcer(said.append)
    announcer.receive("First. Second. Third. ", 0.0)
    announcer.end("The reply is complete.", 0.1)
    announcer.begin()
    announcer.receive("Another. ", 5.0)
    assert said == ["First.", "The reply is complete.", "Another."]


def test_a_sentence_reaches_an_assistive_technology(app: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[QAccessibleAnnouncementEvent] = []
    monkeypatch.setattr(QAccessible, "isActive", lambda: True)
    monkeypatch.setattr(QAccessible, "updateAccessibility", heard.append)
    widget = QWidget()
    announce(widget, "A sentence.")
    assert [(event.message(), event.politeness()) for event in heard] == [
        ("A sentence.", QAccessible.AnnouncementPoliteness.Polite)
    ]


LONG = (REPLY + "\n\n") * 3


def reply_tile(stage: Stage) -> ReplyTile:
    tile = stage.transcript.column.shown_tiles()[-1]
    assert isinstance(tile, ReplyTile)
    return tile


def begin(stage: Stage) -> None:
    """A question is asked, and its reply begins."""
    stage.transcript.show_branch([question(1)], lambda _: Reply())
    stage.transcript.begin_reply(live(2, 1))


def documents(stage: Stage) -> list[QTextDocument]:
    """Those of all of the reply's pages, whether or not they are in view."""
    tile = reply_tile(stage)
    tile.arrange(700, -100_000, 200_000)
    return [tile.pages[number].document() for number in sorted(tile.pages)]


def snapshot(stage: Stage) -> list[list[object]]:
    """All that is to be seen of the reply."""
    return [described(document) for document in documents(stage)]


def grounds(stage: Stage) -> set[str]:
    """The tints that the reply stands on."""
    tints = stage.transcript.options.appearance.tints
    found = {one.origin for document in documents(stage) for one in characters(document)}
    return {tints[origin] for origin in found if origin}


def stream(stage: Stage, text: str, seed: int, frames: int = 40, thought: str = "") -> None:
    """`text` after `thought`, told in bursts of any size."""
    told, chance = list(rounds(text, seed, thought=thought)), random.Random(seed)
    begin(stage)
    at = 0
    while at < len(told):
        count = chance.choice((1, 2, len(told) // frames + 1))
        stage.stream(told[at : at + count])
        stage.frame(chance.uniform(0.01, 0.3))
        at += count
    stage.frame()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("thought", "text", "shown_as"),
    [
        ("", LONG, "rendered"),
        (THOUGHT, REPLY, "rendered"),
        ("", "word " * 2500, "rendered"),
        (THOUGHT, LONG, "raw"),
        ("", "word " * 2500, "raw"),
        (THOUGHT, REPLY, "refused"),
    ],
)
def test_streaming_equals_opening(stage: MakeStage, thought: str, text: str, shown_as: str) -> None:
    first, second = stage(), stage()
    for one in (first, second):
        one.transcript.change_options(raw=shown_as == "raw")
        one.transcript.change_options(refused=shown_as == "refused")
    stream(first, text, seed=3, thought=thought)
    whole = reply(2, text, 1, thought=thought)
    first.transcript.end_reply(whole)
    second.open(question(1), whole, told=list(rounds(text, 3, thought=thought)))
    assert snapshot(first) == snapshot(second)


def test_what_comes_is_shown_at_once(stage: MakeStage) -> None:
    one = stage()
    told = list(rounds(PARAGRAPH))
    begin(one)
    for count in range(0, len(told), 5):
        one.stream(told[count : count + 5])
        shown = "".join(text for done in told[: count + 5] for text in done.round.texts)
        assert one.transcript.column.entries[-1].source == shown
    assert reply_tile(one).pages[0].toPlainText().startswith("Speculative decoding lets a small model")


def test_the_end_shows_what_was_still_to_come(stage: MakeStage) -> None:
    one = stage()
    begin(one)
    one.stream(list(rounds(PARAGRAPH)))
    one.transcript.end_reply(reply(2, PARAGRAPH + " The end.", 1))
    assert reply_tile(one).pages[0].toPlainText().endswith("The end.")
    assert one.said[-1] == "The reply is complete."
    assert not reply_tile(one).entry.live


def test_a_reply_that_streams_behind_another_conversation_is_whole_when_it_comes_back(stage: MakeStage) -> None:
    one, told, written = stage(), list(rounds(LONG)), Reply()
    half = len(told) // 2
    streaming = [question(1), live(2, 1)]
    one.transcript.show_branch(streaming, lambda _: written)
    one.transcript.begin_reply(live(2, 1))
    one.stream(told[:10])
    one.transcript.show_branch([replace(question(9), conversation=2)], lambda _: Reply())
    for done in told[10:half]:
        written.add(done)
    one.transcript.show_change(2, written.take_change())
    assert len(one.transcript.column.entries) == 1
    one.transcript.show_branch(streaming, lambda _: written)
    one.transcript.begin_reply(live(2, 1))
    one.stream(told[half:])
    assert one.transcript.column.entries[-1].source == LONG


def test_a_stopped_reply_goes_on_where_it_was(stage: MakeStage) -> None:
    one, told = stage(), list(rounds(LONG))
    first = [*told[:20]]
    text = "".join(text for round_ in first for text in round_.round.texts)
    stopped = replace(reply(2, text, 1), state="stopped")
    written = Reply(first)
    one.transcript.show_branch([question(1), stopped], lambda _: written)
    one.settle()
    written.resume(stopped)
    one.transcript.begin_reply(replace(stopped, state="streaming"))
    one.stream(told[20:])
    one.frame()
    assert one.transcript.column.entries[-1].source == LONG
    assert len(one.transcript.column.entries) == 2


def test_a_regenerated_reply_takes_the_place_of_the_old_one(stage: MakeStage) -> None:
    one = stage()
    one.transcript.show_branch([question(1), reply(2, PARAGRAPH, 1), question(3, "More?", 2)], lambda _: Reply())
    one.transcript.begin_reply(live(4, 1))
    assert [entry.record.id for entry in one.transcript.column.entries] == [1, 4]


def test_a_waiting_reply_says_how_far_the_prompt_has_been_read(stage: MakeStage) -> None:
    one = stage()
    begin(one)
    one.transcript.show_progress(2, PromptProgress(512, 2048, 0, 0.1))
    waiting = reply_tile(one).waiting
    assert waiting.text() == "Reading the prompt, 512 of 2,048 tokens"
    one.transcript.show_progress(2, PromptProgress(2048, 2048, 0, 0.2))
    assert waiting.text().strip() in ("▍", "")
    one.stream(list(rounds(PARAGRAPH)))
    one.frame()
    assert not waiting.isVisible()


def test_plain_decoding_is_not_tinted_and_speculation_is(stage: MakeStage) -> None:
    plain, speculative = stage(), stage()
    plain.open(
        question(1),
        reply(2, PARAGRAPH, 1),
        told=[replace(told, drafted_texts=()) for told in rounds(PARAGRAPH, drafted=0)],
    )
    speculative.open(question(1), reply(2, PARAGRAPH, 1), told=list(rounds(PARAGRAPH)))
    tints = set(plain.transcript.options.appearance.tints.values())
    assert not grounds(plain) & tints
    assert tints <= grounds(speculative)


def test_tints_go_and_come_back_at_once(stage: MakeStage) -> None:
    one = stage()
    one.open(question(1), reply(2, PARAGRAPH, 1), told=list(rounds(PARAGRAPH)))
    before = snapshot(one)
    one.transcript.change_options(tints=False)
    assert not grounds(one) & set(one.transcript.options.appearance.tints.values())
    one.transcript.change_options(tints=True)
    assert snapshot(one) == before
