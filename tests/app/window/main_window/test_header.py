"""Banners: how long they stay, their order, and that they can be heard and dismissed by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.window.chat import Controller, Notice, SpeculationStatus
from app.window.main_window import header
from app.window.main_window.header import MAX_BANNERS, Banner, NoticeBanners, status_text
from app.window.main_window.main_window import MainWindow
from tests.app.window.waiting import for_a_while, until


@pytest.fixture
def shown() -> Iterator[NoticeBanners]:
    banners = NoticeBanners()
    banners.show()
    banners.activateWindow()
    yield banners
    banners.close()


def texts(shown: NoticeBanners) -> list[str]:
    return [banner.text for banner in shown.banners]


def test_a_notice_of_the_controller_is_shown_with_what_can_be_done(window: MainWindow, controller: Controller) -> None:
    shown = window.parts.notices
    done: list[str] = []
    controller.notice.emit(Notice("error", "It <b>broke</b>.", (("Continue", lambda: done.append("on")),)))
    banner = shown.banners[0]
    assert shown.isVisible()
    assert banner.label.text() == "It <b>broke</b>." and banner.label.textFormat() == Qt.TextFormat.PlainText
    assert banner.accessibleName() == "Error: It <b>broke</b>."
    banner.buttons[0].click()
    assert done == ["on"]
    assert texts(shown) == []
    assert not shown.isVisible()


def test_errors_and_warnings_stay_and_infos_disappear(shown: NoticeBanners, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(header, "INFO_MS", 20)
    for level in ("error", "warning", "info"):
        shown.show_notice(Notice(level, level))  # type: ignore[arg-type]
    until(lambda: "info" not in texts(shown), 5)
    for_a_while(0.1)
    assert sorted(texts(shown)) == ["error", "warning"]


@pytest.mark.slow
def test_an_info_stays_while_it_has_the_focus(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = window.parts.notices
    monkeypatch.setattr(header, "OFFER_MS", 30)
    shown.show_notice(Notice("info", "Deleted.", (("Undo", lambda: None),)))
    shown.banners[0].buttons[0].setFocus()
    for_a_while(0.15)
    assert texts(shown) == ["Deleted."]
    window.parts.composer.editor.setFocus()
    until(lambda: texts(shown) == [], 5)


def test_escape_and_the_button_dismiss_and_the_same_notice_replaces_itself(shown: NoticeBanners) -> None:
    for text in ("one", "two", "two"):
        shown.show_notice(Notice("error", text))
    assert texts(shown) == ["two", "one"]
    QTest.keyClick(shown.banners[0].close_button, Qt.Key.Key_Escape)
    assert texts(shown) == ["one"]
    shown.banners[0].close_button.click()
    assert texts(shown) == []


def test_errors_come_first_and_at_most_three_banners_are_shown(shown: NoticeBanners) -> None:
    shown.show_notice(Notice("error", "broken"))
    for number in range(5):
        shown.show_notice(Notice("warning", str(number)))
    assert texts(shown)[:2] == ["broken", "4"]
    visible = [banner.text for banner in shown.banners if not banner.isHidden()]
    assert visible == ["broken", "4", "3"]
    assert len(visible) == MAX_BANNERS
    shown.banners[0].dismiss()
    assert not shown.banners[2].isHidden()


def test_an_error_interrupts_a_screen_reader_and_others_do_not(
    shown: NoticeBanners, monkeypatch: pytest.MonkeyPatch
) -> None:
    announced: list[tuple[str, bool]] = []
    monkeypatch.setattr(header, "announce", lambda _, text, assertive: announced.append((text, assertive)))
    shown.show_notice(Notice("error", "It broke."))
    shown.show_notice(Notice("info", "Done."))
    assert announced == [("Error: It broke.", True), ("Info: Done.", False)]


def test_every_level_differs_in_icon_and_name_not_only_in_colour(shown: NoticeBanners) -> None:
    for level in ("info", "warning", "error"):
        shown.show_notice(Notice(level, level))  # type: ignore[arg-type]
    pictures = [banner.icon.grab().toImage() for banner in shown.banners]
    grounds = [picture.pixelColor(0, 0).lightness() for picture in pictures]
    shapes = {
        tuple(abs(p.pixelColor(x, y).lightness() - ground) > 60 for x in range(p.width()) for y in range(p.height()))
        for p, ground in zip(pictures, grounds, strict=True)
    }
    assert len(shapes) == 3
    assert all(isinstance(banner, Banner) and ":" in banner.accessibleName() for banner in shown.banners)


def test_the_status_names_how_many_machines_share_the_target() -> None:
    assert status_text(SpeculationStatus("on", "Large", "lookup", machines=2))[1] == "Large · lookup · on 2 machines"
    assert status_text(SpeculationStatus("on", "Large", "lookup"))[1] == "Large · lookup"
