"""Programs and the window share one loaded model: the real API process, HTTP, and a fake host."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace as changed
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
from app.window.api.api_requests import GAVE_UP, SILENT, STUCK
from app.window.api.api_server import ApiServer
from app.window.chat.reply_controller import SERVED_FIRST
from tests.app.window.api.programs import CHAT, Program, served
from tests.app.window.chat.fake_host import text_of
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import QUICK, for_a_while, until

TEXT = text_of(60)  # of a reply of 20 rounds
STUCK_SOON = changed(QUICK, silent_s=1.0)


def running(server: ApiServer) -> bool:
    """Whether the host writes for a program, and has begun."""
    return bool(server.state().running_tokens)


def order(scene: Scene) -> list[bool]:
    """Whether each reply that the host was asked for was a program's."""
    return [isinstance(one, PassedReply) for one in scene.requests if isinstance(one, Reply | PassedReply)]


def test_a_program_gets_what_the_window_gets_and_needs_the_key(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server:
        assert Program(server).wait().text == scene.ask().text == TEXT
        refused = Program(server, key="not the key of this server").wait()
        assert (refused.status, refused.error["code"]) == (401, "invalid_api_key")
        assert (tmp_path / "api-key").stat().st_mode & 0o777 == 0o600
        assert server.state().key == (tmp_path / "api-key").read_text().strip()
        models = json.loads(Program(server, "/models", {}).wait().body)
        assert [one["id"] for one in models["data"]] == ["Fake"] == [server.state().model]


def test_the_window_goes_before_programs_that_wait_and_cuts_none(tmp_path: Path) -> None:
    with Scene(tmp_path, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        programs = [Program(server) for _ in range(3)]
        until(lambda: running(server) and server.state().waiting == 2)
        assert scene.controller.send("Hello?")
        assert scene.controller.status.detail == SERVED_FIRST
        scene.streaming()
        assert scene.controller.status.state == "on"
        assert server.state().running_tokens is None and server.state().waiting == 2
        until(lambda: scene.ended)
        assert [program.wait().text for program in programs] == [TEXT] * 3
        assert scene.ended[0].text == TEXT and scene.ended[0].state == "complete"
        assert order(scene) == [True, False, True, True]
        assert scene.notices == []


@pytest.mark.slow
def test_stop_in_the_window_leaves_programs_alone(tmp_path: Path) -> None:
    with Scene(tmp_path, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        program = Program(server)
        until(lambda: running(server))
        assert scene.controller.send("Hello?")
        scene.controller.stop()
        until(lambda: scene.ended)
        assert (scene.ended[0].state, scene.ended[0].text) == ("stopped", "")
        assert program.wait().text == TEXT


@contextmanager
def streaming(server: ApiServer) -> Iterator[None]:
    """A program whose reply has begun, which leaves at the end."""
    port = server.process.port
    body = json.dumps({**CHAT, "stream": True}).encode()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        head = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {server.state().key}\r\nContent-Length: {len(body)}"
        connection.sendall(f"POST /v1/chat/completions HTTP/1.1\r\n{head}\r\n".encode())
        connection.sendall(b"Content-Type: application/json\r\n\r\n" + body)
        until(lambda: running(server))
        yield


def test_a_program_that_leaves_frees_the_host(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=100_000, pause_s=0.005) as scene, served(scene, tmp_path) as server:
        with streaming(server):
            pass
        until(lambda: server.state().running_tokens is None)
        assert len(scene.requested(Stop)) == 1


@pytest.mark.slow
def test_one_that_waits_and_leaves_is_never_asked(tmp_path: Path) -> None:
    with Scene(tmp_path, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        first = Program(server)
        until(lambda: running(server))
        server.requests.put(replace(scene.requested(PassedReply)[0], id=999), 100)
        assert server.state().waiting == 1
        server.requests.stop(999)
        assert first.wait().text == TEXT
        for_a_while(0.2)
        assert len(order(scene)) == 1


@pytest.mark.slow
def test_a_host_that_is_killed_fails_one_request_and_answers_the_next(tmp_path: Path) -> None:
    with Scene(tmp_path, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        cut, waits = Program(server), Program(server)
        until(lambda: running(server) and server.state().waiting == 1)
        os.kill(scene.process.pid, signal.SIGKILL)
        ended = [cut.wait(), waits.wait()]
        (failed,) = [program for program in ended if program.status != 200]
        (answered,) = [program for program in ended if program.status == 200]
        assert (failed.status, failed.error["code"]) == (503, "engine_unavailable")
        assert "SIGKILL" in failed.error["message"]
        assert answered.text == TEXT
        assert server.state().phase == "on"


@pytest.mark.slow
def test_a_host_that_hangs_fails_all_requests_until_it_is_restarted(tmp_path: Path) -> None:
    with Scene(tmp_path, STUCK_SOON, rounds=4, hang_after=6) as scene, served(scene, tmp_path) as server:
        assert Program(server).wait().text == text_of(12)
        cut, waits = Program(server), Program(server)
        until(lambda: running(server) and server.state().waiting == 1)
        assert scene.notices == []
        later = [cut.wait(), waits.wait()]
        later.append(Program(server).wait())  # it would wait for ever in the queue
        for failed in later:
            assert (failed.status, failed.error["code"], failed.error["message"]) == (503, "engine_unavailable", STUCK)
        assert [notice.text for notice in scene.notices] == [SILENT]
        scene.press(SILENT, "Restart Engine")
        until(lambda: server.state().running_tokens is None)
        assert Program(server).wait().text == text_of(12)


@pytest.mark.slow
def test_a_stream_that_has_begun_ends_with_the_error_when_the_host_hangs(tmp_path: Path) -> None:
    with Scene(tmp_path, STUCK_SOON, hang_after=5) as scene, served(scene, tmp_path) as server:
        openai = Program(server, body={**CHAT, "stream": True})
        until(lambda: running(server))
        anthropic = Program(server, "/messages", {**CHAT, "model": "Fake", "stream": True})
        openai.wait(), anthropic.wait()
        events = [line for line in openai.body.decode().splitlines() if line]
        assert openai.status == 200 and text_of(15).split()[-1] in events[-2]
        assert json.loads(events[-1].removeprefix("data: "))["error"]["message"] == STUCK
        assert (anthropic.status, anthropic.error["type"]) == (503, "overloaded_error")  # it had not begun


@pytest.mark.slow
def test_a_host_that_answers_again_after_it_hung_serves_the_next_request(tmp_path: Path) -> None:
    with Scene(tmp_path, STUCK_SOON, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        cut = Program(server)
        until(lambda: running(server))
        os.kill(scene.process.pid, signal.SIGSTOP)
        assert cut.wait().error["message"] == STUCK
        for_a_while(2 * STUCK_SOON.stop_s)
        assert [notice.text for notice in scene.notices] == [SILENT]
        os.kill(scene.process.pid, signal.SIGCONT)
        until(lambda: server.state().running_tokens is None)
        assert Program(server).wait().text == TEXT
        assert len(scene.requested(Stop)) == 1


@pytest.mark.slow
def test_programs_wait_for_a_host_that_stops_late(tmp_path: Path) -> None:
    """One program leaves, and the host does not stop in time, as in a long pass; but it does stop."""
    with Scene(tmp_path, STUCK_SOON, rounds=40, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        with streaming(server):
            waits = Program(server)
            until(lambda: server.state().waiting == 1)
            os.kill(scene.process.pid, signal.SIGSTOP)
        until(lambda: [notice.text for notice in scene.notices] == [SILENT])
        assert server.state().waiting == 1
        os.kill(scene.process.pid, signal.SIGCONT)
        assert waits.wait().text == text_of(120)


@pytest.mark.slow
@pytest.mark.parametrize("stream", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_programs_behind_a_reply_of_the_window_that_hangs_are_refused(tmp_path: Path, stream: bool) -> None:
    body = {**CHAT, "stream": stream}
    with Scene(tmp_path, STUCK_SOON, rounds=4, hang_after=6) as scene, served(scene, tmp_path) as server:
        assert scene.ask().text == text_of(12)
        assert scene.controller.send("Hello?")
        scene.streaming()
        waiting = [Program(server, body=body), Program(server, body=body)]
        until(lambda: server.state().waiting == 2)
        for failed in (*(one.wait() for one in waiting), Program(server, body=body).wait()):
            assert (failed.status, failed.error["code"], failed.error["message"]) == (503, "engine_unavailable", STUCK)
        assert order(scene) == [False, False]
        assert [notice.text for notice in scene.notices] == ["The engine has not responded for 1 seconds."]
        scene.press("has not responded", "Restart Engine")
        until(lambda: len(scene.ended) == 2)
        assert Program(server).wait().text == text_of(12)


@pytest.mark.slow
def test_programs_may_ask_again_once_the_windows_reply_goes_on(tmp_path: Path) -> None:
    with Scene(tmp_path, STUCK_SOON, rounds=40, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        assert scene.controller.send("Hello?")
        scene.streaming()
        os.kill(scene.process.pid, signal.SIGSTOP)
        assert Program(server).wait().error["message"] == STUCK
        os.kill(scene.process.pid, signal.SIGCONT)
        until(lambda: not scene.controller.host.stuck)
        assert Program(server).wait().text == text_of(120)
        assert scene.ended[0].state == "complete" and scene.ended[0].text == text_of(120)


@pytest.mark.slow
def test_programs_behind_a_reply_that_the_window_stopped_in_vain_are_refused(tmp_path: Path) -> None:
    with Scene(tmp_path, STUCK_SOON, rounds=40, hang_after=5) as scene, served(scene, tmp_path) as server:
        assert scene.controller.send("Hello?")
        scene.streaming(15)
        for_a_while(0.2)  # or it could still hear the stop
        scene.controller.stop()
        assert Program(server).wait().error["message"] == STUCK
        assert not scene.ended


@pytest.mark.slow
def test_programs_behind_a_check_that_hangs_are_refused(tmp_path: Path) -> None:
    with Scene(tmp_path, STUCK_SOON, rounds=4, verify_s=60.0) as scene, served(scene, tmp_path) as server:
        record = scene.ask()
        assert scene.controller.verify(record.id)
        until(lambda: scene.verifying)
        assert Program(server).wait().error["message"] == STUCK
        scene.controller.host.restart()
        assert Program(server).wait().text == text_of(12)


@pytest.mark.slow
@pytest.mark.parametrize("behaviour", [{"measure_s": 2 * STUCK_SOON.silent_s}, {"load_s": 2 * STUCK_SOON.silent_s}])
def test_programs_wait_for_a_window_that_measures_or_loads(tmp_path: Path, behaviour: dict[str, float]) -> None:
    with Scene(tmp_path, STUCK_SOON, **behaviour) as scene, served(scene, tmp_path) as server:
        assert scene.controller.send("Hello?")
        assert Program(server).wait().text == TEXT
        assert scene.ended[0].text == TEXT and scene.notices == []


@pytest.mark.slow
def test_programs_behind_a_load_that_makes_no_progress_are_refused(tmp_path: Path) -> None:
    slow = changed(STUCK_SOON, load_s=0.5)
    with Scene(tmp_path, slow, load_s=2.0) as scene, served(scene, tmp_path) as server:
        scene.controller.pair.unload()
        assert Program(server).wait().error["message"] == STUCK
        assert Program(server).wait().error["message"] == STUCK
        until(lambda: not scene.controller.host.stuck)
        assert Program(server).wait().text == TEXT


@pytest.mark.slow
def test_a_host_that_says_that_it_works_is_not_stuck(tmp_path: Path) -> None:
    long = 2 * STUCK_SOON.silent_s
    with Scene(tmp_path, STUCK_SOON, measure_s=long) as scene, served(scene, tmp_path) as server:
        assert Program(server).wait().text == TEXT
        assert scene.notices == []


@pytest.mark.slow
def test_a_host_that_is_given_up_fails_all_requests(tmp_path: Path) -> None:
    with Scene(tmp_path, kill_after=3) as scene, served(scene, tmp_path) as server:
        scene.process.timeouts = changed(scene.process.timeouts, quick_s=60.0, restart_s=())
        first = Program(server).wait()
        assert first.status == 503
        until(lambda: scene.controller.host.gave_up)
        again = Program(server).wait()
        assert (again.status, again.error["code"]) == (503, "model_not_loaded")
        assert again.error["message"] == GAVE_UP


def test_another_model_of_the_window_is_never_answered_with_silently(tmp_path: Path) -> None:
    with Scene(tmp_path, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        first, waits = Program(server), Program(server)
        until(lambda: running(server) and server.state().waiting == 1)
        settings = scene.controller.conversation.settings
        scene.controller.change_settings(replace(settings, pair=Pair(target="another")))
        ended = [first.wait(), waits.wait()]
        assert sorted(program.status for program in ended) == [200, 503]
        (failed,) = [program for program in ended if program.status == 503]
        assert failed.error["code"] == "model_changed"
        assert Program(server).wait().text == TEXT
        assert scene.requested(PassedReply)[-1].target == "another"


@pytest.mark.slow
def test_a_request_loads_models_that_were_unloaded(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server:
        scene.controller.pair.unload()
        assert server.state().model == ""
        assert Program(server).wait().text == TEXT
        assert len(scene.requested(Load)) == 2


@pytest.mark.slow
def test_models_that_do_not_load_are_an_error_for_programs(tmp_path: Path) -> None:
    with Scene(tmp_path, fail_load="broken") as scene, served(scene, tmp_path) as server:
        settings = scene.controller.conversation.settings
        scene.controller.change_settings(replace(settings, pair=Pair(drafter="broken")))
        until(lambda: scene.controller.host.failure)
        failed = Program(server).wait()
        assert (failed.status, failed.error["code"]) == (503, "model_not_loaded")
        assert "broken does not fit" in failed.error["message"]


@pytest.mark.slow
def test_a_race_waits_for_a_running_request_and_programs_wait_for_it(tmp_path: Path) -> None:
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server:
        scene.controller.host.racing = True
        program = Program(server)
        until(lambda: server.state().waiting == 1)
        for_a_while(0.3)
        assert server.state().running_tokens is None and order(scene) == []
        scene.controller.host.racing = False
        assert program.wait().text == TEXT


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
def test_the_window_is_kept_awake_while_programs_wait(tmp_path: Path, activities: list[str]) -> None:
    with Scene(tmp_path) as scene, served(scene, tmp_path) as server:
        until(lambda: activities and activities[-1] == "ends")
        programs = [Program(server), Program(server)]
        until(lambda: running(server))
        assert activities[-1] == "begins"
        assert {program.wait().status for program in programs} == {200}
        until(lambda: activities == ["begins", "ends"] * (len(activities) // 2))


@pytest.mark.slow
def test_no_more_waits_than_memory_should_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.window.api.api_requests.MAX_WAITING_BYTES", 3000)
    with Scene(tmp_path, pause_s=0.01) as scene, served(scene, tmp_path) as server:
        programs = [Program(server) for _ in range(6)]
        assert {program.wait().status for program in programs} == {200, 429}


@pytest.mark.slow
def test_an_api_that_is_killed_is_reported_and_can_be_switched_on_again(tmp_path: Path) -> None:
    with Scene(tmp_path, rounds=100_000) as scene, served(scene, tmp_path) as server:
        Program(server)
        until(lambda: running(server))
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
    with Scene(tmp_path, rounds=100_000, pause_s=0.005) as scene, served(scene, tmp_path) as server:
        program = Program(server)
        until(lambda: running(server))
        server.serve(None)
        assert program.wait().status == 503
        until(lambda: server.process.pid == 0)
        assert server.state().phase == "off" and server.state().key == ""
        until(lambda: server.state().running_tokens is None)
