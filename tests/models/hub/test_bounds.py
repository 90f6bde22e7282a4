"""Whatever a hub answers, a pull ends: bounds on the time, the size and the depth of answers, on the pace of files, and
on where a redirect may lead. Long form: `python -m tests.attack hub`."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from huggingface_hub.utils import get_session

from engine.errors import HubError
from models.hub.client import Hub, account_name
from models.hub.file_transfer import TransferPace
from models.hub.request_bounds import LARGEST_ANSWER_BYTES, RefusedAnswerError, within
from tests.attack import hub as attack
from tests.models.hub.conftest import QUICK
from tests.models.hub.held import Repo
from tests.models.hub.loopback import TOKEN, Loopback
from tests.models.hub.outcomes import FIRST, refused, whole
from tests.models.hub.raw_server import answer, dripped, raw_server
from tests.models.hub.tiny import NAME

API = "/api/models/"
HASTY = dataclasses.replace(QUICK, answer_s=0.2, slow_window_s=0.1, least_bytes_per_s=10_000.0)
DEEP = b"[" * 100_000 + b"]" * 100_000


@pytest.mark.parametrize("body", [DEEP, b'{"siblings": ' + DEEP + b"}"])
def test_an_answer_nested_without_end_is_an_error_in_words(hub: Hub, server: Loopback, body: bytes) -> None:
    server.trouble(API, body=body, times=None)
    assert "gave an answer that did not come from a hub" in str(refused(hub))


def test_an_account_nested_without_end_is_an_error_in_words(hub: Hub, server: Loopback) -> None:
    server.trouble("whoami", body=DEEP)
    with pytest.raises(HubError, match="did not come from a hub"):
        account_name(hub)


def test_an_answer_too_large_is_refused_before_it_is_read_to_its_end(hub: Hub, server: Loopback) -> None:
    server.trouble(API, body=b" " * (3 * LARGEST_ANSWER_BYTES), times=None)
    assert "sends an answer of more than 16 MiB; check HF_ENDPOINT" in str(refused(hub))
    assert len(server.seen) == 1


def test_a_compressed_answer_is_refused(hub: Hub, server: Loopback) -> None:
    server.trouble(API, body=gzip.compress(b"{}"), headers={"Content-Encoding": "gzip"}, times=None)
    assert "compresses its answers, although it was asked not to" in str(refused(hub))


@pytest.mark.parametrize("where", [API, "/resolve/"])
@pytest.mark.parametrize("body", [DEEP, b"[]", b'{"errors": 7}'])
def test_a_refusal_is_known_by_its_status_whatever_its_body(
    hub: Hub, server: Loopback, where: str, body: bytes
) -> None:
    server.trouble(where, status=404, body=body, times=None)
    assert refused(hub).reason == "missing"


@pytest.mark.parametrize("part", ["head", "body"])
def test_an_answer_that_drips_is_given_up(hub: Hub, part: str) -> None:
    head = [b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"]
    with raw_server(lambda _: iter(dripped(b"X: y\r\n", 0.02) if part == "head" else _chained(head))) as slow:
        begun_s = time.monotonic()
        error = refused(dataclasses.replace(hub, endpoint=slow.endpoint, policy=HASTY))
    assert "did not answer within 0.2 s" in str(error)
    assert time.monotonic() - begun_s < 5


def _chained(head: list[bytes]) -> Iterator[bytes | float]:
    yield from head
    yield from dripped(b" ", 0.02)


@pytest.mark.slow_for("0.3")
@pytest.mark.parametrize("pause_s", [0.01, 0.3])
def test_a_file_that_drips_is_given_up_though_each_byte_is_new(hub: Hub, server: Loopback, pause_s: float) -> None:
    """Within one answer, or a byte an answer and then silence until the timeout."""
    head = b"HTTP/1.1 206 Partial Content\r\nContent-Length: 99999\r\nContent-Range: bytes {}-99999/*\r\n\r\n"

    def script(path: str) -> Iterator[bytes | float]:
        if path.endswith(FIRST):
            have = int(slow.heads[-1].partition("bytes=")[2].partition("-")[0] or 0)
            yield head.replace(b"{}", str(have).encode())
            yield from dripped(b"x", pause_s)
        else:
            yield answer(status="307 Temporary Redirect", Location=f"{server.endpoint}{path}")

    with raw_server(script) as slow:
        policy = dataclasses.replace(HASTY, silence_s=0.1)
        error = refused(dataclasses.replace(hub, endpoint=slow.endpoint, policy=policy))
    assert error.reason == "network" and "does not answer" in str(error)


@pytest.mark.slow
def test_a_slow_file_is_waited_for_as_long_as_it_moves(hub: Hub, server: Loopback, repo: Repo) -> None:
    data = repo.files[FIRST]

    def script(path: str) -> Iterator[bytes | float]:
        if path.endswith(FIRST):
            yield b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(data)
            for start in range(0, len(data), 8192):
                yield data[start : start + 8192]
                yield 0.02
        else:
            yield answer(status="307 Temporary Redirect", Location=f"{server.endpoint}{path}")

    with raw_server(script) as slow:
        whole(dataclasses.replace(hub, endpoint=slow.endpoint, policy=HASTY), repo)


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


def test_the_reason_is_said(hub: Hub) -> None:
    request = httpx2.Request("GET", "https://hub.example/", extensions={})
    for hook in get_session().event_hooks["request"]:
        hook(request)
    request.url = httpx2.URL("http://hub.example/")
    with pytest.raises(RefusedAnswerError, match="redirects to an address that is not https") as caught:
        for hook in get_session().event_hooks["request"]:
            hook(request)
    said = str(hub.explain(caught.value, NAME, "main"))
    assert said.endswith("redirects to an address that is not https; check HF_ENDPOINT, the network and any proxy")


def test_no_cookie_is_kept(hub: Hub, server: Loopback, repo: Repo) -> None:
    with raw_server(lambda path: iter([answer(b'{"name": "me"}', Set_Cookie="id=1; Path=/")])) as jar:
        for _ in range(2):
            assert account_name(dataclasses.replace(hub, endpoint=jar.endpoint, token=TOKEN)) == "me"
    assert len(jar.heads) == 2 and "cookie" not in jar.heads[1].lower()


def test_ctrl_c_is_heard_while_an_answer_is_waited_for() -> None:
    threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    begun_s = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        within(60.0, lambda: time.sleep(1.0))
    assert time.monotonic() - begun_s < 0.9


def test_what_comes_too_late_is_closed() -> None:
    closed = threading.Event()
    with pytest.raises(RefusedAnswerError, match=r"did not answer within 0\.01 s"):
        within(0.01, lambda: time.sleep(0.05) or closed, threading.Event.set)
    assert closed.wait(5)
    with contextlib.suppress(RefusedAnswerError), pytest.raises(ValueError, match="x"):
        within(5.0, lambda: int("x"))


@pytest.mark.slow
def test_the_short_attack_finds_nothing() -> None:
    assert attack.attack(2, short=True) == []
