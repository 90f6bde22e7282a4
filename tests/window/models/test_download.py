"""What the events of a download come to, and what is said of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from app.protocol.download_events import read_line
from app.window.models.downloads import VANISHED, Download
from app.window.models.model_text import pace, status
from tests.window.models.shop import QWEN, asking, done, failed, fetched, planned, progress

SIZES = {"a.safetensors": 600, "b.safetensors": 300, "config.json": 100}


def heard(*events: dict[str, Any]) -> Download:
    download = Download(QWEN)
    for event in events:
        download.receive(read_line(json.dumps(event)))
    return download


def test_a_download_is_as_far_as_its_last_word() -> None:
    download = heard(asking(QWEN), planned(QWEN, SIZES, present=200))
    assert (download.state, download.done_bytes, download.total_bytes) == ("running", 200, 1000)
    download.receive(read_line(json.dumps(progress("a.safetensors", 500, 600, 500, 1000))))
    assert download.share == 0.5
    assert (download.files["a.safetensors"].done_bytes, download.files["a.safetensors"].whole) == (500, False)
    download.receive(read_line(json.dumps(fetched("a.safetensors", 600))))
    assert (download.files["a.safetensors"].whole, download.done_bytes) == (True, 600)
    download.receive(read_line(json.dumps(done(QWEN, 1000))))
    assert (download.state, download.share, download.live) == ("done", 1.0, False)


def test_speed_and_time_left_are_said_while_they_are_known() -> None:
    download = heard(planned(QWEN, SIZES), progress("a.safetensors", 5, 600, 5, 97_000_005))
    assert pace(download) == "48 MB/s · 2 s left"
    assert status(download).startswith("5 bytes of 97 MB · 48 MB/s")
    waiting = {"type": "Waiting", "why": "no connection", "wait_s": 4.0, "attempt": 2, "attempts": 5}
    download.receive(read_line(json.dumps(waiting)))
    assert status(download) == "No connection; trying again in 4 s (2 of 5)"
    assert pace(download) == ""


def test_a_pause_keeps_what_came() -> None:
    download = heard(planned(QWEN, SIZES), progress("a.safetensors", 500, 600, 500, 1000))
    download.receive(read_line(json.dumps({"type": "Paused", "repo": QWEN, "done_bytes": 0, "total_bytes": 0})))
    assert (download.state, download.done_bytes, download.total_bytes) == ("paused", 500, 1000)
    assert status(download) == "Paused · 50%"


def test_a_failure_says_why() -> None:
    download = heard(asking(QWEN), failed("disk", "no space left on the disk"))
    assert (download.state, download.reason, download.message) == ("failed", "disk", "no space left on the disk")
    assert not download.live


@pytest.mark.parametrize("ended", [done(QWEN, 1000), failed("network", "it broke off")])
def test_a_child_that_has_said_how_it_ends_does_not_vanish(ended: dict[str, Any]) -> None:
    download = heard(planned(QWEN, SIZES), ended)
    before = (download.state, download.message)
    download.vanish()
    assert (download.state, download.message) == before


def test_a_child_that_vanishes_has_failed() -> None:
    download = heard(planned(QWEN, SIZES))
    download.vanish()
    assert (download.state, download.message) == ("failed", VANISHED)
