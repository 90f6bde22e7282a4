"""Banners: an error stays, an info goes, each is said to assistive technology and can be dismissed by keyboard."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from app.window.controller import Notice
from app.window.look import LIGHT
from app.window.shell import notices
from app.window.shell.notices import MOST, Banner, Notices
from app.window.shell.window import MainWindow
from tests.window.control.waiting import for_a_while, until
from tests.window.shell.fakes import FakeController


@pytest.fixture
def shown(app: QApplication) -> Iterator[Notices]:
    notices = Notices()
    notices.set_look(LIGHT)
    notices.show()
    notices.activateWindow()
    yield notices
    notices.close()


def texts(shown: Notices) -> list[str]:
    return [banner.text for banner in shown.banners]


def test_a_notice_of_the_controller_is_shown_with_what_can_be_done(
    window: MainWindow, controller: FakeController
) -> None:
    shown = window.parts.notices
    done: list[str] = []
    controller.notice.emit(Notice("error", "It broke.", (("Continue", lambda: done.append("on")),)))
    banner = shown.banners[0]
    assert shown.isVisible()
    assert banner.label.text() == "It broke."
    assert banner.accessibleName() == "Error: It broke."
    banner.buttons[0].click()
    assert done == ["on"]
    assert texts(shown) == []
    assert not shown.isVisible()


def test_an_error_and_a_warning_stay_and_an_info_goes(shown: Notices, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "INFO_MS", 20)
    for level in ("error", "warning", "info"):
        shown.show_notice(level, level)  # type: ignore[arg-type]
    until(lambda: "info" not in texts(shown), 5)
    for_a_while(0.1)
    assert sorted(texts(shown)) == ["error", "warning"]


def test_an_info_stays_while_the_keyboard_is_on_it(window: MainWindow, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = window.parts.notices
    monkeypatch.setattr(notices, "OFFER_MS", 30)
    shown.show_notice("info", "Deleted.", (("Undo", lambda: None),))
    shown.banners[0].buttons[0].setFocus()
    for_a_while(0.15)
    assert texts(shown) == ["Deleted."]
    window.parts.composer.editor.setFocus()
    until(lambda: texts(shown) == [], 5)


def test_escape_and_the_button_dismiss(shown: Notices) -> None:
    shown.show_notice("error", "one")
    shown.show_notice("error", "two")
    QTest.keyClick(shown.banners[0].close_button, Qt.Key.Key_Escape)
    assert texts(shown) == ["one"]
    shown.banners[0].close_button.click()
    assert texts(shown) == []


def test_the_same_notice_again_replaces_itself(shown: Notices) -> None:
    for _ in range(3):
        shown.show_notice("warning", "again")
    assert texts(shown) == ["again"]


def test_errors_stand_first_and_many_notices_wait_their_turn(shown: Notices) -> None:
    shown.show_notice("error", "broken")
    for number in range(5):
        shown.show_notice("warning", str(number))
    assert texts(shown)[:2] == ["broken", "4"]
    visible = [banner.text for banner in shown.banners if not banner.isHidden()]
    assert visible == ["broken", "4", "3"]
    assert len(visible) == MOST
    shown.banners[0].go()
    assert not shown.banners[2].isHidden()


def test_what_a_notice_says_is_never_taken_for_html(shown: Notices) -> None:
    shown.show_notice("error", "<img src='file:///etc/passwd'> <b>x</b>")
    banner = shown.banners[0]
    assert banner.label.textFormat() == Qt.TextFormat.PlainText


def test_an_error_interrupts_a_screen_reader_and_others_do_not(shown: Notices, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[tuple[str, str]] = []

    class Access:
        """In place of QAccessible."""

        AnnouncementPoliteness = notices.QAccessible.AnnouncementPoliteness

        @staticmethod
        def updateAccessibility(event: notices.QAccessibleAnnouncementEvent) -> None:
            said.append((event.message(), event.politeness().name))

    monkeypatch.setattr(notices, "QAccessible", Access)
    shown.show_notice("error", "It broke.")
    shown.show_notice("info", "Done.")
    assert said == [("Error: It broke.", "Assertive"), ("Info: Done.", "Polite")]


def test_every_level_is_told_by_its_icon_and_name_not_by_colour_alone(shown: Notices) -> None:
    for level in ("info", "warning", "error"):
        shown.show_notice(level, level)  # type: ignore[arg-type]
    pictures = [banner.picture.pixmap().toImage() for banner in shown.banners]
    shapes = {tuple(p.pixelColor(x, y).alpha() > 127 for x in range(36) for y in range(36)) for p in pictures}
    assert len(shapes) == 3
    assert all(isinstance(banner, Banner) and ":" in banner.accessibleName() for banner in shown.banners)
