"""What can be done with a message."""

from typing import Any

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QContextMenuEvent, QGuiApplication, QInputMethodEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QDialog, QMenu, QPlainTextEdit

from app.cli.terminal.reply_view import statistics
from app.protocol import SamplingSettings
from app.reply import Reply
from app.store.records import THOUGHT_REACHED
from app.window.transcript.message_editor import MessageEditor
from app.window.transcript.message_tile import MessageTile
from app.window.transcript.question_tile import QuestionTile
from app.window.transcript.reply_tile import ReplyTile, can_continue
from engine.metrics import Metrics
from tests.app.window.transcript.conftest import MakeStage, emitted
from tests.app.window.transcript.samples import CODE, NOTES, PARAGRAPH, REPLY, THOUGHT, question, reply, rounds


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def act(tile: MessageTile, name: str) -> None:
    tile.footer.buttons[name].click()


def test_copy_gives_the_source(stage: MakeStage) -> None:
    tiles = stage().open(question(1), reply(2, REPLY, 1)).tiles
    act(tiles[1], "Copy Message")
    assert clipboard() == REPLY
    act(tiles[0], "Copy Message")
    assert clipboard() == question(1).text


def test_copy_as_plain_text_leaves_the_marks_and_the_thought_out(stage: MakeStage) -> None:
    tiles = stage().open(question(1), reply(2, REPLY, 1, thought=THOUGHT)).tiles
    act(tiles[1], "Copy as Plain Text")
    assert "a small model" in clipboard() and "return True" in clipboard()
    for mark in ("**", "```", "I should be short"):
        assert mark not in clipboard()


@pytest.mark.parametrize("by", ["a model", "a person"])  # who edited it
def test_an_answer_about_the_tags_of_thoughts_is_copied_and_shown_whole(stage: MakeStage, by: str) -> None:
    text = "It writes\n\n<think>\n\nfirst, then thinks, and ends with\n\n</think>\n\nat last."
    tiles = stage().open(question(1), reply(2, text, 1), told=None if by == "a model" else []).tiles
    act(tiles[1], "Copy as Plain Text")
    assert clipboard() == text
    assert not tiles[1].folds and tiles[1].pages[0].toPlainText() == text.replace("\n\n", "\n")


def test_regenerate_and_continue_say_which_reply(stage: MakeStage) -> None:
    one = stage().open(question(1), replace(reply(2, PARAGRAPH, 1), state="stopped"))
    again, on = emitted(one.transcript.regenerate), emitted(one.transcript.resume)
    act(one.tiles[1], "Regenerate")
    act(one.tiles[1], "Continue")
    assert (again, on) == ([2], [2])


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({"state": "complete"}, False),
        ({"state": "complete", "note": "Fell back to plain decoding: no memory."}, False),
        (
            {"state": "complete", "note": "It reached the longest reply.", "sampling": SamplingSettings(max_tokens=5)},
            True,
        ),
        ({"state": "complete", "note": THOUGHT_REACHED, "sampling": SamplingSettings(max_thought_tokens=9)}, True),
        ({"state": "stopped"}, True),
        ({"state": "cut", "note": "the app was closed"}, True),
        ({"state": "failed", "note": "no memory"}, True),
    ],
)
def test_a_reply_that_has_more_to_say_can_be_continued(changes: dict[str, Any], offered: bool) -> None:
    assert can_continue(replace(reply(2, PARAGRAPH, 1, list(rounds(PARAGRAPH))), **changes)) == offered


def test_continue_is_offered_at_the_last_reply_alone(stage: MakeStage) -> None:
    first, last = (replace(reply(id, PARAGRAPH, id - 1), state="stopped") for id in (2, 4))
    tiles = stage(800, 900).open(question(1), first, question(3, "And?", 2), last).tiles
    assert [tiles[place].footer.buttons["Continue"].isVisible() for place in (1, 3)] == [False, True]


@pytest.mark.parametrize(
    ("state", "note", "said"),
    [
        ("stopped", "", "Stopped"),
        ("cut", "the app was closed", "Interrupted: the app was closed"),
        ("failed", "no memory", "Failed: no memory"),
        ("complete", "", ""),
    ],
)
def test_a_reply_says_how_it_ended(stage: MakeStage, state: Any, note: str, said: str) -> None:
    tiles = stage().open(question(1), replace(reply(2, PARAGRAPH, 1), state=state, note=note)).tiles
    assert tiles[1].note.text() == said
    assert tiles[1].note.isVisible() == bool(said)


