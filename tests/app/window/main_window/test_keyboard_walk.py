"""Every control can be reached by keyboard and says what it is: in the window, its panels and its settings."""

import pytest
from PySide6.QtWidgets import QApplication

from app.store.records import Attachment
from app.window.chat import Controller, Notice
from app.window.common.preferences import Draft
from app.window.main_window.main_window import MainWindow
from app.window.settings.settings_window import PAGES
from tests.app.window.chats import open_chat, show_loaded
from tests.app.window.keyboard_walk import controls, faults


@pytest.fixture
def whole(window: MainWindow, controller: Controller) -> MainWindow:
    """The window with something in every part."""
    window.resize(1400, 900)
    show_loaded(controller)
    open_chat(controller, "Why?", "So.\n\n```\ncode\n```\n")
    controller.regenerate(controller.path[1].id)
    controller.stop()
    controller.select(min(controller.path[1].siblings))
    controller.notice.emit(Notice("error", "It broke.", (("Continue", controller.stop),)))
    window.parts.composer.set_draft(Draft(text="a", attachments=(Attachment(name="a.txt", text="a"),)))
    QApplication.processEvents()
    return window


@pytest.mark.slow_for("", "inspector")
@pytest.mark.parametrize("side", ["chat settings", "", "inspector"])
def test_every_control_of_the_window_is_named_and_reached(whole: MainWindow, side: str) -> None:
    whole.show_side(side)  # type: ignore[arg-type]
    QApplication.processEvents()
    assert len(controls(whole)) > 15
    assert faults(whole, whole.parts.composer.editor) == []


def test_every_control_of_the_welcome_is_named_and_reached(whole: MainWindow) -> None:
    whole.parts.welcome.set_first(True)
    whole.controller.new()
    QApplication.processEvents()
    assert faults(whole, whole.parts.composer.editor) == []


@pytest.mark.slow
def test_every_control_of_the_settings_is_named_and_reached(whole: MainWindow) -> None:
    for page in PAGES:
        settings = whole.settings.show(page)
        QApplication.processEvents()
        assert faults(settings, controls(settings)[0]) == []


@pytest.mark.slow
def test_hidden_fields_of_the_form_are_named_too(whole: MainWindow) -> None:
    whole.show_side("chat settings")
    form = whole.parts.panel.form
    for field in (*form.pair.fields, *form.sampling.fields):
        field.show()
    assert faults(whole.parts.panel) == []
