"""A pair on several machines: what the window does when one of them is lost, and where none can be reached."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app.protocol import Load, Pair, Reply, SamplingSettings
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
        assert scene.controller.status.machines == 1
        scene.controller.change_settings(SHARED)
        until(lambda: scene.controller.status.state == "on" and scene.controller.status.drafter == "lookup")
        assert scene.controller.status.machines == 2
        plain = ChatSettings(pair=SHARED.pair, sampling=SamplingSettings(draft_length=0))
        scene.controller.change_settings(plain)
        assert (scene.controller.status.state, scene.controller.status.machines) == ("off", 2)


def _ranks(pid: int) -> list[int]:
    words = ["pgrep", "-P", str(pid), "-f", "cluster --follow"]
    return [int(found) for found in subprocess.run(words, capture_output=True, text=True, check=False).stdout.split()]


@pytest.mark.slow
def test_a_real_rank_that_is_killed_loses_nothing_and_is_joined_again(toy_folder: Path, tmp_path: Path) -> None:
    hosts, here = tmp_path / "hosts.json", {"ssh": "localhost", "ips": ["127.0.0.1"]}
    hosts.write_text(json.dumps({"hosts": [here, here]}))
    sampling = SamplingSettings(max_tokens=40, temperature=0.8, seed=1, acceptance="coupled", draft_length=2)
    pair = Pair(target=str(toy_folder), drafter="lookup", hosts=str(hosts))
    with Scene(tmp_path, words=[sys.executable, "-m", "app.host"]) as scene:

        def end_rank(number: int) -> None:
            (rank,) = _ranks(scene.process.pid)
            os.kill(rank, number)

        scene.controller.change_settings(ChatSettings(pair=pair, sampling=sampling))
        until(lambda: scene.loaded_pair() == pair)
        whole = scene.ask("the sky is blue")
        assert whole.state == "complete" and scene.notices == []
        end_rank(signal.SIGKILL)  # while nothing is asked
        until(lambda: scene.notice("a part of this model"))
        until(lambda: scene.loaded_pair() == pair)
        assert len(scene.notices) == 1 and scene.notices.pop().text.startswith("The engine stopped (")
        end_rank(signal.SIGSTOP)  # so that the reply cannot end before the rank does
        assert scene.controller.regenerate(whole.id, again=True)
        until(lambda: len(scene.requested(Reply)) == 2)
        end_rank(signal.SIGKILL)
        until(lambda: scene.notice("a part of this model"))
        cut = scene.ended[-1]
        assert cut.state == "cut" and whole.text.startswith(cut.text)
        scene.press("The engine stopped (", "Continue")
        until(lambda: len(scene.ended) == 3)
        assert scene.ended[-1].state == "complete" and scene.ended[-1].text == whole.text
        assert len(_ranks(scene.process.pid)) == 1