def test_the_numbers_are_those_of_the_terminal(stage: MakeStage) -> None:
    told = list(rounds(REPLY))
    tiles = stage().open(question(1), reply(2, REPLY, 1, told)).tiles
    assert tiles[1].footer.numbers.text() == statistics(Metrics.of(one.round for one in told))


def test_versions_are_switched(stage: MakeStage) -> None:
    second = replace(reply(5, PARAGRAPH, 1), version=2, versions=3, siblings=(4, 5, 6))
    one = stage().open(question(1), second)
    chosen = emitted(one.transcript.select)
    one.tiles[1].footer.before.click()
    one.tiles[1].footer.after.click()
    assert chosen == [4, 6]
    assert not one.tiles[0].footer.before.isVisible()
    first = stage().open(replace(question(1), version=1, versions=2, siblings=(1, 9))).tiles[0].footer
    assert (first.before.isEnabled(), first.after.isEnabled()) == (False, True)


def test_a_question_is_edited_in_its_place(stage: MakeStage) -> None:
    one = stage().open(question(1), reply(2, PARAGRAPH, 1))
    edited = emitted(one.transcript.edit)
    tile = one.tiles[0]
    assert isinstance(tile, QuestionTile)
    act(tile, "Edit")
    QTest.keyClick(tile.editor.field, Qt.Key.Key_Escape)
    assert edited == [] and tile.editor is None
    act(tile, "Edit")
    assert tile.editor is not None and not tile.page.isVisible()
    tile.editor.field.setPlainText("Another\nquestion")
    QTest.keyClick(tile.editor.field, Qt.Key.Key_Return)
    assert edited == [(1, "Another\nquestion")]
    one.transcript.show_branch([question(3, "Another\nquestion")], lambda _: Reply())
    assert tile not in one.tiles


