"""A download and the queue of downloads, with children that replay what was recorded."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from app.model_words import pace
from app.protocol.download_events import read_line
from app.window.models import downloads
from app.window.models.downloads import VANISHED, Download, DownloadQueue, status
from tests.app.window.models.fake_models import (
    EAGLE,
    QWEN,
    SMALL,
    WAIT,
    FakeModels,
    asking,
    done,
    failed,
    fetched,
    planned,
    progress,
)
from tests.app.window.waiting import until

SIZES = {"a.safetensors": 600, "b.safetensors": 300, "config.json": 100}
PAUSED = {"type": "Paused", "repo": QWEN, "done_bytes": 0, "total_bytes": 0}


def download_after(*events: dict[str, Any], download: Download | None = None) -> Download:
    download = download or Download(QWEN)
    for event in events:
        download.receive(read_line(json.dumps(event)))
    return download


def halfway(repo: str) -> tuple[dict[str, object], ...]:
    return asking(repo), planned(repo, SIZES), progress("a.safetensors", 500, 600, 500, 1000)


# --- one download -----------------------------------------------------------------------------


def test_a_download_is_as_far_as_its_last_event_says() -> None:
    download = download_after(asking(QWEN), planned(QWEN, SIZES, present=200))
    assert (download.state, download.done_bytes, download.total_bytes) == ("running", 200, 1000)
    download_after(progress("a.safetensors", 500, 600, 500, 1000), download=download)
    file = download.files["a.safetensors"]
    assert (download.share, file.done_bytes, file.complete) == (0.5, 500, False)
    download_after(fetched("a.safetensors", 600), download=download)
    assert (download.files["a.safetensors"].complete, download.done_bytes) == (True, 600)
    download_after(done(QWEN, 1000), download=download)
    assert (download.state, download.share, download.live) == ("done", 1.0, False)


def test_speed_and_time_left_are_shown_while_they_are_known() -> None:
    download = download_after(planned(QWEN, SIZES), progress("a.safetensors", 5, 600, 5, 97_000_005))
    assert pace(download.bytes_per_s, download.eta_s) == ["48 MB/s", "2 s left"]
    assert status(download).startswith("5 bytes of 97 MB · 48 MB/s")
    waiting = {"type": "Waiting", "why": "no connection", "wait_s": 4.0, "attempt": 2, "attempts": 5}
    download_after(waiting, download=download)
    assert status(download) == "No connection; trying again in 4 s (2 of 5)"
    assert pace(download.bytes_per_s, download.eta_s) == []


@pytest.mark.parametrize("ended", [done(QWEN, 1000), failed("network", "it broke off"), PAUSED])
def test_the_last_event_says_how_a_download_ended(ended: dict[str, Any]) -> None:
    download = download_after(*halfway(QWEN), ended)
    before = (download.state, download.message, download.reason)
    download.end_without_event()
    assert (download.state, download.message, download.reason) == before


# --- the queue --------------------------------------------------------------------------------


@pytest.fixture
def queue(app: QApplication, fake: FakeModels) -> Iterator[DownloadQueue]:
    queue = DownloadQueue(fake.command)
    yield queue
    queue.close()


def test_one_model_is_downloaded_at_a_time_in_order(queue: DownloadQueue, fake: FakeModels) -> None:
    ended: list[str] = []
    queue.ended.connect(ended.append)
    for repo in (QWEN, EAGLE, SMALL):
        fake.pull(repo, *halfway(repo), done(repo, 1000))
        queue.get(repo)
    assert [one.state for one in queue.downloads.values()] == ["asking", "queued", "queued"]
    until(lambda: not queue.downloads)
    assert fake.calls == [f"pull {repo}" for repo in (QWEN, EAGLE, SMALL)]
    assert ended == [QWEN, EAGLE, SMALL]


def test_a_pause_ends_the_child_and_starts_the_next(queue: DownloadQueue, fake: FakeModels) -> None:
    fake.pull(QWEN, *halfway(QWEN), WAIT)
    fake.pull(EAGLE, *halfway(EAGLE), WAIT)
    queue.get(QWEN)
    queue.get(EAGLE)
    until(lambda: queue.downloads[QWEN].done_bytes == 500)
    queue.pause(QWEN)
    until(lambda: queue.downloads[EAGLE].done_bytes == 500)
    paused = queue.downloads[QWEN]
    assert (paused.state, paused.done_bytes) == ("paused", 500)
    fake.pull(QWEN, *halfway(QWEN), done(QWEN, 1000))
    queue.get(QWEN)
    assert paused.state == "queued"
    queue.pause(EAGLE)
    until(lambda: QWEN not in queue.downloads)
    assert queue.downloads[EAGLE].state == "paused"


def test_a_download_is_paused_before_its_child_says_anything_or_starts(queue: DownloadQueue, fake: FakeModels) -> None:
    fake.pull(QWEN, *halfway(QWEN), WAIT)
    queue.get(QWEN)
    queue.get(EAGLE)
    queue.pause(EAGLE)
    assert queue.downloads[EAGLE].state == "paused"
    queue.pause(QWEN)
    until(lambda: queue.downloads[QWEN].state == "paused")
    assert f"pull {EAGLE}" not in fake.calls


def test_cancelling_ends_the_child_and_then_deletes(queue: DownloadQueue, fake: FakeModels) -> None:
    ended: list[str] = []
    queue.ended.connect(ended.append)
    fake.pull(QWEN, *halfway(QWEN), WAIT)
    queue.get(QWEN)
    until(lambda: queue.downloads[QWEN].done_bytes == 500)
    queue.cancel(QWEN)
    queue.cancel(SMALL)  # of an earlier run
    until(lambda: not queue.downloads)
    assert fake.calls[:1] == [f"pull {QWEN}"]
    assert sorted(fake.calls[1:]) == sorted(f"pull {repo} --discard" for repo in (QWEN, SMALL))
    assert sorted(ended) == sorted((QWEN, SMALL))


def test_a_failure_is_kept_and_the_next_download_starts(queue: DownloadQueue, fake: FakeModels) -> None:
    fake.pull(QWEN, asking(QWEN), failed("gated", "its terms must be accepted"))
    fake.pull(EAGLE, *halfway(EAGLE), {"type": "Fireworks"}, {"type": "Waiting"}, done(EAGLE, 1000))  # unknown events
    queue.get(QWEN)
    queue.get(EAGLE)
    until(lambda: EAGLE not in queue.downloads)
    kept = queue.downloads[QWEN]
    assert (kept.state, kept.reason, kept.message) == ("failed", "gated", "its terms must be accepted")


def test_a_child_that_dies_has_failed(queue: DownloadQueue, fake: FakeModels) -> None:
    fake.pull(QWEN, *halfway(QWEN), {"exit": 9})
    queue.get(QWEN)
    until(lambda: not queue.downloads[QWEN].live)
    download = queue.downloads[QWEN]
    assert (download.state, download.message, download.done_bytes) == ("failed", VANISHED, 500)


def test_a_child_that_cannot_start_has_failed(app: QApplication) -> None:
    queue = DownloadQueue(["/nowhere/at/all"])
    queue.get(QWEN)
    until(lambda: not queue.downloads[QWEN].live)
    assert queue.downloads[QWEN].message.startswith("The download could not start")


def test_quitting_pauses_the_running_download(
    queue: DownloadQueue, fake: FakeModels, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.pull(QWEN, *halfway(QWEN), WAIT)
    queue.get(QWEN)
    monkeypatch.setattr(downloads, "PAUSE_MS", 300_000)
    until(lambda: queue.downloads[QWEN].done_bytes == 500)
    process = queue._process
    assert process is not None
    queue.close()
    assert process.exitCode() == 130  # the exit status of a pause
