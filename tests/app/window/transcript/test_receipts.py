"""A reply's receipt: asked for, waited for, told in its footer, marked in its text, and all of it on a click."""

from typing import Any

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QTextCharFormat
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.store.records import MessageRecord, Statistics, StoredReceipt
from app.window.common import theme
from app.window.common.appearance import DARK, LIGHT, READABLE, Appearance, contrast
from app.window.transcript.receipt_badge import (
    ReceiptPopover,
    as_html,
    receipt_text,
    receipt_tone,
    short_receipt_text,
)
from app.window.transcript.reply_tile import ReplyTile
from app.window.transcript.token_panel import as_text
from engine.audit.receipt import Difference, Receipt
from engine.metrics import Metrics
from tests.app.window.transcript.conftest import MakeStage, Stage, emitted
from tests.app.window.transcript.samples import PARAGRAPH, question, reply, rounds

TOLD = list(rounds(PARAGRAPH))
WRITTEN = reply(2, PARAGRAPH, 1, TOLD)
TOKENS = sum(len(one.round.tokens) for one in TOLD)
NEAR = Difference(3, 11, 12, 1.0, 3.5, near_tie=True, plain_text=" the", other_text=" a")
FAILED = Difference(6, 12, 11, 1234.0, 2.0, near_tie=False, plain_text="<b>x", other_text="")
SHORT = Difference(TOKENS, 9, None, None, None, near_tie=False, plain_text="more")
FOUND: dict[str, tuple[Receipt, str]] = {
    "identical": (Receipt(TOKENS), f"Identical over {TOKENS} tokens"),
    "possible": (Receipt(TOKENS, (), "distribution"), f"{TOKENS} tokens, all possible for the target"),
    "near-tie": (Receipt(TOKENS, (NEAR,)), "1 near-tie at token 3"),
    "failure": (Receipt(TOKENS, (NEAR, FAILED)), "Failure at token 6"),
    "failures": (Receipt(TOKENS, (FAILED, SHORT)), "2 failures, first at token 6"),
}


def kept(receipt: Receipt, **values: Any) -> MessageRecord:
    return replace(WRITTEN, receipt=StoredReceipt(receipt=receipt, made_s=1_700_000_000.0, redline="0.1.0", **values))


def open_reply(stage: MakeStage, record: MessageRecord = WRITTEN) -> tuple[Stage, ReplyTile]:
    one = stage().open(question(1), record, told=TOLD)
    return one, one.tiles[1]


def waves(tile: ReplyTile) -> dict[str, str]:
    """Texts that are underlined by a wave, and the wave's colour."""
    marks = [mark for page in tile.pages.values() for mark in page.extraSelections()]
    style = QTextCharFormat.UnderlineStyle.WaveUnderline
    return {
        mark.cursor.selectedText(): mark.format.underlineColor().name()  # type: ignore[attr-defined]
        for mark in marks
        if mark.format.underlineStyle() == style  # type: ignore[attr-defined]
    }


def open_popovers() -> list[ReceiptPopover]:
    return [
        widget for widget in QApplication.topLevelWidgets() if isinstance(widget, ReceiptPopover) and widget.isVisible()
    ]


# --- asking and waiting -------------------------------------------------------------------------


