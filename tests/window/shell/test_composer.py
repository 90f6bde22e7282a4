"""The composer: what sends, what does not, what is attached and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QImage, QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.records import Attachment
from app.window.shell.attachments import LONG_PASTE
from app.window.shell.composer import Composer
from app.window.shell.editor import MOST_LINES
from app.window.shell.preferences import DRAFT, Draft
from app.window.shell.window import MainWindow
from tests.window.control.waiting import until
from tests.window.shell.conftest import end, open_window
from tests.window.shell.fakes import FakeController, message


@pytest.fixture
def composer(window: MainWindow) -> Composer:
    return window.parts.composer


def press(composer: Composer, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(composer.editor, key, modifier)


def paste(composer: Composer, text: str = "", files: tuple[Path, ...] = ()) -> None:
    given = QMimeData()
    if text:
        given.setText(text)
    if files:
        given.setUrls([QUrl.fromLocalFile(str(path)) for path in files])
    composer.editor.insertFromMimeData(given)


def drop(window: MainWindow, *paths: Path) -> None:
    """Drag files over the window and let them go."""
    given = QMimeData()
    given.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    at, copy, left = QPoint(300, 300), Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDragEnterEvent(at, copy, given, left, none))
    assert window.dropping.overlay.isVisible()
    QApplication.sendEvent(window, QDropEvent(QPointF(at), copy, given, left, none))


def notices(window: MainWindow) -> list[str]:
    return [banner.text for banner in window.parts.notices.banners]


# --- sending ----------------------------------------------------------------------------------


def test_enter_sends_what_is_written_and_clears_it(composer: Composer, controller: FakeController) -> None:
    QTest.keyClicks(composer.editor, "Why?")
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("send") == [("Why?", ())]
    assert composer.editor.toPlainText() == ""


def test_nothing_and_spaces_are_not_sent(composer: Composer, controller: FakeController) -> None:
    press(composer, Qt.Key.Key_Return)
    QTest.keyClicks(composer.editor, "   ")
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("send") == []
    assert not composer.send.isEnabled()


def test_shift_enter_starts_a_new_line(composer: Composer, controller: FakeController) -> None:
    QTest.keyClicks(composer.editor, "a")
    press(composer, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(composer.editor, "b")
    assert composer.editor.toPlainText() == "a\nb"
    assert controller.asked_for("send") == []


def test_enter_that_ends_a_composition_does_not_send(composer: Composer, controller: FakeController) -> None:
    QTest.keyClicks(composer.editor, "a")
    QApplication.sendEvent(composer.editor, QInputMethodEvent("にほん", []))
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("send") == []
    chosen = QInputMethodEvent("", [])
    chosen.setCommitString("日本")
    QApplication.sendEvent(composer.editor, chosen)
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("send") == [("a日本", ())]


def test_what_is_not_taken_stays_written(composer: Composer, controller: FakeController) -> None:
    controller.taken = False
    composer.set_draft(Draft(text="Why?", attachments=(Attachment(name="a.txt", text="a"),)))
    press(composer, Qt.Key.Key_Return)
    assert composer.draft == Draft(text="Why?", attachments=(Attachment(name="a.txt", text="a"),))


def test_while_a_reply_is_written_the_button_stops_it_and_enter_does_nothing(
    composer: Composer, controller: FakeController
) -> None:
    controller.be_busy(True)
    assert composer.send.accessibleName() == "Stop"
    QTest.keyClicks(composer.editor, "next")
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("send") == []
    composer.send.click()
    press(composer, Qt.Key.Key_Escape)
    assert controller.asked_for("stop") == [(), ()]
    controller.be_busy(False)
    assert composer.send.accessibleName() == "Send"
    assert composer.editor.toPlainText() == "next"


def test_it_grows_with_its_text_up_to_some_lines(composer: Composer) -> None:
    one = composer.editor.height()
    composer.set_draft(Draft(text="a\nb\nc"))
    three = composer.editor.height()
    composer.set_draft(Draft(text="\n".join("abcdefghijklmnop")))
    most = composer.editor.height()
    assert one < three < most
    assert most <= one + MOST_LINES * composer.editor.fontMetrics().lineSpacing()


# --- editing the last question ----------------------------------------------------------------


def test_up_with_nothing_written_edits_the_last_question(composer: Composer, controller: FakeController) -> None:
    controller.show([message(1, "user", "Why?"), message(2, "assistant", "So."), message(3, "user", "And?")])
    press(composer, Qt.Key.Key_Up)
    assert composer.editor.toPlainText() == "And?"
    QTest.keyClicks(composer.editor, "!")
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("edit") == [(3, "And?!")]
    assert controller.asked_for("send") == []
    assert composer.editor.toPlainText() == ""


def test_escape_leaves_an_edit_and_brings_back_what_stood_there(composer: Composer, controller: FakeController) -> None:
    controller.show([message(1, "user", "Why?"), message(2, "assistant", "So.")])
    composer.set_draft(Draft(text="half"))
    composer.begin_edit(1, "Why?")
    press(composer, Qt.Key.Key_Escape)
    assert composer.editor.toPlainText() == "half"
    assert controller.asked_for("edit") == []
    assert controller.asked_for("stop") == []


def test_up_within_text_moves_the_cursor(composer: Composer, controller: FakeController) -> None:
    controller.show([message(1, "user", "Why?")])
    QTest.keyClicks(composer.editor, "a")
    press(composer, Qt.Key.Key_Up)
    assert composer.editor.toPlainText() == "a"


# --- attachments ------------------------------------------------------------------------------


def test_a_long_paste_becomes_an_attachment_and_a_short_one_text(composer: Composer, window: MainWindow) -> None:
    paste(composer, "short")
    paste(composer, "x" * LONG_PASTE)
    paste(composer, "y\n" * 200)
    assert composer.draft.text == "short"
    assert [a.name for a in composer.draft.attachments] == ["Pasted text.txt", "Pasted text 2.txt"]
    assert [chip.accessibleName() for chip in composer.chips.all] == [
        "Attachment Pasted text.txt",
        "Attachment Pasted text 2.txt",
    ]


def test_files_dropped_on_the_window_are_attached_and_sent(
    window: MainWindow, composer: Composer, controller: FakeController, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Grüße\r\n", encoding="utf-8")
    (tmp_path / "wide.txt").write_text("wide", encoding="utf-16")
    drop(window, tmp_path / "notes.txt", tmp_path / "wide.txt")
    assert not window.dropping.overlay.isVisible()
    expected = (Attachment(name="notes.txt", text="Grüße\n"), Attachment(name="wide.txt", text="wide"))
    assert composer.draft.attachments == expected
    press(composer, Qt.Key.Key_Return)
    assert controller.asked_for("send") == [("", expected)]
    assert composer.draft == Draft()
    assert not composer.chips.all


def test_what_is_no_readable_text_is_refused_with_its_reason(window: MainWindow, tmp_path: Path) -> None:
    made = {"photo.png": b"\x89PNG\r\n", "data.bin": b"a\0b", "latin.txt": b"Gr\xfc\xdfe", "empty.txt": b" \n"}
    for name, data in made.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "huge.txt").write_bytes(b"x" * 1_000_001)
    (tmp_path / "folder").mkdir()
    names = [*made, "huge.txt", "folder", "missing.txt"]
    drop(window, *(tmp_path / name for name in names))
    assert window.parts.composer.draft == Draft()
    reasons = {
        "photo.png": "is a picture",
        "data.bin": "is binary",
        "latin.txt": "not text in UTF-8",
        "empty.txt": "is empty",
        "huge.txt": "the most is 1 MB",
        "folder": "is a folder",
        "missing.txt": "is not there",
    }
    said = notices(window)
    assert all(any(name in text and why in text for text in said) for name, why in reasons.items())


def test_a_folder_that_was_dropped_into_the_text_is_refused_too(
    composer: Composer, window: MainWindow, tmp_path: Path
) -> None:
    paste(composer, files=(tmp_path,))
    assert composer.draft == Draft()
    assert "is a folder" in notices(window)[0]


def test_a_picture_from_the_clipboard_is_refused(composer: Composer, window: MainWindow) -> None:
    given = QMimeData()
    given.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    composer.editor.insertFromMimeData(given)
    assert "picture" in notices(window)[0]


def test_attachments_of_one_question_have_a_limit(composer: Composer, window: MainWindow) -> None:
    for _ in range(3):
        paste(composer, "x" * 900_000)
    assert len(composer.draft.attachments) == 2
    assert "more than 2,000,000 characters" in notices(window)[0]


def test_a_chip_takes_its_attachment_away(composer: Composer, controller: FakeController) -> None:
    paste(composer, "x" * LONG_PASTE)
    paste(composer, "y" * LONG_PASTE)
    composer.chips.all[0].remove.click()
    assert [a.text[0] for a in composer.draft.attachments] == ["y"]
    assert controller.asked_for("draft_changed")[-1] == ("", composer.draft.attachments)


# --- drafts and the context -------------------------------------------------------------------


def test_each_conversation_keeps_its_draft(composer: Composer, controller: FakeController) -> None:
    controller.open(1)
    QTest.keyClicks(composer.editor, "one")
    paste(composer, "x" * LONG_PASTE)
    controller.open(2)
    assert composer.draft == Draft()
    QTest.keyClicks(composer.editor, "two")
    controller.open(1)
    assert (composer.draft.text, len(composer.draft.attachments)) == ("one", 1)


def test_a_draft_is_kept_a_moment_after_the_last_key_and_found_at_the_next_start(
    composer: Composer, controller: FakeController
) -> None:
    QTest.keyClicks(composer.editor, "unsent")
    until(lambda: "unsent" in controller.values.get(DRAFT.format(0), ""), 5)
    second = open_window(controller)
    assert second.parts.composer.editor.toPlainText() == "unsent"
    end(second)


def test_what_was_sent_is_no_draft_any_more(composer: Composer, controller: FakeController) -> None:
    QTest.keyClicks(composer.editor, "Why?")
    until(lambda: controller.values.get(DRAFT.format(0)), 5)
    press(composer, Qt.Key.Key_Return)
    until(lambda: controller.values[DRAFT.format(0)] == "", 5)


def test_typing_is_counted_with_what_is_attached(composer: Composer, controller: FakeController) -> None:
    QTest.keyClicks(composer.editor, "ab")
    assert controller.asked_for("draft_changed")[-1] == ("ab", ())


def test_the_composer_warns_when_the_context_is_nearly_full(composer: Composer, controller: FakeController) -> None:
    for tokens, said in ((7500, "692 of 8,192 tokens are left"), (9000, "808 tokens too long")):
        controller.counted.emit(tokens, 8192)
        assert composer.hint.isVisible()
        assert said in composer.hint.text()
    controller.counted.emit(100, 8192)
    assert not composer.hint.isVisible()
