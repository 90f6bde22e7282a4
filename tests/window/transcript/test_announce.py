"""A screen reader hears sentences, one at a time, seldom; never tokens."""

from __future__ import annotations

import itertools

import pytest
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QApplication, QWidget

from app.window.transcript.announce import BETWEEN_S, Announcer, announce, spoken
from tests.window.transcript.conftest import MakeStage
from tests.window.transcript.samples import REPLY, live, question, reply, rounds


def test_sentences_come_whole_and_no_faster_than_they_can_be_heard() -> None:
    said: list[tuple[float, str]] = []
    now_s = 0.0
    announcer = Announcer(lambda text: said.append((now_s, text)))
    for word in ("One sentence. " * 40).split(" "):
        now_s += 0.05
        announcer.hear(word + " ", now_s)
    assert said and {text for _, text in said} == {"One sentence."}
    assert all(b - a >= BETWEEN_S for (a, _), (b, _) in itertools.pairwise(said))


def test_a_whole_reply_is_announced_seldom_and_its_end_once(stage: MakeStage) -> None:
    one, told = stage(), list(rounds(REPLY * 4, per_s=100))
    one.transcript.show_path([question(1)], lambda _: [])
    one.transcript.begin(live(2, 1))
    begin_s = one.now_s
    for at in range(0, len(told), 10):
        one.transcript.tell(2, told[at : at + 10])
        one.frame(0.3)
    one.transcript.end(reply(2, REPLY * 4, 1))
    seconds = one.now_s - begin_s
    assert 3 <= len(one.said) <= seconds / BETWEEN_S + 2
    assert one.said[-1] == "The reply is complete."
    assert all(len(text) > 3 for text in one.said)


def test_marks_of_markdown_are_not_read_out() -> None:
    assert spoken("## The **small** `model` drafts") == "The small model drafts"


def test_a_reply_without_a_full_stop_is_not_kept_back_for_ever() -> None:
    said: list[str] = []
    announcer = Announcer(said.append)
    for n in range(200):
        announcer.hear("word ", n * 0.1)
    assert said


def test_the_next_reply_does_not_go_on_with_the_last() -> None:
    said: list[str] = []
    announcer = Announcer(said.append)
    announcer.hear("First. Second. Third. ", 0.0)
    announcer.end("The reply is complete.", 0.1)
    announcer.begin()
    announcer.hear("Another. ", 5.0)
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
