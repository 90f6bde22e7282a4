"""PDF files as attachments: their text with the pages named, read in a process that cannot hang the window."""

import os
import random
import sys
from pathlib import Path

import pytest

from app import pdf_text
from app.store.records import Attachment
from app.window.composer import pdf_reader
from app.window.composer.composer import Composer
from app.window.composer.pdf_reader import PdfReader
from app.window.main_window.main_window import MainWindow
from tests.app.window.stepped_clock import LongWaitsClock, SteppedClock
from tests.app.window.waiting import until
from tests.toys.pdf_files import pdf, protected, written


@pytest.fixture
def composer(window: MainWindow) -> Composer:
    return window.parts.composer


def reasons(path: Path) -> str:
    """Returns why a file cannot be read."""
    with pytest.raises(pdf_text.PdfError) as caught:
        pdf_text.page_texts(path)
    return str(caught.value)


def test_pages_are_named_and_empty_ones_left_out(tmp_path: Path) -> None:
    pages = pdf_text.page_texts(written(tmp_path / "a.pdf", pdf("The first page.", "", "The third (and last).")))
    assert pages == ["The first page.", "", "The third (and last)."]
    assert pdf_text.with_page_numbers(pages) == "[Page 1]\nThe first page.\n\n[Page 3]\nThe third (and last)."


def test_what_cannot_be_read_says_why_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert reasons(written(tmp_path / "a.pdf", protected(pdf("secret"), "word"))) == pdf_text.PROTECTED
    for algorithm in ("RC4-128", "AES-128", "AES-256"):
        assert pdf_text.page_texts(written(tmp_path / "b.pdf", protected(pdf("open"), "", algorithm))) == ["open"]
    assert reasons(written(tmp_path / "c.pdf", pdf("", ""))) == pdf_text.SCANNED
    assert reasons(written(tmp_path / "d.pdf", b"%PDF-1.7\nnothing")) == pdf_text.DAMAGED
    monkeypatch.setattr(pdf_text, "MOST_CHARACTERS", 10)
    assert reasons(written(tmp_path / "e.pdf", pdf("more than ten letters"))) == pdf_text.TOO_LONG
    monkeypatch.setattr(pdf_text, "LARGEST_BYTES", 10)
    assert reasons(written(tmp_path / "e.pdf", pdf("short"))) == pdf_text.TOO_LARGE


def test_damage_anywhere_is_read_or_refused(tmp_path: Path) -> None:
    whole, dice = pdf("One page", "and another"), random.Random(5)
    for _ in range(50):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 4)):
            data[dice.randrange(5, len(data))] = dice.randrange(256)
        try:
            pdf_text.page_texts(written(tmp_path / "a.pdf", bytes(data)))
        except pdf_text.PdfError as error:
            assert str(error).endswith(".")


def test_a_pdf_is_attached_once_it_is_read_and_the_message_waits_for_it(composer: Composer, tmp_path: Path) -> None:
    refused: list[str] = []
    composer.refused.connect(refused.append)
    paths = [written(tmp_path / f"{name}.pdf", data) for name, data in (("a", pdf("Hello")), ("b", pdf("")))]
    composer.editor.setPlainText("Read this.")
    composer.attach_files(paths)
    assert not composer.send.isEnabled() and composer._reading.isVisible()
    until(lambda: refused)
    assert composer.draft.attachments == (Attachment(name="a.pdf", text="[Page 1]\nHello"),)
    assert refused == [f"“b.pdf” {pdf_text.SCANNED}"] and composer.send.isEnabled()


def test_the_text_of_a_draft_that_is_gone_goes_nowhere(composer: Composer, tmp_path: Path) -> None:
    composer.attach_files([written(tmp_path / "a.pdf", pdf("Hello"))])
    composer.set_draft(composer.draft)
    assert not composer._pdf_reader.busy and not composer.draft.attachments


@pytest.mark.parametrize("limit", ["MOST_SECONDS", "MOST_MEMORY_BYTES"])
def test_a_file_that_takes_too_much_is_given_up(
    clock: SteppedClock, composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """The reader waits for ever at a pipe to which nothing is written."""
    path = tmp_path / "bomb.pdf"
    os.mkfifo(path)
    if limit != "MOST_SECONDS":
        monkeypatch.setattr(pdf_reader, limit, -1)
    reader, failures = PdfReader(composer), list[str]()
    reader.failed.connect(failures.append)
    reader.add(path)
    assert reader.busy and not failures
    clock.advance(pdf_reader.MOST_SECONDS + 1 if limit == "MOST_SECONDS" else 1)
    until(lambda: failures)
    assert failures == [f"“bomb.pdf” {pdf_reader.TOO_LONG}"] and not reader.busy


def test_the_file_after_one_that_was_killed_is_read(
    long_waits: LongWaitsClock, composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = tmp_path / "bomb.pdf"
    os.mkfifo(bomb)
    composer.attach_files([written(tmp_path / "a.pdf", pdf("Hello"))])
    until(lambda: composer.draft.attachments)
    composer._pdf_reader.add(bomb)
    composer._pdf_reader.add(written(tmp_path / "b.pdf", pdf("there")))
    assert composer._pdf_reader._child is not None
    composer._pdf_reader._child.kill()
    until(lambda: not composer._pdf_reader.busy)
    assert [attachment.text for attachment in composer.draft.attachments] == ["[Page 1]\nHello", "[Page 1]\nthere"]


def test_each_file_is_given_up_when_the_reader_does_not_start(
    composer: Composer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []
    composer.refused.connect(refused.append)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "no python"))
    composer.attach_files([written(tmp_path / "a.pdf", pdf("Hello")), written(tmp_path / "b.pdf", pdf("there"))])
    until(lambda: not composer._pdf_reader.busy)
    assert refused == [f"“{name}.pdf” {pdf_reader.NOT_STARTED}" for name in "ab"]


def test_a_file_that_has_vanished_is_named_and_the_message_can_be_sent(composer: Composer, tmp_path: Path) -> None:
    refused: list[str] = []
    composer.refused.connect(refused.append)
    composer.editor.setPlainText("Read this.")
    composer._pdf_reader.add(tmp_path / "gone.pdf")
    until(lambda: refused)
    assert not composer._pdf_reader.busy and composer.send.isEnabled()
    assert refused == ["“gone.pdf” " + pdf_text.UNREADABLE.format("No such file or directory")]
    assert reasons(tmp_path / "gone.pdf") == pdf_text.UNREADABLE.format("No such file or directory")
