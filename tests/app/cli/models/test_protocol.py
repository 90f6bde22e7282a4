"""The lines of `redline models pull --json`, as the window reads them from a child: each kind of line to the letter."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.protocol.download_events import (
    AnyDownloadEvent,
    Discarded,
    Done,
    Failed,
    Fetched,
    MalformedError,
    Paused,
    Planned,
    Resolving,
    read_line,
    to_line,
)
from models.hub.download import WORKERS
from models.local.inventory import installed
from models.local.locations import ModelLocations
from tests.app.command import Redline
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import PIECE, Loopback
from tests.models.hub.tiny import NAME, NEVER, read_folder, wanted
from tests.waiting import HANG_S

ROOT = Path(__file__).parents[4]

LINES = (
    '{"type":"Resolving","repo":"o/m","revision":"main"}',
    '{"type":"Waiting","why":"no answer in time","wait_s":2.0,"attempt":1,"attempts":6}',
    '{"type":"Planned","repo":"o/m","revision":"main","commit":"c0","files":[{"name":"config.json","size_bytes":9,'
    '"present_bytes":3}],"total_bytes":9,"present_bytes":3,"free_bytes":500,"left_out":2}',
    '{"type":"DownloadProgress","file":"config.json","file_bytes":5,"file_total_bytes":9,"done_bytes":5,'
    '"total_bytes":9,"bytes_per_s":null,"eta_s":null}',
    '{"type":"Verifying","file":"config.json","size_bytes":3}',
    '{"type":"Fetched","file":"config.json","size_bytes":9}',
    '{"type":"Done","repo":"o/m","commit":"c0","path":"hub/x","total_bytes":9,"fetched_bytes":6,'
    '"verified_bytes":9,"seconds":1.5}',
    '{"type":"Paused","repo":"o/m","done_bytes":3,"total_bytes":9}',
    '{"type":"Failed","reason":"gated","message":"o/m is gated"}',
    '{"type":"Discarded","repo":"o/m","freed_bytes":3}',
)


def test_each_kind_of_line_is_this_to_the_letter() -> None:
    events = [read_line(line) for line in LINES]
    assert tuple(map(to_line, events)) == LINES
    assert [read_line(line.encode()) for line in LINES] == events
    assert {type(event) for event in events} == set(AnyDownloadEvent.__args__)  # type: ignore[attr-defined]


def test_a_reader_takes_fields_that_come_later_and_refuses_what_is_no_event() -> None:
    assert read_line('{"type":"Fetched","file":"a","size_bytes":1,"new":true}') == Fetched("a", 1)
    for line in ("", "{", "[]", '{"type":"Nonsense"}', '{"type":"Fetched"}', b"\xff", "[" * 9999):
        with pytest.raises(MalformedError):
            read_line(line)


# --- in this process ------------------------------------------------------------------------------


Pull = Callable[..., tuple[int, list[Any]]]


@pytest.fixture
def pull(models: Redline) -> Pull:
    """Returns the exit code and the events; nothing but events may stand on standard output."""

    def run(*words: str) -> tuple[int, list[Any]]:
        done = models("pull", *words, "--json")
        return done.code, [read_line(line) for line in done.out.splitlines()]

    return run


def test_a_pull_is_asked_planned_fetched_and_done(pull: Pull, server: Loopback, repo: Repo) -> None:
    code, (asking, planned, *rest, done) = pull(NAME)
    total = sum(map(len, wanted(repo).values()))
    assert code == 0 and asking == Resolving(NAME, "main")
    assert (planned.repo, planned.total_bytes, planned.present_bytes, planned.left_out) == (NAME, total, 0, len(NEVER))
    assert {event.file for event in rest if isinstance(event, Fetched)} == set(wanted(repo))
    assert isinstance(done, Done) and read_folder(Path(done.path)) == wanted(repo)
    assert (done.fetched_bytes, done.verified_bytes) == (total, total)
    assert [type(event) for event in pull(NAME)[1]] == [Resolving, Planned, Done]


@pytest.mark.parametrize(
    ("words", "code", "reason", "said"),
    [
        (("tiny-org/Gone",), 1, "token", "there is no tiny-org/Gone"),
        (("../etc",), 2, "usage", "is not a repository"),
        ((NAME, "--revision", "v9"), 1, "missing", "has no revision 'v9'"),
    ],
)
def test_a_failure_is_the_last_line_and_told_in_words_too(
    models: Redline, server: Loopback, words: tuple[str, ...], code: int, reason: str, said: str
) -> None:
    done = models("pull", *words, "--json")
    last = read_line(done.out.splitlines()[-1])
    assert done.code == code and isinstance(last, Failed) and last.reason == reason and said in last.message
    assert done.err == f"redline: {last.message}\n"


def test_settings_that_cannot_be_fail_as_an_event_too(
    pull: Pull, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "two words")
    code, events = pull(NAME)
    assert code == 2 and [type(event) for event in events] == [Failed] and "two words" not in events[0].message
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "nowhere")
    code, events = pull(NAME)
    assert code == 1 and "HF_ENDPOINT is 'nowhere'" in events[0].message


def test_to_discard_is_one_line(pull: Pull, server: Loopback) -> None:
    assert pull(NAME, "--discard") == (0, [Discarded(NAME, 0)])


# --- as a child -----------------------------------------------------------------------------------


@pytest.fixture
def child(server: Loopback, places: ModelLocations, tmp_path: Path) -> Callable[[int], subprocess.Popen[str]]:
    """Starts `redline models pull` of the tiny model; the hub holds every answer after so many bytes."""
    environment = os.environ | {
        "HF_ENDPOINT": server.endpoint,
        "HF_HUB_CACHE": str(places.hub),
        "HOME": str(tmp_path),
        "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
    }

    def start(after_bytes: int) -> subprocess.Popen[str]:
        server.allowed_bytes = server.sent_bytes + after_bytes
        server.held.clear()
        command = [sys.executable, "-m", "app", "models", "pull", NAME, "--json"]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=pipe, stderr=pipe, text=True)

    return start


@pytest.mark.slow
def test_a_child_pauses_goes_on_and_ends_with_its_reader(
    child: Callable[[int], subprocess.Popen[str]], server: Loopback, repo: Repo, places: ModelLocations, pull: Pull
) -> None:
    paused = child(300_000)
    assert server.held.wait(HANG_S)
    paused.send_signal(signal.SIGTERM)
    out, err = paused.communicate(timeout=HANG_S)
    last = read_line(out.splitlines()[-1])
    assert paused.returncode == 130 and err == ""
    assert isinstance(last, Paused) and last.repo == NAME and last.total_bytes == sum(map(len, wanted(repo).values()))
    assert [(model.name, model.complete) for model in installed(places)] == [(NAME, False)]
    here = installed(places)[0].size_bytes
    assert 0 < last.done_bytes <= here <= 300_000 + WORKERS * PIECE  # of the last bytes nobody was told any more

    unread = child(60_000)
    assert unread.stdout is not None and unread.stderr is not None
    assert isinstance(read_line(unread.stdout.readline()), Resolving)
    assert isinstance(planned := read_line(unread.stdout.readline()), Planned) and planned.present_bytes == here
    unread.stdout.close()
    assert unread.wait(HANG_S) == 1 and unread.stderr.read() == ""

    server.allowed_bytes = None
    server.go.set()
    code, (*_, done) = pull(NAME)
    assert code == 0 and read_folder(Path(done.path)) == wanted(repo)
