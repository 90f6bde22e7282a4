"""Tokens under the mouse and the keyboard, and those that were refused."""

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest

from app.reply import TokenDetail
from app.token_explanation import explain_emitted
from app.window.common.appearance import LIGHT
from app.window.markdown import token_of, token_runs
from app.window.markdown.text_formats import REFUSED
from app.window.transcript.reply_tile import ReplyTile
from app.window.transcript.text_page import TextPage
from app.window.transcript.token_panel import as_html, as_text
from tests.app.window.inspector.sample_rounds import CORRECTED
from tests.app.window.transcript.conftest import MakeStage, Stage
from tests.app.window.transcript.samples import CODE, PARAGRAPH, REPLY, question, reply, rounds


def open_reply(stage: MakeStage, text: str = PARAGRAPH) -> tuple[Stage, ReplyTile]:
    one = stage().open(question(1), reply(2, text, 1), told=list(rounds(text)))
    return one, one.tiles[1]


def token_places(page: TextPage) -> dict[int, QPointF]:
    """Somewhere within each token that is seen."""
    places = {}
    for token, start, _ in token_runs(page.document()):
        cursor = page.textCursor()
        cursor.setPosition(start)
        places.setdefault(token, QPointF(page.cursorRect(cursor).center()) + QPointF(2, 0))
    return places


def pointed_at(one: Stage) -> TokenDetail | None:
    """The token that the mouse or the keyboard went to."""
    if one.transcript._pointed is None:
        return None
    tile, token, _ = one.transcript._pointed
    return tile.entry.detail(token)