def test_the_button_asks_for_its_reply_and_stops_what_it_began(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    asked = emitted(one.transcript.verify)
    button = tile.footer.buttons["Verify"]
    assert not tile.footer.badge.isVisible()
    button.click()
    one.transcript.show_verification_progress(2, "Verifying, 8 of 90 tokens")
    assert tile.footer.badge.isVisible() and tile.footer.badge.text() == "Verifying, 8 of 90 tokens"
    assert button.accessibleName() == "Stop Verifying" == button.toolTip()
    tile.footer.badge.click()
    assert open_popovers() == []
    tile.set_last(False)
    assert button.shown and not tile.footer.buttons["Regenerate"].shown
    button.click()
    assert asked == [2, 2]
    one.transcript.show_verification_progress(2, "")
    assert not tile.footer.badge.isVisible() and button.accessibleName() == "Verify"
    tile.set_last(False)
    assert not button.shown


@pytest.mark.parametrize(
    ("changes", "offered"),
    [
        ({}, True),
        ({"state": "cut", "statistics": None}, True),
        ({"state": "failed", "text": "", "statistics": None}, False),
        ({"sampling": None}, False),
    ],
)
def test_only_a_reply_with_known_sampling_settings_can_be_verified(
    stage: MakeStage, changes: dict[str, Any], offered: bool
) -> None:
    _, tile = open_reply(stage, replace(WRITTEN, **changes))
    assert tile.footer.buttons["Verify"].isVisible() == offered


# --- what the footer says -----------------------------------------------------------------------


@pytest.mark.parametrize("name", FOUND)
def test_the_badge_says_what_was_found_and_it_is_read_out(stage: MakeStage, name: str) -> None:
    one, tile = open_reply(stage)
    receipt, said = FOUND[name]
    one.transcript.show_receipt(kept(receipt))
    badge = tile.footer.badge
    assert badge.isVisible() and badge.text() == said
    assert badge.accessibleName() == f"Receipt: {badge.toolTip()}"
    assert one.said[-1] == f"Verified: {badge.toolTip()}"
    assert ("identical" in badge.text().lower()) == receipt.identical


def test_only_identical_is_good_and_what_was_not_found_here_is_quiet() -> None:
    hues = {name: receipt_tone(kept(receipt)) for name, (receipt, _) in FOUND.items()}
    assert hues == {
        "identical": "good",
        "possible": "faint",
        "near-tie": "warning",
        **dict.fromkeys(("failure", "failures"), "error"),
    }
    imported = kept(Receipt(TOKENS), elsewhere=True)
    assert receipt_tone(imported) == "faint" and short_receipt_text(imported).endswith("(imported)")
    assert "was not verified on this computer" in receipt_text(imported)
    compared = kept(Receipt(TOKENS), reference="llama: logits within 3e-06 of something 5.24")
    assert "The model's architecture, llama: logits within 3e-06 of something 5.24." in receipt_text(compared)
    numbers = replace(Statistics.of(Metrics()), rounds=3, plain_rounds=3, why_plain="not worthwhile here")
    plain = replace(kept(Receipt(TOKENS)), statistics=numbers)
    assert "Nothing was drafted: not worthwhile here." in receipt_text(plain)


def test_a_reply_that_went_on_is_not_called_verified(stage: MakeStage) -> None:
    record = kept(Receipt(TOKENS - 5))
    _, tile = open_reply(stage, record)
    assert tile.footer.badge.text() == f"Verified up to token {TOKENS - 5}"
    assert "Identical" not in tile.footer.badge.text() and receipt_tone(record) == "faint"


def test_why_nothing_could_be_said_stands_where_the_receipt_would(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    one.transcript.show_verification_error(2, "the weights are not the ones that wrote it")
    badge = tile.footer.badge
    assert badge.isVisible() and badge.text() == "Could not be verified"
    badge.click()
    (shown,) = open_popovers()
    assert "The weights are not the ones that wrote it" in shown.label.text()
    shown.close()
    one.transcript.show_verification_progress(2, "Verifying")
    one.transcript.show_verification_progress(2, "")
    assert not badge.isVisible()
    one.transcript.show_receipt(kept(Receipt(TOKENS)))  # which a check that comes to nothing leaves
    one.transcript.show_verification_error(2, "it is not here")
    assert badge.text() == f"Identical over {TOKENS} tokens"
    words = receipt_text(kept(Receipt(TOKENS)), "it is not here")
    assert words.startswith("Identical over") and words.endswith("could not be verified: it is not here.")


# --- what the text shows ------------------------------------------------------------------------


def test_differences_have_a_wave_in_the_text_by_what_they_are(stage: MakeStage) -> None:
    one, tile = open_reply(stage)
    assert waves(tile) == {}
    one.transcript.show_receipt(kept(Receipt(TOKENS, (NEAR, FAILED, SHORT))))
    texts = [text for told in TOLD for text in told.round.texts]
    assert waves(tile) == {texts[3]: LIGHT.warning, texts[6]: LIGHT.error}
    theme.show(DARK)
    one.settle()
    assert waves(tile) == {texts[3]: DARK.warning, texts[6]: DARK.error}
    one.transcript.show_receipt(kept(Receipt(TOKENS)))
    assert waves(tile) == {}


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_text_that_differs_can_be_read(stage: MakeStage, look: Appearance) -> None:
    one, tile = open_reply(stage, kept(Receipt(TOKENS, (NEAR, FAILED))))
    theme.show(look)
    one.settle()
    grounds = [mark.format.background().color().name() for mark in tile.pages[0].extraSelections()]  # type: ignore[attr-defined]
    assert len(set(grounds)) == 2 and look.background not in grounds
    assert all(contrast(look.text, ground) >= READABLE for ground in grounds)


def test_a_wave_is_there_when_the_conversation_opens_and_stays_under_the_cursor(stage: MakeStage) -> None:
    one, tile = open_reply(stage, kept(Receipt(TOKENS, (NEAR,))))
    assert len(waves(tile)) == 1
    page = tile.pages[0]
    page.setFocus()
    QTest.keyClick(page, Qt.Key.Key_Right)
    assert len(waves(tile)) == 1 and len(page.extraSelections()) == 2
    QTest.keyClick(page, Qt.Key.Key_Escape)
    assert len(waves(tile)) == 1 and len(page.extraSelections()) == 1
    one.settle()


def test_a_token_that_differs_says_so_even_without_tints(stage: MakeStage) -> None:
    one, tile = open_reply(stage, kept(Receipt(TOKENS, (NEAR, FAILED))))
    one.transcript.change_options(tints=False)
    for token, differs in ((6, FAILED), (7, None)):
        tile.pointed.emit(token, tile.rect(), False)
        detail = tile.entry.detail(token)
        assert detail is not None and detail.differs == differs
        assert one.transcript._hover.isActive() == (differs is not None)
    detail = tile.entry.detail(3)
    assert detail is not None and "a near-tie: plain decoding chooses ␣the, by 1 ULPs (rounding: 3.5)" in as_text(
        detail
    )


# --- all of it ----------------------------------------------------------------------------------


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_the_details_list_every_difference_with_its_place_tokens_and_gap(look: Appearance) -> None:
    sampling = Difference(9, None, 4, None, 5.0, near_tie=False, other_text="odd")
    shown = as_html(kept(Receipt(TOKENS, (NEAR, FAILED, sampling, SHORT))), "", look)
    rows = [row.split("</tr>")[0] for row in shown.split("<tr>")[1:]]
    cells = [[cell.split(">", 1)[1].split("</td>")[0] for cell in row.split("<td")[1:]] for row in rows]
    assert cells == [
        ["3", "␣the", "␣a", "1", "3.5", "near-tie"],
        ["6", "&lt;b&gt;x", "id 11", "1.23e+03", "2", "failure"],
        ["9", "a different token", "odd", "", "5", "failure"],
        [str(TOKENS), "more", "ends", "", "", "failure"],
    ]
    assert [look.warning in rows[0], look.error in rows[1]] == [True, True]
    assert "in ULPs" in shown and "2023" in shown and "Redline 0.1.0" in shown and "<b>x" not in shown


def test_a_click_opens_the_details_and_escape_closes_them(stage: MakeStage) -> None:
    _, tile = open_reply(stage, kept(Receipt(TOKENS, (NEAR,))))
    tile.footer.badge.click()
    assert tile.footer.focus_widgets()[0] is tile.footer.badge
    (shown,) = open_popovers()
    assert "near-tie" in shown.label.text() and shown.label.height() >= shown.label.heightForWidth(shown.label.width())
    assert shown.accessibleDescription() == tile.footer.badge.toolTip()
    QTest.keyClick(QApplication.focusWidget() or shown, Qt.Key.Key_Escape)
    assert open_popovers() == []


def test_a_reply_that_is_wrong_everywhere_still_fits_the_screen(stage: MakeStage) -> None:
    found = tuple(Difference(n, 1, 2, 500.0, 1.0, near_tie=False, plain_text="a", other_text="b") for n in range(1000))
    _, tile = open_reply(stage, kept(Receipt(1000, found)))
    tile.footer.badge.click()
    (shown,) = open_popovers()
    assert shown.screen().availableGeometry().contains(shown.geometry())
    assert shown.height() < shown.label.height() and "and 900 more" in shown.label.text()
    shown.close()
