"""The composer: what is sent, attached and refused, and how the last message is edited from it."""

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QImage, QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.store import StoreError
from app.store.records import Attachment
from app.window.chat import Controller
from app.window.common.preferences import DRAFT, Draft
from app.window.composer.attachments import LONG_PASTE, NO_IMAGES, AttachmentError, read_file
from app.window.composer.composer import Composer
from app.window.composer.prompt_editor import MAX_LINES
from app.window.main_window.chat_presenter import SAVE_DRAFT_MS
from app.window.main_window.main_window import MainWindow
from app.window.transcript.message_editor import MessageEditor
from app.window.transcript.question_tile import QuestionTile
from tests.app.window.chat.fake_host import command
from tests.app.window.chats import end, open_chat, open_window
from tests.app.window.stepped_clock import SteppedClock
from tests.app.window.waiting import until


@pytest.fixture
def composer(window: MainWindow) -> Composer:
    return window.parts.composer


def press(composer: Composer, key: Qt.Key, modifier: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.keyClick(composer.editor, key, modifier)


def paste(composer: Composer, text: str) -> None:
    content = QMimeData()
    content.setText(text)
    composer.editor.insertFromMimeData(content)


def content_of(*paths: Path) -> QMimeData:
    content = QMimeData()
    content.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return content


def drop(window: MainWindow, *paths: Path) -> None:
    """Drags files over the window and drops them."""
    drop_content(window, content_of(*paths))


def drop_content(window: MainWindow, given: QMimeData) -> None:
    at, copy, left = QPoint(300, 300), Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    none = Qt.KeyboardModifier.NoModifier
    QApplication.sendEvent(window, QDragEnterEvent(at, copy, given, left, none))
    assert window.drop_target.overlay.isVisible()
    QApplication.sendEvent(window, QDropEvent(QPointF(at), copy, given, left, none))


def notices(window: MainWindow) -> list[str]:
    return [banner.text for banner in window.parts.notices.banners]


def question_editor(window: MainWindow) -> MessageEditor:
    """Returns the editor of the question that is being edited."""
    (editor,) = window.parts.transcript.findChildren(MessageEditor)
    return editor


# --- sending ----------------------------------------------------------------------------------


def test_enter_sends_the_message_and_shift_enter_starts_a_line(composer: Composer, controller: Controller) -> None:
    press(composer, Qt.Key.Key_Return)
    QTest.keyClicks(composer.editor, "   ")
    press(composer, Qt.Key.Key_Return)
    assert controller.path == [] and not composer.send.isEnabled()  # an empty message is not sent
    composer.set_draft(Draft())
    QTest.keyClicks(composer.editor, "a")
    press(composer, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClicks(composer.editor, "b")
    assert composer.editor.toPlainText() == "a\nb" and controller.path == []
    press(composer, Qt.Key.Key_Return)
    assert controller.path[0].text == "a\nb"
    assert composer.editor.toPlainText() == ""


def test_enter_that_ends_a_composition_does_not_send(composer: Composer, controller: Controller) -> None:
    QTest.keyClicks(composer.editor, "a")
    QApplication.sendEvent(composer.editor, QInputMethodEvent("にほん", []))
    press(composer, Qt.Key.Key_Return)
    assert controller.path == []
    chosen = QInputMethodEvent("", [])
    chosen.setCommitString("日本")
    QApplication.sendEvent(composer.editor, chosen)
    press(composer, Qt.Key.Key_Return)
    assert controller.path[0].text == "a日本"


def test_a_message_that_cannot_be_sent_stays_in_the_composer(
    composer: Composer, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StoreError("the disk is full")

    monkeypatch.setattr(controller.library.store, "add_question", refuse)
    composer.set_draft(Draft(text="Why?", attachments=(Attachment(name="a.txt", text="a"),)))
    press(composer, Qt.Key.Key_Return)
    assert composer.draft == Draft(text="Why?", attachments=(Attachment(name="a.txt", text="a"),))


def test_during_a_reply_the_button_stops_it_and_enter_does_nothing(composer: Composer, controller: Controller) -> None:
    controller.send("Why?")
    assert composer.send.accessibleName() == "Stop"
    QTest.keyClicks(composer.editor, "next")
    press(composer, Qt.Key.Key_Return)
    assert [record.text for record in controller.path if record.role == "user"] == ["Why?"]
    composer.send.click()
    assert not controller.busy
    assert composer.send.accessibleName() == "Send"
    assert composer.editor.toPlainText() == "next"


def test_the_field_grows_with_its_text_up_to_a_limit(composer: Composer) -> None:
    heights = []
    for lines in (1, 3, MAX_LINES, 2 * MAX_LINES):
        composer.set_draft(Draft(text="\n".join("a" * lines)))
        heights.append(composer.editor.height())
    one, three, most, more = heights
    assert one < three < most == more <= one + MAX_LINES * composer.editor.fontMetrics().lineSpacing()


# --- editing the last message ----------------------------------------------------------------


def test_up_edits_the_last_message_only_in_an_empty_composer(window: MainWindow, controller: Controller) -> None:
    composer = window.parts.composer
    open_chat(controller, "Why?", "So.", "And?")
    note = Attachment(name="a.txt", text="a")
    for draft in (Draft(text="a"), Draft(attachments=(note,))):
        composer.set_draft(draft)
        press(composer, Qt.Key.Key_Up)
        assert composer.draft == draft and composer.editor.hasFocus()
    composer.set_draft(Draft())
    press(composer, Qt.Key.Key_Up)
    field = question_editor(window).field
    assert field.hasFocus() and field.toPlainText() == "And?"
    QTest.keyClicks(field, "!")
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert [record.text for record in controller.path][:3] == ["Why?", "So.", "And?!"]
    assert controller.path[2].versions == 2
    assert composer.editor.hasFocus() and composer.editor.toPlainText() == ""


def test_edit_last_message_shows_a_question_that_is_out_of_view(window: MainWindow, controller: Controller) -> None:
    """Also a second time, with what was typed before. Esc leads back to the composer, whose draft has stayed."""
    open_chat(controller, "Why?", "So.\n\n" * 400)
    column, composer = window.parts.transcript.column, window.parts.composer
    column.go_to_end()
    assert all(tile.geometry().bottom() < 0 for tile in column.shown_tiles()[:-1])  # all but the reply
    composer.set_draft(Draft(text="half"))
    window.commands["edit last"].trigger()
    field = question_editor(window).field
    QTest.keyClicks(field, "!")
    for _ in range(2):
        top = field.mapTo(column.viewport(), QPoint(0, 0)).y()
        assert field.hasFocus() and 0 <= top < column.viewport().height()
        composer.editor.setFocus()
        column.go_to_end()
        window.commands["edit last"].trigger()
    assert question_editor(window).field is field and field.toPlainText() == "Why?!"
    QTest.keyClick(field, Qt.Key.Key_Escape)
    assert composer.editor.hasFocus() and composer.draft == Draft(text="half")
    assert [record.text for record in controller.path][:1] == ["Why?"]


# --- attachments ------------------------------------------------------------------------------


def test_a_long_paste_becomes_an_attachment_that_its_chip_removes_and_a_short_one_text(composer: Composer) -> None:
    paste(composer, "short")
    paste(composer, "x" * LONG_PASTE)
    paste(composer, "y\n" * 200)
    assert composer.draft.text == "short"
    assert [a.name for a in composer.draft.attachments] == ["Pasted text.txt", "Pasted text 2.txt"]
    names = [chip.accessibleName() for chip in composer.chips.all]
    assert names == ["Attachment Pasted text.txt", "Attachment Pasted text 2.txt"]
    composer.chips.all[0].remove.click()
    assert [a.text[0] for a in composer.draft.attachments] == ["y"]


def test_files_dropped_on_the_window_are_attached_and_sent(
    window: MainWindow, composer: Composer, controller: Controller, tmp_path: Path
) -> None:
    (tmp_path / "notes.txt").write_text("Grüße\r\n", encoding="utf-8")
    (tmp_path / "wide.txt").write_text("wide", encoding="utf-16")
    drop(window, tmp_path / "notes.txt", tmp_path / "wide.txt")
    assert not window.drop_target.overlay.isVisible()
    expected = (Attachment(name="notes.txt", text="Grüße\n"), Attachment(name="wide.txt", text="wide"))
    assert composer.draft.attachments == expected
    press(composer, Qt.Key.Key_Return)
    assert controller.path[0].attachments == expected
    assert composer.draft == Draft()
    assert not composer.chips.all


def test_files_that_are_not_text_are_refused_with_the_reason(window: MainWindow, tmp_path: Path) -> None:
    files = {"photo.png": b"\x89PNG\r\n", "data.bin": b"a\0b", "empty.txt": b" \n"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "huge.txt").write_bytes(b"x" * 1_000_001)
    (tmp_path / "folder").mkdir()
    names = [*files, "huge.txt", "folder", "missing.txt"]
    drop(window, *(tmp_path / name for name in names))
    assert window.parts.composer.draft == Draft()
    reasons = {
        "photo.png": "is an image",
        "data.bin": "is a binary file",
        "empty.txt": "is empty",
        "huge.txt": "the limit is 1 MB",
        "folder": "is a folder",
        "missing.txt": "no longer exists",
    }
    texts = notices(window)
    assert all(any(name in text and why in text for text in texts) for name, why in reasons.items())


@pytest.mark.parametrize(
    ("encoding", "name", "text"),
    [
        ("gbk", "GBK", "这是一个测试文件,我们正在检查编码。\n第二行的价格是100元。"),
        ("shift_jis", "Shift-JIS", "これはテストです。日本語の文章を読み込みます。\n二行目の価格は100円。"),
        ("cp1252", "Windows-1252", "Grüße aus “Köln”: 5 €\nZweite Zeile."),
        ("euc_jp", "EUC-JP", "これはテストです。日本語の文章を読み込みます。"),
        ("cp1251", "Windows-1251", "Привет, как дела? Это русский текст."),
        ("utf-16-le", "UTF-16", "name;value\n1;2\n"),
        ("utf-16-be", "UTF-16", "name;value\n1;2\n"),
        ("utf-16", "", "name;値\n1;2\n"),
    ],
)
def test_a_text_in_another_encoding_is_attached_and_the_encoding_named(
    tmp_path: Path, encoding: str, name: str, text: str
) -> None:
    (tmp_path / "a.txt").write_bytes(text.encode(encoding))
    attachment, note = read_file(tmp_path / "a.txt")
    assert attachment.text == text and (f"was read as {name}." in note if name else not note)


def test_how_a_file_was_read_is_shown_and_damaged_utf_8_is_not_read_as_another_encoding(
    composer: Composer, window: MainWindow, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes("über alles\n".encode() * 50 + b"\xc3")
    drop(window, tmp_path / "a.txt")
    assert composer.draft == Draft() and "“a.txt” is damaged text" in notices(window)[0]
    (tmp_path / "b.txt").write_bytes("café".encode("cp1252"))
    drop(window, tmp_path / "b.txt")
    assert composer.draft.attachments[0].text == "café" and "was read as Windows-1252" in notices(window)[0]


def test_a_pasted_folder_or_image_is_refused(composer: Composer, window: MainWindow, tmp_path: Path) -> None:
    composer.editor.insertFromMimeData(content_of(tmp_path))
    image = QMimeData()
    image.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    composer.editor.insertFromMimeData(image)
    assert composer.draft == Draft()
    assert any("is a folder" in text for text in notices(window))
    assert any("Images cannot be attached" in text for text in notices(window))


def test_an_image_that_is_dragged_in_is_refused_before_it_is_dropped(window: MainWindow) -> None:
    image = QMimeData()
    image.setImageData(QImage(2, 2, QImage.Format.Format_RGB32))
    drop_content(window, image)
    assert window.drop_target.overlay.text() == NO_IMAGES and notices(window) == [NO_IMAGES]


@pytest.mark.parametrize("start", [b"\xff\xd8\xff\xe0", b"GIF89a", b"RIFF1234WEBP", b"\0\0\0\x18ftypheic"])
def test_image_files_are_named_as_what_they_are(tmp_path: Path, start: bytes) -> None:
    (tmp_path / "photo").write_bytes(start + bytes(100))
    with pytest.raises(AttachmentError, match="is an image"):
        read_file(tmp_path / "photo")


def test_the_attachments_of_a_message_have_a_limit(composer: Composer, window: MainWindow) -> None:
    composer.set_draft(Draft(attachments=2 * (Attachment(name="a.txt", text="x" * 900_000),)))
    paste(composer, "x" * 200_001)
    assert len(composer.draft.attachments) == 2
    assert "exceed 2,000,000 characters" in notices(window)[0]


# --- drafts and the context -------------------------------------------------------------------


def test_each_conversation_has_its_own_draft(composer: Composer, controller: Controller) -> None:
    controller.open(1)
    QTest.keyClicks(composer.editor, "one")
    paste(composer, "x" * LONG_PASTE)
    controller.open(2)
    assert composer.draft == Draft()
    QTest.keyClicks(composer.editor, "two")
    controller.open(1)
    assert (composer.draft.text, len(composer.draft.attachments)) == ("one", 1)


def test_a_draft_is_restored_at_the_next_start_until_it_is_sent(
    clock: SteppedClock, composer: Composer, controller: Controller
) -> None:
    QTest.keyClicks(composer.editor, "unsent")
    clock.advance(SAVE_DRAFT_MS / 1000)
    second = open_window(controller)
    assert second.parts.composer.editor.toPlainText() == "unsent"
    end(second)
    press(composer, Qt.Key.Key_Return)
    clock.advance(SAVE_DRAFT_MS / 1000)
    assert controller.library.value(DRAFT.format(0)) == ""


def test_attachments_count_towards_the_context(composer: Composer, window: MainWindow) -> None:
    window.controller.host.process.command = command()
    window.controller.start()
    QTest.keyClicks(composer.editor, "a b")
    paste(composer, "x " * LONG_PASTE)
    until(lambda: window.meter.value() > LONG_PASTE)


def test_the_composer_warns_of_a_full_context_and_keeps_what_is_too_long(
    composer: Composer, controller: Controller
) -> None:
    open_chat(controller, "Why?", "So.")
    composer.editor.setPlainText("And now?")
    for tokens, advice in ((7500, "692 of 8,192 tokens are left"), (8192, "1 token too long")):
        controller.pair.counted.emit(tokens, 8192)
        assert composer.warning.isVisible() and advice in composer.warning.text()
    assert not composer.send.isEnabled()
    press(composer, Qt.Key.Key_Return)
    assert composer.editor.toPlainText() == "And now?" and not controller.busy
    assert composer.keep_recent.isEnabled() and composer.summarize.isVisible() and composer.new_chat.isVisible()
    controller.pair.counted.emit(8191, 8192)
    assert not composer.summarize.isVisible()
    controller.pair.counted.emit(100, 8192)
    assert not composer.warning.isVisible()
    press(composer, Qt.Key.Key_Return)
    assert controller.busy


def test_a_full_context_goes_on_as_the_user_chooses(composer: Composer, controller: Controller) -> None:
    """The message stays in the composer until it is sent."""
    asked: list[tuple[str, bool]] = []
    composer.trim_asked.connect(lambda text, _, summarize: asked.append((text, summarize)))
    controller.pair.counted.emit(9000, 8192)
    assert not composer.keep_recent.isEnabled()
    QTest.keyClicks(composer.editor, "And now?")
    for button in (composer.keep_recent, composer.summarize):
        button.click()
        assert button.accessibleDescription() and composer.editor.toPlainText() == "And now?"
    assert asked == [("And now?", False), ("And now?", True)]
    controller.trimmer.progressed.emit("They spoke of the sea")
    assert composer.warning.text() == "Summarizing earlier messages: They spoke of the sea"
    controller.question_sent.emit()
    assert composer.editor.toPlainText() == ""


# --- edits of earlier questions ---------------------------------------------------------------


def editor_in(window: MainWindow) -> MessageEditor | None:
    found = [editor for editor in window.parts.transcript.findChildren(MessageEditor) if editor.isVisible()]
    return found[0] if found else None


def begin_edit(window: MainWindow, typed: str) -> None:
    window.presenter.edit_last()
    if editor := editor_in(window):
        QTest.keyClicks(editor.field, typed)


def test_an_edit_is_kept_when_another_chat_is_opened(window: MainWindow, controller: Controller) -> None:
    question, _ = open_chat(controller, "Why?", "So.")
    begin_edit(window, " And how?")
    controller.new()
    assert editor_in(window) is None
    controller.open(question.conversation)
    editor = editor_in(window)
    assert editor is not None and editor.field.toPlainText() == "Why? And how?"
    assert window.parts.composer.editor.hasFocus()
    editor.field.undo()
    assert editor.field.toPlainText() == "Why?"


def test_an_edit_is_kept_after_a_crash_until_it_is_sent(
    clock: SteppedClock, window: MainWindow, controller: Controller
) -> None:
    open_chat(controller, "Why?", "So.")
    begin_edit(window, " And how?")
    clock.advance(SAVE_DRAFT_MS / 1000)
    second = open_window(controller)
    editor = editor_in(second)
    assert editor is not None and editor.field.toPlainText() == "Why? And how?"
    end(second)
    QTest.keyClick(editor_in(window).field, Qt.Key.Key_Return)  # type: ignore[union-attr]
    assert controller.path[0].text == "Why? And how?"
    clock.advance(SAVE_DRAFT_MS / 1000)
    assert controller.library.value(DRAFT.format(controller.conversation.id)) == ""


def test_escape_keeps_an_edit_and_discarding_it_does_not(window: MainWindow, controller: Controller) -> None:
    open_chat(controller, "Why?", "So.")
    begin_edit(window, " And how?")
    QTest.keyClick(editor_in(window).field, Qt.Key.Key_Escape)  # type: ignore[union-attr]
    assert editor_in(window) is None
    tile = window.parts.transcript.findChild(QuestionTile)
    assert tile is not None and tile.footer.buttons["Edit"].shown
    begin_edit(window, "?")
    editor = editor_in(window)
    assert editor is not None and editor.field.toPlainText() == "Why? And how??"
    assert editor.cancel.text() == "Discard Changes"
    editor.cancel.click()
    begin_edit(window, "")
    editor = editor_in(window)
    assert editor is not None and editor.field.toPlainText() == "Why?" and editor.cancel.text() == "Cancel"
