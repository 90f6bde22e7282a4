"""Whatever a hub answers, a pull ends: bounds on the time, the size and the depth of answers, on the pace of files, and
on where a redirect may lead. Long form: `python -m tests.attack hub`."""

import dataclasses
import gzip
import itertools
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest

from engine.errors import HubError
from models.hub import file_transfer, request_bounds
from models.hub.client import Hub, account_name
from models.hub.file_transfer import FileTransfer, TransferCallbacks, TransferPace
from models.hub.repo_files import HubFile, RepoListing
from models.hub.request_bounds import LARGEST_ANSWER_BYTES, RefusedAnswerError, within
from tests.attack import hub as attack
from tests.models.hub.conftest import QUICK
from tests.models.hub.hub_contents import Repo
from tests.models.hub.loopback import TOKEN, Loopback
from tests.models.hub.outcomes import FIRST, pull_whole, refusal_of
from tests.models.hub.raw_server import SILENCE, answer, raw_server
from tests.models.hub.tiny import NAME
from tests.waiting import HANG_S

API = "/api/models/"
DEEP = b"[" * 100_000 + b"]" * 100_000


def test_an_answer_nested_without_end_is_an_error_in_words(hub: Hub, server: Loopback) -> None:
    server.trouble(API, body=b'{"siblings": ' + DEEP + b"}", times=None)
    assert "gave an answer that did not come from a hub" in str(refusal_of(hub))
    server.trouble("whoami", body=DEEP)
    with pytest.raises(HubError, match="did not come from a hub"):
        account_name(hub)


def test_an_answer_too_large_is_refused_before_it_is_read_to_its_end(hub: Hub, server: Loopback) -> None:
    server.trouble(API, body=b" " * (3 * LARGEST_ANSWER_BYTES), times=None)
    assert "sends an answer of more than 16 MiB; check HF_ENDPOINT" in str(refusal_of(hub))
    assert len(server.seen) == 1


def test_a_compressed_answer_is_refused(hub: Hub, server: Loopback) -> None:
    server.trouble(API, body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}, times=None)
    assert "compresses its answers, although it was asked not to" in str(refusal_of(hub))


@pytest.mark.parametrize("where", [API, "/resolve/"])
@pytest.mark.parametrize("body", [DEEP, b"[]", b'{"errors": 7}'])
def test_a_refusal_is_known_by_its_status_whatever_its_body(
    hub: Hub, server: Loopback, where: str, body: bytes
) -> None:
    server.trouble(where, status=404, body=body, times=None)
    assert refusal_of(hub).reason == "missing"


@pytest.mark.parametrize("begun", [[b"HTTP/1.1 200"], [answer(b"{}", Content_Length="1000000")]], ids=["head", "body"])
def test_an_answer_that_never_ends_is_given_up(hub: Hub, begun: list[bytes]) -> None:
    """However long the socket would wait for the next byte, which begins anew with each."""
    policy = dataclasses.replace(QUICK, answer_s=0.2)
    with raw_server(lambda _: [*begun, SILENCE]) as slow:
        error = refusal_of(dataclasses.replace(hub, endpoint=slow.endpoint, policy=policy))
    assert "did not answer within 0.2 s" in str(error)


@pytest.mark.parametrize(
    ("bytes_an_answer", "window_s", "words"), [(99_999, 300.0, "does not answer"), (1, 1e9, "broke off")]
)
def test_a_file_that_drips_is_given_up_though_each_byte_is_new(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bytes_an_answer: int, window_s: float, words: str
) -> None:
    """By a clock that is a quarter of an hour further at each look, within one answer, or a byte an answer."""
    clock = itertools.count(0.0, 900.0)
    monkeypatch.setattr(file_transfer, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    file = HubFile(FIRST, 100_000, "sha256", "a" * 64)

    def drip(_: str) -> Iterator[bytes]:
        have = int(slow.heads[-1].partition("bytes=")[2].partition("-")[0] or 0)
        yield b"HTTP/1.1 206 Partial Content\r\nContent-Length: 99999\r\n"
        yield f"Content-Range: bytes {have}-99999/*\r\n\r\n".encode()
        yield from itertools.repeat(b"x", bytes_an_answer)

    with raw_server(drip) as slow:
        policy = dataclasses.replace(QUICK, slow_window_s=window_s, least_bytes_per_s=10_000.0)
        slow_hub = dataclasses.replace(hub, endpoint=slow.endpoint, policy=policy)
        listing = RepoListing(NAME, "main", "c" * 40, (file,), 0)
        heard = TransferCallbacks(lambda _: None, lambda _: None, lambda: None, lambda _: None)
        with pytest.raises(HubError, match=words):
            FileTransfer(slow_hub, listing, file, tmp_path / "part", heard).run()
    assert len(slow.heads) == QUICK.attempts


def test_the_time_of_an_answer_bounds_a_file_only_until_it_begins(
    hub: Hub, server: Loopback, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on_once_it_returns(*given: Any) -> Any:
        response: Any = within(*given)
        if repo.etag(FIRST) in str(response.url):
            server.go.set()
        return response

    monkeypatch.setattr(file_transfer, "within", go_on_once_it_returns)
    server.trouble(f"/blobs/{repo.etag(FIRST)}", hold=1000)
    pull_whole(hub, repo)


def test_the_pace_is_judged_over_a_window() -> None:
    clock = [0.0]
    policy = dataclasses.replace(QUICK, slow_window_s=60.0, least_bytes_per_s=1000.0)
    pace = TransferPace(policy, lambda: clock[0])
    for clock[0] in (1.0, 30.0, 59.0):
        pace.add(1, 1)
    assert not pace.brought_something
    clock[0] = 60.0
    pace.add(60_000, 60_000)
    assert pace.brought_something
    clock[0] = 119.0
    pace.add(59_000, 0)
    clock[0] = 120.0
    with pytest.raises(httpx2.ReadTimeout):
        pace.add(1, 1)


@pytest.mark.parametrize("where", ["/api/", "/resolve/"])
def test_no_request_leaves_for_http_after_https(tmp_path: Path, where: str) -> None:
    pytest.importorskip("cryptography")
    assert attack.insecure(tmp_path / "place", where) == ""


def test_no_cookie_is_kept(hub: Hub) -> None:
    with raw_server(lambda path: iter([answer(b'{"name": "me"}', Set_Cookie="id=1; Path=/")])) as jar:
        for _ in range(2):
            assert account_name(dataclasses.replace(hub, endpoint=jar.endpoint, token=TOKEN)) == "me"
    assert len(jar.heads) == 2 and "cookie" not in jar.heads[1].lower()


def test_ctrl_c_is_heard_while_an_answer_is_waited_for() -> None:
    never = threading.Event()

    def interrupt_and_wait() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        never.wait()

    with pytest.raises(KeyboardInterrupt):
        within(HANG_S, interrupt_and_wait)
    never.set()


def test_what_comes_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, late, closed = list[float](), threading.Event(), threading.Event()
    monkeypatch.setattr(request_bounds, "wait", lambda futures, limit_s: waited.append(limit_s) or wait(futures, 0))
    with pytest.raises(RefusedAnswerError, match=r"did not answer within 0\.01 s"):
        within(0.01, lambda: late.wait() and closed, threading.Event.set)
    late.set()
    assert closed.wait(HANG_S) and waited == [0.01]
    monkeypatch.undo()
    with pytest.raises(ValueError, match="x"):
        within(HANG_S, lambda: int("x"))


@pytest.mark.slow
def test_the_short_attack_finds_nothing() -> None:
    assert attack.attack(2, short=True) == []
