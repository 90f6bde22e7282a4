"""Settings, the models they ask for, and the context they leave: what is loaded when, what is said, what is counted."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from app.protocol import Law, Pair
from app.records import ChatSettings
from app.window.patience import Patience
from tests.window.control.scene import Scene
from tests.window.control.waiting import for_a_while, until


@pytest.fixture(autouse=True)
def _app(app: QApplication) -> None:
    """Every test here needs the event loop."""


def test_settings_are_of_one_conversation_and_of_the_next_new_one(tmp_path: Path) -> None:
    hot = ChatSettings(law=Law(temperature=1.5, draft_length=0), system="Be brief.")
    with Scene(tmp_path, rounds=1) as scene:
        controller = scene.controller
        scene.ask("first")
        first = controller.conversation.id
        controller.change_settings(hot)
        controller.save_preset("Hot")
        assert controller.speculating.state == "off" and "draft length is 0" in controller.speculating.said
        controller.new()
        assert controller.conversation.settings == hot
        controller.change_settings(ChatSettings())
        controller.use_preset("Hot")
        assert controller.conversation.settings == hot
        controller.delete_preset("Hot")
        assert controller.presets() == {}
        controller.open(first)
        assert controller.conversation.settings == hot
    with Scene(tmp_path) as scene:
        scene.controller.new()
        assert scene.controller.conversation.settings == hot


def test_the_models_of_a_conversation_are_loaded_when_it_is_written_in(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1) as scene:
        scene.ask("first")
        controller, first = scene.controller, scene.controller.conversation.id
        controller.new()
        controller.change_settings(ChatSettings(pair=Pair(drafter="lookup")))
        until(lambda: controller.speculating.state == "on" and controller.speculating.drafter == "lookup")
        controller.open(first)
        assert controller.speculating.state == "off" and "load when you write" in controller.speculating.said
        controller.draft_changed("w")
        until(lambda: controller.speculating.state == "on" and controller.speculating.drafter == "auto")


def test_models_that_cannot_be_loaded_are_said_and_can_be_tried_again(tmp_path: Path) -> None:
    with Scene(tmp_path, fail_load="lookup") as scene:
        scene.ready()
        controller = scene.controller
        controller.change_settings(ChatSettings(pair=Pair(drafter="lookup")))
        until(lambda: scene.said("lookup does not fit"))
        assert controller.speculating.state == "unsupported" and "does not fit" in controller.speculating.said
        controller.draft_changed("typing does not try again")
        for_a_while(0.05)
        assert len([notice for notice in scene.notices if "does not fit" in notice.text]) == 1
        assert scene.ask().state == "failed"
        assert scene.ended[0].note == "lookup does not fit"
        assert len([notice for notice in scene.notices if "does not fit" in notice.text]) == 2
        controller.change_settings(ChatSettings())
        assert scene.ask().state == "complete"


def test_the_context_is_counted_with_the_draft_and_while_a_reply_streams(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=4) as scene:
        scene.ready()
        scene.controller.draft_changed("one two three")
        until(lambda: (3, 4096) in scene.counts)
        for text in ("one two three f", "one two three four", "one two three four five"):
            scene.controller.draft_changed(text)
        until(lambda: (5, 4096) in scene.counts)
        assert (4, 4096) not in scene.counts  # the typing had not paused
        scene.ask("one two")
        assert (30 + 12, 4096) in scene.counts
        until(lambda: scene.counts[-1] == (2 + 12, 4096))


def test_a_count_of_another_conversation_is_not_shown(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1, pause_s=0.0) as scene:
        scene.ask("a b c d e f g h")
        until(lambda: scene.counts[-1] == (8 + 3, 4096))
        scene.controller._counter._ask()
        scene.controller.new()
        scene.counts.clear()
        until(lambda: scene.counts)
        for_a_while(0.05)
        assert scene.counts == [(0, 4096)]


def test_a_load_that_hangs_is_said_and_the_engine_can_be_restarted(tmp_path: Path) -> None:
    with Scene(tmp_path, Patience(load_s=0.1, again_s=(0.01,) * 9, quit_s=0.2), load_s=60.0) as scene:
        until(lambda: scene.said("Nothing has been heard of loading"))
        pid = scene.client.pid
        scene.act("Nothing has been heard of loading", "Restart the Engine")
        until(lambda: scene.client.pid not in (0, pid))
        assert scene.states[-1] == "loading" and "host down" not in scene.states
