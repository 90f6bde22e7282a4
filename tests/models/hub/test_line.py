"""A line that breaks, is silent, is not there or leads through a proxy."""

import dataclasses
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils import close_session

from engine.errors import HubError
from models.hub.client import Hub
from models.hub.download import pull
from models.hub.download_events import Done, DownloadProgress, Resolving, Waiting
from tests.models.hub.conftest import QUICK
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import Loopback
from tests.models.hub.outcomes import FIRST, part_of, pull_whole, refusal_of
from tests.models.hub.tiny import NAME

API = "/api/models/"


def test_a_cut_connection_is_taken_up_at_the_byte(hub: Hub, server: Loopback, repo: Repo) -> None:
    path = f"/blobs/{repo.etag(FIRST)}"
    server.trouble(path, cut_after=48 * 1024)
    server.trouble(path, cut_after=32 * 1024)
    events = pull_whole(hub, repo)
    assert [seen.range for seen in server.requests(path)] == ["", "bytes=49152-", "bytes=81920-"]
    assert isinstance(events[-1], Done) and events[-1].fetched_bytes == events[-1].total_bytes
    assert [event.attempt for event in events if isinstance(event, Waiting)] == [1, 1]  # bytes came in between


def test_a_connection_that_breaks_again_and_again_ends_in_an_error(hub: Hub, server: Loopback, repo: Repo) -> None:
    server.trouble(f"/blobs/{repo.etag(FIRST)}", cut_after=48 * 1024)
    server.trouble(f"/blobs/{repo.etag(FIRST)}", cut_after=0, times=None)
    error = refusal_of(hub)
    assert error.reason == "network" and "broke off; try again: what was downloaded is kept" in str(error)
    assert part_of(hub, repo).stat().st_size == 48 * 1024
    server.troubles.clear()
    pull_whole(hub, repo)


def test_a_server_without_ranges_works(hub: Hub, server: Loopback, repo: Repo) -> None:
    path = f"/blobs/{repo.etag(FIRST)}"
    server.trouble(path, cut_after=48 * 1024)
    server.trouble(path, deaf=True)
    pull_whole(hub, repo)


def test_a_server_that_starts_over_for_ever_is_given_up(hub: Hub, server: Loopback, repo: Repo) -> None:
    server.trouble(f"/blobs/{repo.etag(FIRST)}", cut_after=48 * 1024, deaf=True, times=None)
    assert refusal_of(hub).reason == "network"
    assert len(server.requests(f"/blobs/{repo.etag(FIRST)}")) == QUICK.attempts


def test_a_silent_server_is_given_up(hub: Hub, server: Loopback) -> None:
    server.trouble("/blobs/", hold=0, times=None)
    error = refusal_of(dataclasses.replace(hub, policy=dataclasses.replace(QUICK, silence_s=0.1)))
    assert error.reason == "network" and "does not answer" in str(error)


def test_no_network(hub: Hub) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = dataclasses.replace(hub, endpoint=f"http://127.0.0.1:{free.getsockname()[1]}")
        error = refusal_of(nobody)
        assert error.reason == "network" and "check the network and any proxy" in str(error)
        events = pull(nobody, NAME)
        assert next(events) == Resolving(NAME, "main")
        assert next(events) == Waiting("no connection", 0.01, 1, QUICK.first_attempts)  # who is offline hears it soon
        with pytest.raises(HubError):
            next(events)


@pytest.fixture
def no_session() -> Iterator[None]:
    """huggingface_hub's session reads the proxies once, when it is made."""
    close_session()
    yield
    close_session()


@pytest.mark.usefixtures("no_session")
def test_a_proxy_that_refuses(hub: Hub, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", server.endpoint)  # knows no CONNECT
    error = refusal_of(dataclasses.replace(hub, endpoint="https://hub.invalid"))
    assert error.reason == "proxy" and "check HTTPS_PROXY" in str(error)


@pytest.mark.usefixtures("no_session")
def test_through_a_proxy_the_model_comes(
    hub: Hub, server: Loopback, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The loopback takes whole addresses too, as a proxy must: nobody else could know where hub.invalid is."""
    monkeypatch.setenv("HTTP_PROXY", server.endpoint)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pull_whole(dataclasses.replace(hub, endpoint="http://hub.invalid"), repo)
    assert {seen.path.partition("/api/")[0] for seen in server.requests(API)} == {"http://hub.invalid"}


def test_a_proxy_that_wants_a_login(hub: Hub, server: Loopback) -> None:
    server.trouble(API, status=407)
    error = refusal_of(hub)
    assert error.reason == "proxy" and "HTTPS_PROXY, as name:password@host" in str(error)


def test_a_server_that_holds_still_is_told_of_every_second(
    hub: Hub, server: Loopback, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("models.hub.download._SILENCE_S", 0.02)
    server.trouble(f"/blobs/{repo.etag(FIRST)}", hold=64 * 1024)
    events, told = pull(hub, NAME), []
    for event in events:
        told.append(event)
        still = isinstance(event, DownloadProgress) and event == told[-2]
        if still and server.held.is_set():
            server.go.set()
    assert server.go.is_set() and isinstance(told[-1], Done)


def test_offline_is_offline(hub: Hub, server: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    assert refusal_of(hub).reason == "offline"
    assert not server.seen


@pytest.mark.parametrize(
    "body",
    [b"<html>Welcome to the hotel</html>", b"null", b'{"id": 3}', b'{"id": "a/b", "siblings": [{}]}'],
)
def test_an_answer_that_no_hub_would_give(hub: Hub, server: Loopback, body: bytes) -> None:
    server.trouble(API, body=body, times=None)
    assert refusal_of(hub).reason in ("hub", "unsuitable")


@pytest.mark.parametrize("endpoint", ["", "huggingface.co", "ftp://hub", "https://"])
def test_an_endpoint_must_be_an_address(cache: Path, endpoint: str) -> None:
    with pytest.raises(HubError, match="HF_ENDPOINT is"):
        Hub(endpoint, cache)
