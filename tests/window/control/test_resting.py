"""Models give their memory back, when asked or when nobody has used them, and come back when somebody writes."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.window.controller.resting import MINUTE_S
from tests.window.control.scene import Scene
from tests.window.control.waiting import for_a_while, until

SOON = 0.15 / MINUTE_S  # minutes


@pytest.fixture(autouse=True)
def _app(app: QApplication) -> None:
    """Every test here needs the event loop."""


def test_models_are_unloaded_when_asked_and_a_message_brings_them_back(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        scene.ready()
        controller = scene.controller
        controller.unload()
        assert controller.speculating.state == "unloaded" and controller.loaded_pair is None
        reply = scene.ask("Hello?")
        assert reply.state == "complete" and controller.loaded_pair is not None
        assert scene.notices == []


def test_typing_brings_them_back_before_it_is_sent(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.ready()
        scene.controller.unload()
        scene.controller.draft_changed("H")
        until(lambda: scene.controller.speculating.state == "on")


def test_models_that_nobody_uses_are_unloaded(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.controller.set_unload_minutes(SOON)
        scene.ready()
        until(lambda: scene.controller.speculating.state == "unloaded")
        scene.ask("Hello?")
        until(lambda: scene.controller.speculating.state == "unloaded")


def test_nothing_is_unloaded_while_a_reply_is_written_however_long_it_is_silent(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=4, pause_s=0.4) as scene:
        scene.ready()
        scene.controller.set_unload_minutes(SOON)
        assert scene.controller.send("Hello?")
        scene.streaming(3)
        scene.controller.unload()
        until(lambda: scene.ended)
        assert scene.ended[0].state == "complete" and "unloaded" not in scene.states
        until(lambda: scene.controller.speculating.state == "unloaded")


def test_with_no_minutes_models_stay(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.controller.set_unload_minutes(SOON)
        scene.controller.set_unload_minutes(0)
        scene.ready()
        for_a_while(0.4)
        assert scene.controller.speculating.state == "on"
