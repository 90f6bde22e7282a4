"""Banners: how long they stay, their order, and that they can be heard and dismissed by keyboard."""

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.window.chat import Controller, Notice
from app.window.main_window import header
from app.window.main_window.header import INFO_MS, MAX_BANNERS, OFFER_MS, NoticeBanners
from app.window.main_window.main_window import MainWindow
from tests.app.window.stepped_clock import SteppedClock


@pytest.fixture
def banners(clock: SteppedClock) -> Iterator[NoticeBanners]:
    banners = NoticeBanners()
    banners.show()
    banners.activateWindow()
    yield banners
    banners.close()


def texts(banners: NoticeBanners) -> list[str]:
    return [banner.text for banner in banners.banners]


def test_a_notice_of_the_controller_is_shown_with_what_can_be_done(window: MainWindow, controller: Controller) -> None:
    banners = window.parts.notices
    done: list[str] = []
    controller.notice.emit(Notice("error", "It <b>broke</b>.", (("Continue", lambda: done.append("on")),)))
    banner = banners.banners[0]
    assert banners.isVisible()
    assert banner.label.text() == "It <b>broke</b>." and banner.label.textFormat() == Qt.TextFormat.PlainText
    assert banner.accessibleName() == "Error: It <b>broke</b>."
    banner.buttons[0].click()
    assert done == ["on"]
    assert texts(banners) == [] and not banners.isVisible()


def test_errors_and_warnings_stay_and_infos_disappear(banners: NoticeBanners, clock: SteppedClock) -> None:
    for level in ("error", "warning", "info"):
        banners.show_notice(Notice(level, level))  # type: ignore[arg-type]
    assert "info" in texts(banners)
    clock.advance(INFO_MS / 1000)
    assert sorted(texts(banners)) == ["error", "warning"]
    clock.advance(3600)
    assert sorted(texts(banners)) == ["error", "warning"]


def test_an_info_stays_while_it_has_the_focus(banners: NoticeBanners, clock: SteppedClock) -> None:
    banners.show_notice(Notice("info", "Deleted.", (("Undo", lambda: None),)))
    undo = banners.banners[0].buttons[0]
    undo.setFocus()
    clock.advance(3 * OFFER_MS / 1000)
    assert texts(banners) == ["Deleted."]
    undo.clearFocus()
    clock.advance(OFFER_MS / 1000)
    assert texts(banners) == []


def test_escape_and_the_button_dismiss_and_the_same_notice_replaces_itself(banners: NoticeBanners) -> None:
    for text in ("one", "two", "two"):
        banners.show_notice(Notice("error", text))
    assert texts(banners) == ["two", "one"]
    QTest.keyClick(banners.banners[0].close_button, Qt.Key.Key_Escape)
    assert texts(banners) == ["one"]
    banners.banners[0].close_button.click()
    assert texts(banners) == []


def test_errors_come_first_and_at_most_three_banners_are_shown(banners: NoticeBanners) -> None:
    banners.show_notice(Notice("error", "broken"))
    for number in range(5):
        banners.show_notice(Notice("warning", str(number)))
    visible = [banner.text for banner in banners.banners if not banner.isHidden()]
    assert visible == texts(banners)[:MAX_BANNERS] == ["broken", "4", "3"]
    banners.banners[0].dismiss()
    assert not banners.banners[2].isHidden()


def test_an_error_interrupts_a_screen_reader_and_others_do_not(
    banners: NoticeBanners, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[tuple[str, bool]] = []
    monkeypatch.setattr(header, "announce", lambda _, text, assertive: announced.append((text, assertive)))
    banners.show_notice(Notice("error", "It broke."))
    banners.show_notice(Notice("info", "Done."))
    assert announced == [("Error: It broke.", True), ("Info: Done.", False)]
