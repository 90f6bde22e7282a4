"""The window serves its models to other programs: through the engine's process, on and off, and when that dies."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
from pathlib import Path

import pytest
from msgspec.structs import replace

from app.protocol import Load, Pair, Serve, Unloaded, Working
from app.window.api.api_server import GAVE_UP, SILENT, ApiServer
from tests.app.window.api.programs import CHAT, Program, hosted, hosted_forever, served
from tests.app.window.chat.scene import Scene
from tests.app.window.stepped_clock import LongWaitsClock
from tests.app.window.waiting import HANG_S, QUICK, until


def has_begun(server: ApiServer) -> bool:
    """Whether the engine writes for a program, and has begun."""
    return server.state().serving.tokens is not None


def models(server: ApiServer) -> list[str]:
    """Returns what a program is told of the models."""
    answer = Program(server, "/models", {}).wait()
    assert answer.status == 200
    return [one["id"] for one in json.loads(answer.body)["data"]]


def test_a_program_is_answered_by_the_windows_model_and_needs_the_key(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted()) as scene, served(scene, tmp_path) as server:
        assert len(Program(server).wait().text) > 100
        refused = Program(server, key="not the key of this server").wait()
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
        assert (tmp_path / "api-key").stat().st_mode & 0o777 == 0o600
        assert server.state().key == (tmp_path / "api-key").read_text().strip()
        until(lambda: server.state().loaded)
        assert models(server) == [server.state().loaded.target]


@contextmanager
def open_stream(server: ApiServer) -> Iterator[None]:
    """A program whose reply has begun, which leaves at the end."""
    state, body = server.state(), json.dumps({**CHAT, "stream": True}).encode()
    port = int(state.address.split(":")[2].split("/")[0])
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {state.key}\r\nContent-Length: {len(body)}"
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode())
        connection.sendall(b"Content-Type: application/json\r\n\r\n" + body)
        until(lambda: has_begun(server))
        yield


def test_the_window_shows_what_runs_and_its_reply_does_not_wait_for_those_of_programs(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted_forever(tmp_path)) as scene, served(scene, tmp_path) as server:
        begun = list[int]()
        scene.controller.replies.progress.connect(lambda message, _: begun.append(message))
        scene.controller.host.set_parallel(1)
        with open_stream(server):
            waits = Program(server)
            until(lambda: server.state().serving.waiting == 1)
            assert server.state().serving.replies == 1
            assert scene.controller.send("Hello?")
            until(lambda: begun)
            assert has_begun(server) and scene.controller.pair.status.state == "on"
        until(lambda: not has_begun(server))
        assert server.state().serving.waiting == 1 and not waits.ended
        scene.controller.stop()
        until(lambda: has_begun(server) and scene.ended)
        assert server.state().serving.waiting == 0


def test_programs_wait_while_the_window_needs_the_engine_alone(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=4, hold_at=("verify",)) as scene:
        server = ApiServer(scene.controller, tmp_path / "api-key")
        server.serve(0)
        scene.ready()
        reply = scene.ask()
        assert [one.paused for one in scene.requested(Serve)] == [False]
        assert scene.controller.verify(reply.id)
        scene.go_on()
        until(lambda: scene.verified)
        assert [one.paused for one in scene.requested(Serve)] == [False, True, False]


def test_switching_off_ends_requests_and_frees_the_port(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted_forever(tmp_path)) as scene, served(scene, tmp_path) as server:
        program = Program(server)
        until(lambda: has_begun(server))
        port = int(server.state().address.split(":")[2].split("/")[0])
        server.serve(None)
        assert (server.state().phase, server.state().key) == ("off", "")
        assert program.wait().status == 503 and program.error["code"] == "engine_unavailable"
        server.serve(port)
        until(lambda: server.state().phase == "on")
        assert str(port) in server.state().address and len(models(server)) == 1


@pytest.mark.slow
def test_a_host_that_is_killed_ends_the_request_and_the_next_one_serves_again(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted_forever(tmp_path)) as scene, served(scene, tmp_path) as server:
        cut = Program(server)
        until(lambda: has_begun(server))
        scene.kill_host()
        assert cut.wait().status == -1 and cut.body
        until(lambda: server.state().phase == "starting")
        assert not has_begun(server)
        until(lambda: server.state().phase == "on")
        assert len(models(server)) == 1


@pytest.mark.slow
def test_a_host_that_is_given_up_is_reported(tmp_path: Path) -> None:
    with (
        Scene(tmp_path, changed(QUICK, quick_s=HANG_S, restart_s=()), words=hosted()) as scene,
        served(scene, tmp_path) as server,
    ):
        scene.kill_host()
        until(lambda: server.state().phase == "failed")
        assert server.state().error == GAVE_UP and server.state().address == ""


@pytest.mark.slow
def test_a_port_in_use_is_reported_and_another_can_be_chosen(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted()) as scene, served(scene, tmp_path) as server, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server.serve(port)
        until(lambda: server.state().phase == "failed")
        assert f"Port {port} cannot be used" in server.state().error
        server.serve(0)
        until(lambda: server.state().phase == "on")
        assert len(models(server)) == 1


@pytest.mark.slow
def test_a_request_loads_models_that_were_unloaded(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted()) as scene, served(scene, tmp_path) as server:
        scene.ready()
        scene.controller.pair.unload()
        until(lambda: any(isinstance(answer, Unloaded) for answer in scene.answers))
        assert Program(server).wait().text
        assert len(scene.requested(Load)) == 2


@pytest.mark.slow
def test_a_request_loads_the_models_of_a_conversation_that_was_opened_meanwhile(tmp_path: Path) -> None:
    with Scene(tmp_path, words=hosted_forever(tmp_path)) as scene, served(scene, tmp_path) as server:
        scene.ready()
        scene.controller.host.set_parallel(1)  # so that the request waits however soon it comes
        settings = scene.controller.conversation.settings
        with open_stream(server):
            scene.controller.change_settings(replace(settings, pair=Pair(target="another")))
            scene.controller.pair.unload()
            Program(server)
            until(lambda: server.state().serving.waiting == 1)
        until(lambda: scene.loaded_pair() == Pair(target="another") and has_begun(server))


@pytest.mark.slow
def test_models_that_do_not_load_are_an_error_for_programs(tmp_path: Path) -> None:
    with Scene(tmp_path, fail_load="broken") as scene:
        server = ApiServer(scene.controller, tmp_path / "api-key")
        server.serve(0)
        settings = scene.controller.conversation.settings
        scene.controller.change_settings(replace(settings, pair=Pair(drafter="broken")))
        until(lambda: scene.controller.host.failure)
        assert "broken does not fit" in scene.requested(Serve)[-1].refusal
        scene.controller.change_settings(settings)
        assert scene.requested(Serve)[-1].refusal == ""


@pytest.mark.slow
def test_a_host_that_hangs_with_a_programs_request_is_reported_and_can_be_restarted(
    tmp_path: Path, long_waits: LongWaitsClock, activities: list[str]
) -> None:
    with Scene(tmp_path, words=hosted_forever(tmp_path)) as scene, served(scene, tmp_path) as server:
        until(lambda: activities and activities[-1] == "ends")
        Program(server)
        until(lambda: has_begun(server))
        assert activities[-1] == "begins"  # the Mac stays awake
        scene.controller.host._receive(Working(id=0))
        assert scene.notices == []
        long_waits.advance(HANG_S)
        assert [notice.text for notice in scene.notices] == [SILENT]
        scene.press(SILENT, "Restart Engine")
        until(lambda: server.state().phase == "starting")
        until(lambda: server.state().phase == "on")
        assert len(models(server)) == 1