def test_a_reply_is_edited_in_its_place_and_one_of_several_versions_deleted(stage: MakeStage) -> None:
    second = replace(reply(5, "two\nlines", 1), version=2, versions=2, siblings=(4, 5))
    one = stage().open(question(1), second)
    edited, deleted = emitted(one.transcript.edit), emitted(one.transcript.delete_version)
    tile = one.tiles[1]
    act(tile, "Edit")
    assert tile.editor is not None and tile.editor.field.toPlainText() == "two\nlines" and not tile.pages
    assert not tile.editor.save.isEnabled()  # another version with the same text
    QTest.keyClick(tile.editor.field, Qt.Key.Key_Return)
    QTest.keyClicks(tile.editor.field, "three")
    QTest.keyClick(tile.editor.field, Qt.Key.Key_Escape)
    assert edited == [] and tile.pages
    act(tile, "Edit")
    *_, editor = one.transcript.findChildren(MessageEditor)
    QTest.keyClick(editor.field, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert edited == [(5, "two\nlines\nthree")]
    editor.cancel.click()
    act(tile, "Delete This Version")
    assert deleted == [5]
    assert not one.tiles[0].footer.buttons["Delete This Version"].isVisible()


def test_enter_that_ends_a_composition_does_not_send_an_edit(stage: MakeStage) -> None:
    one = stage().open(question(1, "a"))
    edited = emitted(one.transcript.edit)
    act(one.tiles[0], "Edit")
    field = one.tiles[0].editor.field
    QApplication.sendEvent(field, QInputMethodEvent("にほん", []))
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert edited == []
    chosen = QInputMethodEvent("", [])
    chosen.setCommitString("日本")
    QApplication.sendEvent(field, chosen)
    QTest.keyClick(field, Qt.Key.Key_Return)
    assert edited == [(1, "a日本")]


def test_an_editor_survives_scrolling_away(stage: MakeStage) -> None:
    path = [question(1), *(reply(n, REPLY, n - 1) if n % 2 == 0 else question(n, "?", n - 1) for n in range(2, 21))]
    one = stage().open(*path)
    one.scroll_to(0)
    tile = one.tiles[0]
    act(tile, "Edit")
    one.scroll_to(one.transcript.column.verticalScrollBar().maximum())
    one.idle()
    assert tile in one.tiles


def test_attachments_open_to_a_preview(stage: MakeStage) -> None:
    tiles = stage().open(replace(question(1), attachments=(NOTES,))).tiles
    (chip,) = tiles[0].chips
    assert chip.accessibleName() == "Attached file notes.md"
    chip.click()
    dialog = next(widget for widget in QApplication.topLevelWidgets() if isinstance(widget, QDialog))
    assert dialog.findChild(QPlainTextEdit).toPlainText() == NOTES.text
    dialog.close()


def test_a_long_question_is_folded_until_asked_for(stage: MakeStage) -> None:
    text = "\n".join(f"line {n}" for n in range(200))
    one = stage().open(question(1, text))
    height = one.tiles[0].height()
    assert "line 199" not in one.tiles[0].page.toPlainText()
    one.tiles[0].more.click()
    one.settle()
    assert one.tiles[0].page.toPlainText() == text
    assert one.tiles[0].height() > height


def test_thought_is_folded_and_opens(stage: MakeStage) -> None:
    one = stage().open(question(1), reply(2, PARAGRAPH, 1, thought=THOUGHT))
    tile = one.tiles[1]
    assert isinstance(tile, ReplyTile)

    def text() -> str:
        one.settle()
        return "\n".join(page.toPlainText() for page in tile.pages.values())

    (fold,) = tile.folds.values()
    assert "I should be short" not in text()
    assert fold.text().startswith("Thought for ") and fold.text().endswith(" tokens")
    fold.click()
    assert "I should be short" in text()
    fold.click()
    assert "I should be short" not in text()


def test_raw_shows_the_thought_and_the_marks_of_the_answer(stage: MakeStage) -> None:
    one = stage().open(question(1), reply(2, PARAGRAPH, 1, thought=THOUGHT))
    one.transcript.change_options(raw=True)
    one.settle()
    pages = one.tiles[1].pages
    text = "\n".join(pages[index].toPlainText() for index in sorted(pages))
    assert "The user asks" in text and "**small**" in text
    assert not any(fold.isVisible() for fold in one.tiles[1].folds.values())


def test_a_code_block_is_copied_by_its_button(stage: MakeStage) -> None:
    tiles = stage().open(question(1), reply(2, f"See:\n\n{CODE}\n\nDone.", 1)).tiles
    (button,) = tiles[1].pages[0].focus_widgets()[1:]
    assert button.accessibleName() == "Copy python code"
    button.click()
    assert clipboard().rstrip("\n") == "\n".join(CODE.splitlines()[1:-1])


def test_code_that_was_cut_is_copied_whole(stage: MakeStage) -> None:
    code = "".join(f"    value_{n} = compute({n})\n" for n in range(400))
    tiles = stage().open(question(1), reply(2, f"See:\n\n```python\n{code}```\n\nDone.", 1)).tiles
    tiles[-1].arrange(700, -100_000, 200_000)
    buttons = [page.focus_widgets()[1] for page in tiles[-1].pages.values() if len(page.focus_widgets()) > 1]
    assert len(buttons) > 2
    for button in buttons:
        button.click()
        assert clipboard().rstrip("\n") == code.rstrip("\n")


def test_the_menu_offers_what_there_is_to_copy(stage: MakeStage) -> None:
    one = stage().open(question(1), reply(2, f"See:\n\n{CODE}\n\nDone.", 1))
    page = one.tiles[1].pages[0]
    button = page.focus_widgets()[1]
    place = QPoint(60, button.geometry().bottom() + 20)
    QApplication.sendEvent(
        page.viewport(), QContextMenuEvent(QContextMenuEvent.Reason.Mouse, place, page.mapToGlobal(place))
    )
    menu = one.tiles[1].findChild(QMenu)
    actions = {action.text(): action for action in menu.actions()}
    assert list(actions) == ["Copy", "Copy Message", "Copy Code"]
    assert not actions["Copy"].isEnabled()
    actions["Copy Code"].trigger()
    assert "def accept" in clipboard()
    menu.close()
    one.settle()


def test_a_link_is_asked_for_and_not_opened(stage: MakeStage) -> None:
    one = stage().open(question(1), reply(2, "[here](https://example.org/a)", 1))
    asked = emitted(one.transcript.link_clicked)
    page = one.tiles[1].pages[0]
    cursor = page.textCursor()
    cursor.setPosition(2)
    QTest.mouseClick(page.viewport(), Qt.MouseButton.LeftButton, pos=page.cursorRect(cursor).center())
    assert [url.toString() for url in asked] == ["https://example.org/a"]


def test_actions_that_an_icon_does_not_say_have_words(stage: MakeStage) -> None:
    last = replace(reply(2, PARAGRAPH, 1), state="stopped", sampling=SamplingSettings())
    tiles = stage().open(question(1), last).tiles
    buttons = {**tiles[0].footer.buttons, **tiles[1].footer.buttons}
    icon_alone = buttons["Copy Message"].width()
    for name in ("Verify", "Continue", "Race This Prompt"):
        button = buttons[name]
        word, button.shown = button._word, True
        drawn, button._word = button.grab().toImage(), ""
        assert word and button.width() > icon_alone and button.grab().toImage() != drawn
    tiles[1].footer.show_record(last, "Verifying, 1 of 9 tokens")
    assert buttons["Verify"]._word == "Stop"
