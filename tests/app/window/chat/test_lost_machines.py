"""A pair on several machines: what the window does when one of them is lost, and where none can be reached."""

from pathlib import Path

import pytest

from app.protocol import Load, Pair, SamplingSettings
from app.store.records import ChatSettings
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene, whole_path
from tests.app.window.waiting import until

SHARED = ChatSettings(pair=Pair(drafter="lookup", hosts="hosts.json"))
LOST = "The engine stopped (studio, which computes a part of this model, has ended) while writing a reply."


def test_a_lost_machine_is_one_notice_and_the_reply_goes_on_once_it_is_back(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=10, lose_after=6) as scene:
        scene.controller.change_settings(SHARED)
        record = scene.ask()
        assert record.state == "cut" and record.text == text_of(18) == scene.text(record.id)
        assert [notice.text for notice in scene.notices] == [f"{LOST} The text so far is saved."]
        scene.requests.clear()
        scene.press("The engine stopped", "Continue")
        until(lambda: len(scene.ended) == 2)
        assert scene.ended[1].state == "cut"  # the machine is lost again, six rounds later
        assert scene.ended[1].text == text_of(36)
        assert {load.pair for load in scene.requested(Load)} == {SHARED.pair}
    assert whole_path(tmp_path)[-1].text == text_of(36)


@pytest.mark.slow
def test_where_machines_cannot_be_reached_this_computer_goes_on_alone(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=3, unreachable="studio cannot be reached: check the network") as scene:
        scene.controller.change_settings(SHARED)
        until(lambda: scene.notice("Studio cannot be reached"))
        assert scene.ask().state == "failed"  # the request tried again
        assert len(scene.requested(Load)) >= 2
        scene.notices.clear()
        scene.controller.pair._load_again(SHARED.pair)
        until(lambda: scene.notice("Studio cannot be reached"))
        notice = scene.notice("Studio cannot be reached")
        assert notice is not None and [label for label, _ in notice.actions] == ["Try Again", "Use This Computer Alone"]
        scene.press("Studio cannot be reached", "Use This Computer Alone")
        until(lambda: scene.loaded_pair() == Pair(drafter="lookup"))
        assert scene.controller.conversation.settings.pair.hosts == ""
        assert scene.ask("again").state == "complete"


@pytest.mark.slow
def test_a_target_that_is_too_large_for_this_computer_is_not_offered_here(tmp_path: Path) -> None:
    with Scene(tmp_path, fail_load="lookup") as scene:
        scene.controller.change_settings(SHARED)
        until(lambda: scene.notice("does not fit"))
        notice = scene.notice("does not fit")
        assert notice is not None and [label for label, _ in notice.actions] == ["Try Again"]


def test_the_status_says_how_many_machines_there_are(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene:
        scene.ready()
        assert scene.controller.pair.status.machines == 1
        scene.controller.change_settings(SHARED)
        until(lambda: scene.controller.pair.status.state == "on" and scene.controller.pair.status.drafter == "lookup")
        assert scene.controller.pair.status.machines == 2
        plain = ChatSettings(pair=SHARED.pair, sampling=SamplingSettings(draft_length=0))
        scene.controller.change_settings(plain)
        assert (scene.controller.pair.status.state, scene.controller.pair.status.machines) == ("off", 2)
