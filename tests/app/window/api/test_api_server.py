"""The API of the window: its process, HTTP, and what passes through it; the host is a fake."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.protocol import (
    Count,
    Load,
    MalformedError,
    Message,
    Pair,
    Quit,
    Reply,
    SamplingSettings,
    Stop,
    Unload,
    decode_line,
    decode_request,
    encode_line,
)
from app.protocol.api_messages import PassedCount, PassedReply, api_lines
from app.window.api.api_server import ApiServer
from tests.app.window.api.programs import CHAT, Program, served
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import until

TEXT = text_of(60)  # of a reply of 20 rounds


def has_begun(server: ApiServer) -> bool:
    """Whether the host writes for a program, and has begun."""
    return bool(server.state().running_tokens)


def test_a_program_gets_what_the_window_gets_and_needs_the_key(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server:
        assert Program(server).wait().text == scene.ask().text == TEXT
        refused = Program(server, key="not the key of this server").wait()
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
        assert (tmp_path / "api-key").stat().st_mode & 0o777 == 0o600
        assert server.state().key == (tmp_path / "api-key").read_text().strip()
        models = json.loads(Program(server, "/models", {}).wait().body)
        assert [one["id"] for one in models["data"]] == ["Fake"] == [server.state().model]


@contextmanager
def open_stream(server: ApiServer) -> Iterator[None]:
    """A program whose reply has begun, which leaves at the end."""
    port = server.process.port
    body = json.dumps({**CHAT, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {server.state().key}\r\nContent-Length: {len(body)}"
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode())
        connection.sendall(b"Content-Type: application/json\r\n\r\n" + body)
        until(lambda: has_begun(server))
        yield


def test_a_program_that_leaves_frees_the_host(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1000, hold_after=2) as scene, served(scene, tmp_path) as server:
        with open_stream(server):
            pass
        until(lambda: server.state().running_tokens is None)
        assert len(scene.requested(Stop)) == 1


def test_a_request_is_passed_on_whole_but_for_the_files_of_the_window() -> None:
    asked = Reply(
        id=3, messages=(Message(role="user", content="é\n\0"),), sampling=SamplingSettings(seed=4, stop=("a",)),
        prompt="p", prediction="q", target="builtin",
    )  # fmt: skip
    sent = encode_line(replace(asked, history="a file", cache="another", timed=True, continuation_ids=(1,)))
    assert decode_request(encode_line(decode_line(sent, api_lines))) == asked
    count = Count(id=4, messages=asked.messages, target="builtin")
    assert decode_request(encode_line(decode_line(encode_line(count), api_lines))) == count
    for refused in (Load(id=1, pair=Pair()), Unload(id=1), Quit(id=1)):
        with pytest.raises(MalformedError):
            decode_line(encode_line(refused), api_lines)


def test_every_field_of_a_reply_is_passed_on_or_left_out_on_purpose() -> None:
    left_out = {"continuation_ids", "timed", "history", "cache"}
    assert set(Reply.__struct_fields__) - set(PassedReply.__struct_fields__) == left_out
    assert set(Count.__struct_fields__) - set(PassedCount.__struct_fields__) == {"cache"}


@pytest.mark.slow
def test_an_api_that_is_killed_is_reported_and_can_be_switched_on_again(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1000, hold_after=2) as scene, served(scene, tmp_path) as server:
        Program(server)
        until(lambda: has_begun(server))
        os.kill(server.process.pid, signal.SIGKILL)
        until(lambda: server.state().phase == "failed")
        assert "ended unexpectedly" in server.state().error
        until(lambda: server.state().running_tokens is None)
        server.serve(None)
        assert server.state().phase == "off"
        server.serve(0)
        until(lambda: server.state().phase == "on")


@pytest.mark.slow
def test_an_api_that_lived_for_a_while_is_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.window.api.api_process.QUICK_S", 0.0)
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server:
        os.kill(server.process.pid, signal.SIGKILL)
        until(lambda: server.state().phase == "starting")
        until(lambda: server.state().phase == "on")
        assert Program(server).wait().text == TEXT


@pytest.mark.slow
def test_a_port_in_use_is_reported_and_another_can_be_chosen(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server.serve(port)
        until(lambda: server.state().phase == "failed")
        assert f"Port {port} cannot be used" in server.state().error
        server.serve(0)
        until(lambda: server.state().phase == "on")
        assert Program(server).wait().text == TEXT


def test_switching_off_ends_streams_and_frees_the_port(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=1000, hold_after=2) as scene, served(scene, tmp_path) as server:
        program = Program(server)
        until(lambda: has_begun(server))
        server.serve(None)
        assert program.wait().status == 503
        until(lambda: server.process.pid == 0)
        assert server.state().phase == "off" and server.state().key == ""
        until(lambda: server.state().running_tokens is None)
