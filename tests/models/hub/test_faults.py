"""Whatever the hub answers: one line that says what to do, and what may pass is tried again."""

import dataclasses
from datetime import datetime, tzinfo
from typing import Self

import httpx2
import pytest
from huggingface_hub.errors import HfHubHTTPError

from models.hub import failures
from models.hub.client import Hub
from models.hub.download import DownloadWorkers
from models.hub.download_events import Waiting
from models.hub.failures import requested_wait_s
from models.hub.repo_cache import RepoCache
from tests.engine.fewer import paired
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN, Loopback
from tests.models.hub.outcomes import FIRST, pull_whole, refusal_of
from tests.models.hub.tiny import NAME

API, FILES = "/api/models/", "/resolve/"


ANSWERS: list[tuple[int, dict[str, str], str, str]] = [
    (401, {}, "token", "there is no tiny-org/Tiny-4bit at {endpoint}; check the name or, if it is private, run `"),
    (401, {"X-Error-Code": "GatedRepo"}, "gated", "is gated: accept its terms at {endpoint}/tiny-org/Tiny-4bit"),
    (403, {"X-Error-Code": "GatedRepo"}, "gated", ", run `redline models login`, then pull again"),
    (403, {}, "gated", "denied access (403); check the permissions of your token"),
    (403, {"X-Error-Message": "Access to this resource is disabled."}, "gated", "was disabled by the hub"),
    (404, {"X-Error-Code": "RepoNotFound"}, "missing", "there is no tiny-org/Tiny-4bit at {endpoint}"),
    (404, {"X-Error-Code": "RevisionNotFound"}, "missing", "has no revision 'main'; see {endpoint}/tiny-org"),
    (404, {"X-Error-Code": "EntryNotFound"}, "missing", "was removed during the download; pull again"),
    (418, {}, "hub", "answered 418; check the name and HF_ENDPOINT"),
    (429, {}, "busy", "too many requests from here (429); try again in a few minutes; logging in with `"),
    (500, {}, "server", "the hub is having problems (500); try again later"),
]


@pytest.mark.parametrize(("answer", "where"), paired(ANSWERS, [API, FILES]))
def test_every_refusal_says_what_to_do(
    hub: Hub, server: Loopback, answer: tuple[int, dict[str, str], str, str], where: str
) -> None:
    status, headers, reason, said = answer
    server.trouble(where, status=status, headers=headers, body=b'{"error": "\\u001b[31mno"}', times=None)
    error = refusal_of(hub)
    assert said.format(endpoint=server.endpoint) in str(error)
    assert error.reason == reason
    assert not RepoCache(hub.cache, NAME).plans.exists() or where == FILES


def test_what_the_hub_really_answers_is_understood(hub: Hub, server: Loopback, repo: Repo) -> None:
    logged_in = dataclasses.replace(hub, token=TOKEN)
    assert refusal_of(hub, "nobody/nothing").reason == "token"  # to the nameless, a private one and none look alike
    missing = refusal_of(logged_in, "nobody/nothing")
    assert missing.reason == "missing" and "check the name, and that your token has access" in str(missing)
    assert refusal_of(hub, revision="nope").reason == "missing"
    repo.gated = True
    assert "/tiny-org/Tiny-4bit with your token's account, then pull again" in str(refusal_of(logged_in))
    assert "run `redline models login`, then pull again" in str(refusal_of(hub))
    assert "does not accept the token; run" in str(refusal_of(dataclasses.replace(hub, token="hf_old")))


@pytest.mark.parametrize(("where", "status"), [(API, 429), (FILES, 408), ("/blobs/", 503)])
def test_transient_errors_are_retried(hub: Hub, server: Loopback, repo: Repo, where: str, status: int) -> None:
    server.trouble(where, status=status, times=2)
    waits = [event for event in pull_whole(hub, repo) if isinstance(event, Waiting)]
    assert len(waits) == 2
    assert str(status) in waits[0].why


def test_permanent_errors_are_not_retried(hub: Hub, server: Loopback) -> None:
    server.trouble(API, status=404, headers={"X-Error-Code": "RepoNotFound"}, times=None)
    refusal_of(hub)
    assert len(server.seen) == 1


# --- too many requests --------------------------------------------------------------------------


def test_a_requested_wait_is_kept(hub: Hub, server: Loopback, repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(DownloadWorkers, "_sleep", lambda _, seconds: slept.append(seconds))
    server.trouble(FIRST, status=429, headers={"Retry-After": "1"})
    waits = [event for event in pull_whole(hub, repo) if isinstance(event, Waiting)]
    assert [(wait.wait_s, wait.why) for wait in waits] == [(1.0, "too many requests (429)")] and slept == [1.0]


def test_a_requested_wait_that_is_too_long_is_an_error(hub: Hub, server: Loopback) -> None:
    server.trouble(API, status=429, headers={"Retry-After": "2400"}, times=None)
    assert "try again in 40 min" in str(refusal_of(hub))
    assert len(server.seen) == 1


class Clock(datetime):
    """Seven minutes past seven, and a half."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return cls(2015, 10, 21, 7, 7, 30, tzinfo=tz)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "17"}, 17.0),
        ({"RateLimit": '"api";r=0;t=55'}, 55.0),
        ({"RateLimit": '"api";r=3;t=55'}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "Wed, 21 Oct 2015 07:08:00 GMT"}, 30.0),
        ({"Retry-After": "Wed, 21 Oct 2015 07:07:00 GMT"}, 0.0),
        ({}, None),
    ],
)
def test_how_long_the_hub_asks_to_wait(
    headers: dict[str, str], seconds: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "datetime", Clock)
    response = httpx2.Response(429, headers=headers, request=httpx2.Request("GET", "http://localhost/"))
    assert requested_wait_s(HfHubHTTPError("", response=response)) == seconds