def test_the_token_under_the_mouse_is_told_with_its_round(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    page = tile.pages[0]
    details = [tile.entry.detail(token) for token in range(60)]
    token, wrong = next((n, d) for n, d in enumerate(details) if d and d.kind == "corrected" and d.text != " ")
    QTest.mouseMove(page.viewport(), page.viewport().rect().bottomRight())  # else it may be there, and not move
    one.settle()
    QTest.mouseMove(page.viewport(), token_places(page)[token].toPoint())
    one.frame()
    assert pointed_at(one) == wrong and wrong.instead and wrong.round >= 1
    QTest.mouseMove(page.viewport(), page.viewport().rect().bottomRight())
    one.frame()
    assert pointed_at(one) is None


def test_every_character_leads_to_the_token_that_it_came_from(stage: MakeStage) -> None:
    _, tile = open_reply(stage)
    texts = [text for told in rounds(PARAGRAPH) for text in told.round.texts]
    page = tile.pages[0]
    for token, start, end in token_runs(page.document()):
        cursor = page.textCursor()
        cursor.setPosition(start)
        cursor.setPosition(end, cursor.MoveMode.KeepAnchor)
        assert cursor.selectedText() in texts[token]
        detail = tile.entry.reply.detail(token)
        assert detail is not None and detail.text == texts[token]


def test_the_keyboard_goes_from_token_to_token_and_hears_about_each(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    page = tile.pages[0]
    page.setFocus()
    for number in page.tokens()[:3]:
        QTest.keyClick(page, Qt.Key.Key_Right)
        assert pointed_at(one) == tile.entry.detail(number)
    assert len(one.said) == 3 and "round 1" in one.said[0]
    assert one.transcript.panel.isVisible()
    QTest.keyClick(page, Qt.Key.Key_Left)
    assert pointed_at(one) == tile.entry.detail(page.tokens()[1])
    assert len(page.extraSelections()) == 1
    QTest.keyClick(page, Qt.Key.Key_Escape)
    assert pointed_at(one) is None and not page.extraSelections() and not one.transcript.panel.isVisible()


def test_the_panel_shows_what_a_model_wrote_as_text() -> None:
    detail = TokenDetail(1, "<b>x</b>", "corrected", 0.5, None, (("<img src=x>", 0.25),))
    shown = as_html(detail, LIGHT)
    assert "<img" not in shown and "<b>x" not in shown
    assert "&lt;img" in shown
    assert "q 0.25" in as_text(detail)


def test_the_panel_says_why_a_draft_was_refused_and_hears_the_words_alone() -> None:
    detail = TokenDetail(1, " red", "corrected", 0.5, None, why=explain_emitted(CORRECTED, 1))
    shown, said = as_html(detail, LIGHT), as_text(detail)
    assert "min(1, p(x)/q(x)) = min(1, 0.120/0.380) = 0.316; u = 0.620" in shown
    assert "Leviathan 2023" in shown
    assert "The drafter proposed “ blue” with probability 38%." in said and "min(1" not in said


@pytest.mark.parametrize("raw", [False, True])
def test_refused_tokens_stand_before_the_token_that_came_instead(stage: MakeStage, raw: bool) -> None:
    one, tile = open_reply(stage)
    one.transcript.change_options(raw=raw)
    one.transcript.change_options(refused=True)
    one.settle()
    refused = tile.entry.reply.refused(0, 10_000)
    page = tile.pages[0]
    found, before = {}, ""
    block = page.document().begin()
    while block.isValid():
        place = block.begin()
        while not place.atEnd():
            fragment = place.fragment()
            shape = fragment.charFormat()
            if shape.hasProperty(REFUSED):
                assert shape.fontStrikeOut() and token_of(page.document(), fragment.position()) is None
                before = fragment.text()
            elif before:
                found[token_of(page.document(), fragment.position())] = before
                before = ""
            place += 1
        block = block.next()
    assert len(found) > 5
    shown = {token: text.replace("\n", "⏎") for token, text in refused.items()}
    assert all(text.endswith(shown[token]) for token, text in found.items() if token in shown)
    assert sum(token in shown for token in found) > len(found) * 0.7


@pytest.mark.parametrize(
    ("text", "raw"),
    [(REPLY, False), (f"{CODE}\n\n{PARAGRAPH}", False), (PARAGRAPH, True)],
    ids=["reply", "code", "raw"],
)
def test_refused_tokens_are_never_copied(stage: MakeStage, text: str, raw: bool) -> None:
    one, tile = open_reply(stage, text)
    one.transcript.change_options(raw=raw)
    one.settle()
    page = tile.pages[0]
    page.setFocus()
    QTest.keySequence(page, "Ctrl+A")
    QTest.keySequence(page, "Ctrl+C")
    plain, length = QGuiApplication.clipboard().text(), page.length
    codes = list(page.focus_widgets()[1:])
    one.transcript.change_options(refused=True)
    one.settle()
    assert page.length > length
    QTest.keySequence(page, "Ctrl+A")
    QTest.keySequence(page, "Ctrl+C")
    assert QGuiApplication.clipboard().text() == plain
    assert page.createMimeDataFromSelection().text() in plain
    for button in codes:
        button.click()  # type: ignore[attr-defined]
        assert QGuiApplication.clipboard().text().rstrip("\n") == "\n".join(CODE.splitlines()[1:-1])
    one.transcript.change_options(refused=False)
    one.settle()
    assert page.length == length


def test_colours_of_code_stay_on_their_words_among_refused_tokens(stage: MakeStage) -> None:
    one, tile = open_reply(stage, CODE)

    def coloured() -> list[str]:
        words = []
        block = tile.pages[0].document().begin()
        while block.isValid():
            text = block.text()
            words += [text[r.start : r.start + r.length] for r in block.layout().formats()]  # type: ignore[attr-defined]
            block = block.next()
        return words

    before = coloured()
    one.transcript.change_options(refused=True)
    one.settle()
    assert "return" in before
    assert "".join(coloured()) == "".join(before)


def test_with_tints_off_the_mouse_opens_no_panel(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    one.transcript.change_options(tints=False)
    one.settle()
    page = tile.pages[0]
    QTest.mouseMove(page.viewport(), token_places(page)[page.tokens()[2]].toPoint())
    one.frame(60)
    assert not one.transcript.panel.isVisible()


def test_part_of_a_text_is_copied_exactly_among_refused_tokens(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    page = tile.pages[0]
    one.transcript.change_options(refused=True)
    one.settle()
    found, text = token_runs(page.document()), page.toPlainText()
    for first, last in ((0, 12), (12, 30), (30, len(found) - 1)):
        page.select(found[first][1], found[last][1])
        assert page.selected_text() == "".join(text[start:end] for _, start, end in found[first:last])
