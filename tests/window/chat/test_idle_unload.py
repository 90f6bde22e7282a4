"""Models are unloaded on request or when idle, and load again when the user writes."""

from __future__ import annotations

from pathlib import Path

from app.window.chat.chat_pair import MINUTE_S
from tests.window.chat.scene import Scene
from tests.window.waiting import for_a_while, until

SOON = 0.15 / MINUTE_S  # minutes


def test_models_can_be_unloaded_and_load_again_for_a_message(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        scene.ready()
        controller = scene.controller
        controller.unload()
        assert controller.status.state == "unloaded" and controller.loaded_pair is None
        reply = scene.ask("Hello?")
        assert reply.state == "complete" and controller.loaded_pair is not None
        assert scene.notices == []


def test_typing_loads_unloaded_models(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.ready()
        scene.controller.unload()
        scene.controller.set_draft("H")
        until(lambda: scene.controller.status.state == "on")


def test_idle_models_are_unloaded(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.controller.set_unload_minutes(SOON)
        scene.ready()
        until(lambda: scene.controller.status.state == "unloaded")
        scene.ask("Hello?")
        until(lambda: scene.controller.status.state == "unloaded")


def test_nothing_is_unloaded_during_a_reply(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=4, pause_s=0.4) as scene:
        scene.ready()
        scene.controller.set_unload_minutes(SOON)
        assert scene.controller.send("Hello?")
        scene.streaming(3)
        scene.controller.unload()
        until(lambda: scene.ended)
        assert scene.ended[0].state == "complete" and "unloaded" not in scene.states
        until(lambda: scene.controller.status.state == "unloaded")


def test_zero_minutes_never_unload(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.controller.set_unload_minutes(SOON)
        scene.controller.set_unload_minutes(0)
        scene.ready()
        for_a_while(0.4)
        assert scene.controller.status.state == "on"
