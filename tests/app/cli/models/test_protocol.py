"""The lines of `redline models pull --json`, as the window reads them from a child: each kind of line to the letter."""

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
    Planned,
    Resolving,
    read_line,
    to_line,
)
from tests.app.command import Redline
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.models.hub.tiny import NAME, NEVER, read_folder, wanted

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
    assert pull(NAME, "--discard") == (0, [Discarded(NAME, 0)])


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
