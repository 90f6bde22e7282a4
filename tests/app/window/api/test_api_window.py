"""The window for other programs: off by default, remembered, reachable by keyboard, and named for VoiceOver."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec import structs
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget

from app.api.agents import agent_lines
from app.api.key_file import ADDRESS, PORT
from app.protocol import Serving
from app.window.api.api_server import ApiState
from app.window.api.api_window import NO_MODEL, ApiWindow, activity_of
from app.window.common.preferences import PREFERENCES, Preferences, read
from app.window.main_window.main_window import MainWindow, tab_stops
from tests.app.api.test_agents import LOADED
from tests.app.window.api.programs import Program, hosted
from tests.app.window.chat.scene import Scene
from tests.app.window.chats import end
from tests.app.window.waiting import until

ON = ApiState("on", "the-key-of-the-test", Serving(port=PORT, waiting=2, tokens=1034))


@pytest.fixture
def scene(app: QApplication, tmp_path: Path) -> Iterator[Scene]:
    with Scene(tmp_path, words=hosted()) as scene:
        yield scene


def open_window(scene: Scene, folder: Path) -> MainWindow:
    window = MainWindow(scene.controller, folder / "conversations.sqlite")
    window.show()
    return window


def test_the_commands_of_an_agent_are_copied_once_the_server_is_on(app: QApplication) -> None:
    page, loaded = ApiWindow(), structs.replace(LOADED, context=4096)
    page.show_state(True, PORT, ON)
    assert not page.agents.copy.isEnabled()
    page.show_state(True, PORT, structs.replace(ON, loaded=loaded))
    page.agents.agent.setCurrentIndex(page.agents.agent.findData("codex"))
    assert "context holds 4,096" in page.agents.note.text()
    page.agents.copy.click()
    assert QApplication.clipboard().text() == agent_lines("codex", loaded, f"http://{ADDRESS}:{PORT}", ON.key)


def test_programs_are_served_once_switched_on_and_at_the_next_start(scene: Scene, tmp_path: Path) -> None:
    window = open_window(scene, tmp_path)
    window.commands["serve"].trigger()
    page, server = window.api.window, window.api.server
    assert page is not None and server is not None
    assert not page.switch.isChecked() and server.state().phase == "off" and not (tmp_path / "api-key").exists()
    window.change_preferences(serve_port=free_port())
    page.switch.click()
    until(lambda: page.address.text.text())
    assert page.key.text.text() == (tmp_path / "api-key").read_text().strip()
    assert Program(server).wait().text
    page.key.copy.click()
    assert QApplication.clipboard().text() == page.key.text.text()
    end(window)

    again = open_window(scene, tmp_path)
    assert again.api.server is not None
    until(lambda: again.api.server.state().phase == "on")
    page = again.api.show()
    assert page.switch.isChecked()
    page.switch.click()
    assert again.api.server.state().phase == "off"
    assert not read(scene.controller.library.value(PREFERENCES), Preferences).serve
    end(again)


def free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind((ADDRESS, 0))
        return int(free.getsockname()[1])


def test_every_control_has_a_name_and_is_reached_by_tab(scene: Scene, tmp_path: Path) -> None:
    window = open_window(scene, tmp_path)
    page = window.api.show()
    page.show_state(True, PORT, structs.replace(ON, loaded=structs.replace(LOADED, target="A Model")))
    names = [control.accessibleName() for control in tab_stops(page)]
    fields = ["Serve Models to Other Apps", "Port", "Address", "Copy Address", "Key", "Copy Key", "Agent"]
    assert names == [*fields, page.agents.copy.accessibleName()]
    assert page.model.accessibleName() == "Model: A Model"
    assert page.activity.accessibleName() == "Now: Writing a reply, 1,034 tokens so far. 2 requests are waiting."
    until(page.switch.hasFocus)
    reached: list[QWidget | None] = []
    for _ in names:
        reached.append(QApplication.focusWidget())
        QTest.keyClick(page, Qt.Key.Key_Tab)
    assert [widget.accessibleName() for widget in reached if widget is not None] == names
    QTest.keyClick(page, Qt.Key.Key_Escape)
    assert not page.isVisible()
    end(window)


def test_what_cannot_be_used_is_disabled_and_errors_are_shown(scene: Scene, tmp_path: Path) -> None:
    window = open_window(scene, tmp_path)
    page = window.api.show()
    page.show_state(True, PORT, ApiState("failed", error="Port 8080 cannot be used."))
    assert not page.key.copy.isEnabled() and not page.address.copy.isEnabled()
    assert page.switch.accessibleDescription() == "Port 8080 cannot be used."
    assert page.model.text() == NO_MODEL
    page.show_state(False, PORT, ApiState(error="Port 8080 cannot be used."))
    assert "cannot be used" not in page.switch.accessibleDescription()
    end(window)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (ApiState(), "Off. Requests are not accepted."),
        (ApiState("failed", error="Port 8080 cannot be used."), "Requests are not accepted."),
        (ApiState("starting"), "Starting. Requests are accepted once a model is loaded."),
        (ApiState("on"), "No requests in progress."),
        (ApiState("on", serving=Serving(waiting=1)), "1 request is waiting."),
        (ApiState("on", serving=Serving(tokens=1)), "Writing a reply, 1 token so far."),
        (ApiState("on", serving=Serving(tokens=3)), "Writing a reply, 3 tokens so far."),
    ],
)
def test_what_runs_is_a_sentence(state: ApiState, said: str) -> None:
    assert activity_of(state) == said
