"""The Models window, with children that answer from a folder."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.window.models.models_window import NO_MATCH, NO_MATCH_THAT_FITS, ModelsWindow
from tests.app.window.keyboard_walk import controls, faults
from tests.app.window.models.conftest import buttons, install_three, texts, wait_for_answers
from tests.app.window.models.fake_models import (
    EAGLE,
    LARGE,
    QWEN,
    SMALL,
    WAIT,
    FakeModels,
    asking,
    done,
    failed,
    model,
    planned,
    progress,
)
from tests.app.window.waiting import until

OpenPage = Callable[[], ModelsWindow]
SIZES = {"model.safetensors": 4_000_000_000, "config.json": 1000}


def test_the_first_time_the_built_in_model_is_chosen_and_others_are_recommended(page: ModelsWindow) -> None:
    assert page.machine.text() == "Apple M3 Pro"
    assert page.memory.text() == "36 GB of memory, 24 GB for models"
    assert page.chosen is not None and page.chosen.key == "builtin"
    assert "works without a network" in page.details.text.text()
    assert buttons(page) == {"In Use": False}  # and no way to delete it
    assert sum(row.section.startswith("Recommended") for row in page.rows.items) == 1
    assert sum(row.section.startswith("Also fit") for row in page.rows.items) > 9


@pytest.mark.slow
def test_a_model_and_its_drafter_are_downloaded_with_the_window_closed(page: ModelsWindow, fake: FakeModels) -> None:
    fake.pull(QWEN, asking(QWEN), planned(QWEN, SIZES), done(QWEN, 4_000_001_000))
    fake.pull(EAGLE, asking(EAGLE), done(EAGLE, 1000))
    page.choose(QWEN)
    assert list(buttons(page)) == ["Download with Drafter (6.66 GB)", "Download Model Only (4.62 GB)"]
    install_three(fake)
    page.do("both")
    assert [row.key for row in page.rows.items if row.download] == [QWEN, EAGLE]
    page.close()
    until(lambda: not page.downloads.downloads)
    wait_for_answers(page)
    assert [call for call in fake.calls if call.startswith("pull")] == [f"pull {QWEN}", f"pull {EAGLE}"]
    assert page.chosen is not None and page.chosen.usable
    assert buttons(page) == {"Use": True, "Delete…": True}


def test_a_download_is_shown_paused_resumed_and_cancelled(page: ModelsWindow, fake: FakeModels) -> None:
    far = progress("model.safetensors", 1_000_000_000, 4_000_000_000, 1_000_001_000, 4_000_001_000)
    fake.pull(QWEN, asking(QWEN), planned(QWEN, SIZES), far, WAIT)
    page.choose(QWEN)
    page.do("get")
    until(lambda: page.details.download.share.text() == "25%")
    card = page.details.download
    assert (card.status.text(), card.pace.text()) == ("1.00 GB of 4.00 GB", "48 MB/s · 1 min 2 s left")
    assert card.lines["model.safetensors"].amount.text() == "1.00 GB of 4.00 GB"
    page.details.buttons["pause"].setFocus()
    page.details.buttons["pause"].click()
    until(lambda: "Resume" in buttons(page))
    assert page.details.buttons["resume"].hasFocus()  # the keyboard stays where it was
    page.do("do")
    until(lambda: "Pause" in buttons(page))
    page.do("cancel")
    until(lambda: not page.downloads.downloads)
    assert fake.calls[-1] == "list" or f"pull {QWEN} --discard" in fake.calls
    assert page.chosen is not None and page.chosen.key == QWEN


def test_a_failed_download_shows_why_and_what_to_do(page: ModelsWindow, fake: FakeModels) -> None:
    fake.pull(QWEN, asking(QWEN), failed("gated", "x is gated: accept its terms at http://hub.invalid/x"))
    page.choose(QWEN)
    page.do("get")
    until(lambda: "Try Again" in buttons(page))
    error = page.details.download.error.text()
    assert "is gated: accept its terms" in error and "Accept the terms" in error
    assert page.details.download.page.isVisibleTo(page)
    page.do("forget")
    assert page.downloads.downloads == {}
    assert "Download with Drafter (6.66 GB)" in buttons(page)


def test_a_download_of_an_earlier_run_is_listed_and_resumed(open_page: OpenPage, fake: FakeModels) -> None:
    fake.put(model(SMALL, 0.1, "unknown", complete=False, total_bytes=400_000_000, trouble="300 MB are missing"))
    fake.pull(SMALL, asking(SMALL), planned(SMALL, SIZES), WAIT)
    page = open_page()
    page.choose(SMALL)
    assert page.details.download.share.text() == "25%"
    page.do("resume")
    until(lambda: page.downloads.downloads[SMALL].state == "running")


def test_a_missing_drafter_is_downloaded_from_the_details_of_its_target(open_page: OpenPage, fake: FakeModels) -> None:
    fake.put(model(QWEN, 4.62))
    fake.judge(QWEN, auto="lookup", why="prompt lookup, as no drafter for it is here")
    fake.fit(QWEN, "good", 7.4)
    fake.pull(EAGLE, asking(EAGLE), planned(EAGLE, SIZES), WAIT)
    page = open_page()
    page.choose(QWEN)
    row = next(row for row in page.details.drafters.rows if row.offer.name == EAGLE)
    assert row.offer.state == "absent"
    row.button.click()
    until(lambda: page.downloads.downloads[EAGLE].state == "running")
    assert page.chosen is not None and page.chosen.key == QWEN


def test_a_model_that_does_not_fit_cannot_be_used_and_what_would_fit_is_suggested(
    open_page: OpenPage, fake: FakeModels
) -> None:
    fake.put(model(LARGE, 18.4))
    fake.fit(LARGE, "refused", 30.0, remedies=["a context of 2,048 fits"])
    page = open_page()
    page.choose(LARGE)
    wait_for_answers(page)
    assert buttons(page)["Use"] is False
    page.do("use")
    assert page._pair().target == "builtin"
    for advice in ("Too large", "Needs 30.0 GB", "A context of 2,048 fits.", "Qwen3 30B A3B fits: 4-bit"):
        assert advice in texts(page)


def test_a_model_that_is_too_large_shows_the_smallest_mac_for_it(
    open_page: OpenPage, fake: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    FakeModels(fake.folder, 16).patch(monkeypatch)  # the same answers from a smaller machine
    page = open_page()
    page.fitting.setChecked(False)
    page.refresh()
    page.choose(LARGE)
    assert list(buttons(page)) == ["Download Anyway (18.4 GB)"]
    assert "Requires a Mac with 32 GB of memory." in texts(page)


def test_deleting_asks_first_names_who_shares_the_files_and_can_be_cancelled(
    open_page: OpenPage, fake: FakeModels
) -> None:
    install_three(fake)
    plan = {"frees_bytes": 4_620_000_000, "stays_bytes": 0, "note": "", "losers": ["mlx-lm"], "keepers": []}
    fake.answer(f"remove {QWEN} --from hub --dry-run", plan)
    fake.answer(f"remove {QWEN} --from hub --yes", plan | {"removed": True})
    page = open_page()
    page.choose(QWEN)
    page.list.setFocus()
    for choice, calls in (("Cancel", 0), ("Delete", 1)):
        page.asking = None
        QTest.keyClick(page.list, Qt.Key.Key_Delete)
        until(lambda: page.asking is not None)
        assert page.asking is not None and page.asking.defaultButton().text() == "Cancel"
        question = page.asking.informativeText()
        assert "This frees 4.62 GB." in question and "Also deleted for mlx-lm" in question
        if choice == "Delete":
            fake.take(QWEN)
        next(button for button in page.asking.buttons() if button.text() == choice).click()
        wait_for_answers(page)
        assert sum("--yes" in call for call in fake.calls) == calls
    assert page.chosen is not None and page.chosen.here is None
    assert page.line.text.text() == "Deleted Qwen3 8B; 4.62 GB freed."


def test_search_filters_the_list_and_escape_clears_it_then_closes_the_window(page: ModelsWindow) -> None:
    page.search.setFocus()
    QTest.keyClicks(page.search, "llama 3.3")
    assert page.rows.items and all("llama" in row.key.casefold() for row in page.rows.items)
    page.search.setText("nothing is called this")
    assert page.nothing.isVisibleTo(page) and page.nothing.text() == NO_MATCH_THAT_FITS
    page.fitting.click()
    assert page.nothing.isVisibleTo(page) and page.nothing.text() == NO_MATCH
    page.fitting.click()
    page.search.setFocus()
    QTest.keyClick(page, Qt.Key.Key_Escape)
    assert page.search.text() == "" and page.list.isVisibleTo(page)
    QTest.keyClick(page, Qt.Key.Key_Escape)
    assert not page.isVisible()


@pytest.mark.slow
def test_the_arrows_pass_over_headings_and_enter_takes_the_first_action(page: ModelsWindow, fake: FakeModels) -> None:
    page.list.setFocus()
    QTest.keyClick(page.list, Qt.Key.Key_Down)
    row = page.chosen
    assert row is not None and row.section.startswith("Recommended")
    fake.pull(row.key, asking(row.key), planned(row.key, SIZES), WAIT)
    QTest.keyClick(page.list, Qt.Key.Key_Return)
    assert row.key in page.downloads.downloads


@pytest.mark.slow
def test_failed_commands_are_shown(open_page: OpenPage, fake: FakeModels) -> None:
    fake.put(model(SMALL, 0.35))
    (fake.folder / "pairs.json").unlink()
    page = open_page()
    assert page.line.text.text() == "Some information is missing: Nothing is known of pairs."
    page.choose(SMALL)
    wait_for_answers(page)
    assert f"Nothing is known of fits {SMALL.replace('/', '-')}." in texts(page)


@pytest.mark.slow
def test_an_answer_counts_whatever_the_exit_status_and_the_warnings(open_page: OpenPage, fake: FakeModels) -> None:
    install_three(fake)
    (fake.folder / "complaint").write_text("redline: warning")
    page = open_page()
    page.choose(QWEN)
    wait_for_answers(page)
    assert page.library.known.fits[QWEN].level == "good"


@pytest.mark.slow
def test_every_control_is_named_and_reached(open_page: OpenPage, fake: FakeModels) -> None:
    install_three(fake)
    page = open_page()
    page.choose(QWEN)
    wait_for_answers(page)
    assert len(controls(page)) > 6
    assert faults(page, page.search) == []
