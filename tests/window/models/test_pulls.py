"""The queue of downloads, with children that play what was recorded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication

from app.window.models.downloads import VANISHED, DownloadQueue
from tests.window.models.shop import EAGLE, QWEN, SMALL, WAIT, Shop, asking, done, failed, planned, progress
from tests.window.waiting import for_a_while, until

SIZES = {"model.safetensors": 1000}


@pytest.fixture
def pulls(app: QApplication, shop: Shop) -> Iterator[DownloadQueue]:
    made = DownloadQueue(shop.command)
    made.came = []  # type: ignore[attr-defined]
    made.ended.connect(lambda repo: made.came.append(repo))  # type: ignore[attr-defined]
    yield made
    made.close()


def halfway(repo: str) -> tuple[dict[str, object], ...]:
    return asking(repo), planned(repo, SIZES), progress("model.safetensors", 500, 1000, 500, 1000)


def test_one_is_downloaded_at_a_time_in_the_order_of_asking(pulls: DownloadQueue, shop: Shop) -> None:
    for repo in (QWEN, EAGLE, SMALL):
        shop.pull(repo, *halfway(repo), {"sleep": 0.05}, done(repo, 1000))
        pulls.get(repo)
    assert [one.state for one in pulls.downloads.values()] == ["asking", "queued", "queued"]
    until(lambda: not pulls.downloads)
    assert shop.calls == [f"pull {repo}" for repo in (QWEN, EAGLE, SMALL)]
    assert pulls.came == [QWEN, EAGLE, SMALL]  # type: ignore[attr-defined]


def test_a_pause_ends_the_child_and_the_next_begins(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, *halfway(QWEN), WAIT)
    shop.pull(EAGLE, *halfway(EAGLE), WAIT)
    pulls.get(QWEN)
    pulls.get(EAGLE)
    until(lambda: pulls.downloads[QWEN].done_bytes == 500)
    pulls.pause(QWEN)
    until(lambda: pulls.downloads[EAGLE].done_bytes == 500)
    paused = pulls.downloads[QWEN]
    assert (paused.state, paused.done_bytes) == ("paused", 500)
    shop.pull(QWEN, *halfway(QWEN), done(QWEN, 1000))
    pulls.get(QWEN)
    assert paused.state == "queued"
    pulls.pause(EAGLE)
    until(lambda: QWEN not in pulls.downloads)
    assert pulls.downloads[EAGLE].state == "paused"


def test_one_that_waits_is_paused_without_a_child(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, *halfway(QWEN), WAIT)
    pulls.get(QWEN)
    pulls.get(EAGLE)
    pulls.pause(EAGLE)
    assert pulls.downloads[EAGLE].state == "paused"
    until(lambda: pulls.downloads[QWEN].done_bytes == 500)
    assert shop.calls == [f"pull {QWEN}"]


def test_cancel_pauses_waits_and_throws_away(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, *halfway(QWEN), WAIT)
    pulls.get(QWEN)
    until(lambda: pulls.downloads[QWEN].done_bytes == 500)
    pulls.cancel(QWEN)
    until(lambda: not pulls.downloads)
    assert shop.calls == [f"pull {QWEN}", f"pull {QWEN} --discard"]
    assert pulls.came == [QWEN]  # type: ignore[attr-defined]


def test_what_an_earlier_run_left_off_can_be_thrown_away(pulls: DownloadQueue, shop: Shop) -> None:
    pulls.cancel(SMALL)
    until(lambda: not pulls.downloads)
    assert shop.calls == [f"pull {SMALL} --discard"]


def test_a_failure_stays_to_be_read_and_the_next_begins(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, asking(QWEN), failed("gated", "its terms must be accepted"))
    shop.pull(EAGLE, *halfway(EAGLE), done(EAGLE, 1000))
    pulls.get(QWEN)
    pulls.get(EAGLE)
    until(lambda: EAGLE not in pulls.downloads)
    kept = pulls.downloads[QWEN]
    assert (kept.state, kept.reason, kept.message) == ("failed", "gated", "its terms must be accepted")


def test_a_child_that_dies_has_failed(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, *halfway(QWEN), {"exit": 9})
    pulls.get(QWEN)
    until(lambda: not pulls.downloads[QWEN].live)
    assert (pulls.downloads[QWEN].message, pulls.downloads[QWEN].done_bytes) == (VANISHED, 500)


def test_a_child_that_cannot_be_started_says_so(app: QApplication) -> None:
    pulls = DownloadQueue(["/nowhere/at/all"])
    pulls.get(QWEN)
    until(lambda: not pulls.downloads[QWEN].live)
    assert pulls.downloads[QWEN].message.startswith("The download could not start")


def test_an_event_that_is_new_is_passed_over(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, *halfway(QWEN), {"type": "Fireworks"}, {"type": "Waiting"}, done(QWEN, 1000))
    pulls.get(QWEN)
    until(lambda: not pulls.downloads)


def test_leaving_pauses_what_goes_on(pulls: DownloadQueue, shop: Shop) -> None:
    shop.pull(QWEN, *halfway(QWEN), WAIT)
    pulls.get(QWEN)
    until(lambda: pulls.downloads[QWEN].done_bytes == 500)
    process = pulls._process
    assert process is not None
    pulls.close()
    assert process.exitCode() == 130  # which is a pause
    for_a_while(0.05)
