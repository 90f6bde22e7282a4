"""The pair of the open conversation: settings, loading, unloading, and how much of the context is counted."""

from pathlib import Path

import pytest

from app.protocol import Load, Pair
from app.store.records import ChatSettings
from app.window.chat.chat_pair import MINUTE_S
from tests.app.window.chat.scene import Scene
from tests.app.window.stepped_clock import LongWaitsClock
from tests.app.window.waiting import until

LOOKUP = ChatSettings(pair=Pair(drafter="lookup"))


# --- loading ----------------------------------------------------------------------------------


def test_the_models_of_a_conversation_load_when_the_user_types(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1) as scene:
        scene.ask("first")
        controller, first = scene.controller, scene.controller.conversation.id
        controller.new()
        controller.change_settings(LOOKUP)
        until(lambda: controller.pair.status.state == "on" and controller.pair.status.drafter == "lookup")
        controller.open(first)
        assert controller.pair.status.state == "off" and "load when you start typing" in controller.pair.status.detail
        controller.pair.set_draft("w")
        until(lambda: controller.pair.status.state == "on" and controller.pair.status.drafter == "auto")


def test_a_failed_load_is_reported_and_can_be_tried_again(tmp_path: Path) -> None:
    with Scene(tmp_path, fail_load="lookup") as scene:
        scene.ready()
        controller = scene.controller
        controller.change_settings(LOOKUP)
        until(lambda: scene.notice("Lookup does not fit."))
        assert controller.pair.status.state == "unsupported" and controller.pair.status.detail == "Lookup does not fit."
        assert controller.host.status.detail == "Lookup does not fit."
        scene.requests.clear()
        controller.pair.set_draft("typing does not try again")
        assert scene.requested(Load) == []
        assert len([notice for notice in scene.notices if "does not fit" in notice.text]) == 1
        assert scene.ask().state == "failed"
        assert scene.ended[0].note == "Lookup does not fit."
        assert len([notice for notice in scene.notices if "does not fit" in notice.text]) == 2
        controller.change_settings(ChatSettings())
        assert scene.ask().state == "complete"


# --- unloading --------------------------------------------------------------------------------


def test_unloaded_models_load_again_for_typing_and_for_a_message(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=2) as scene:
        scene.ready()
        controller = scene.controller
        controller.pair.unload()
        assert controller.pair.status.state == "unloaded" and controller.host.loaded is None
        controller.pair.set_draft("H")
        until(lambda: controller.pair.status.state == "on")
        controller.pair.unload()
        assert scene.ask().state == "complete" and controller.host.loaded is not None
        assert scene.notices == []


def test_models_are_unloaded_when_idle_but_not_during_a_reply_and_not_after_zero_minutes(
    tmp_path: Path, long_waits: LongWaitsClock
) -> None:
    with Scene(tmp_path, rounds=4, hold_after=1) as scene:
        scene.controller.pair.set_idle_minutes(1)
        scene.ready()
        long_waits.advance(MINUTE_S)
        assert scene.controller.pair.status.state == "unloaded"
        scene.states.clear()
        assert scene.controller.send("Hello?")
        scene.streaming(3)
        long_waits.advance(2 * MINUTE_S)
        scene.controller.pair.unload()
        scene.go_on()
        until(lambda: scene.ended)
        assert scene.ended[0].state == "complete" and "unloaded" not in scene.states
        scene.controller.pair.set_idle_minutes(0)
        long_waits.advance(100 * MINUTE_S)
        assert scene.controller.pair.status.state == "on"
        scene.controller.pair.set_idle_minutes(1)
        long_waits.advance(MINUTE_S)
        assert scene.controller.pair.status.state == "unloaded"


# --- counting ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_context_is_counted_with_the_draft_and_while_a_reply_streams(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=4) as scene:
        scene.ready()
        scene.controller.pair.set_draft("one two three")
        until(lambda: (3, 4096) in scene.counts)
        for text in ("one two three f", "one two three four", "one two three four five"):
            scene.controller.pair.set_draft(text)
        until(lambda: (5, 4096) in scene.counts)
        assert (4, 4096) not in scene.counts  # the typing had not paused
        scene.ask("one two")
        assert (30 + 12, 4096) in scene.counts
        until(lambda: scene.counts[-1] == (2 + 12, 4096))


@pytest.mark.slow
def test_a_count_of_another_conversation_is_not_shown(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1) as scene:
        scene.ask("a b c d e f g h")
        until(lambda: scene.counts[-1] == (8 + 3, 4096))
        scene.controller.pair._count()
        scene.controller.new()
        scene.counts.clear()
        scene.controller.pair.set_draft("x y")
        until(lambda: (2, 4096) in scene.counts)  # which the host answers after the other
        assert set(scene.counts) <= {(0, 4096), (2, 4096)}
