"""A program and the window share the built-in model: both get the text that a lone run gets, side by side."""

import sys
from pathlib import Path

import pytest

from app.protocol import SamplingSettings
from app.store.records import ChatSettings
from tests.app.window.api.programs import CHAT, Program, served
from tests.app.window.chat.scene import Scene
from tests.app.window.waiting import until

TOKENS = 24
PROGRAM = {**CHAT, "max_tokens": TOKENS, "messages": [{"role": "user", "content": "Name three colours."}]}
OTHER = {**PROGRAM, "messages": [{"role": "user", "content": "Count to twelve in words."}]}


@pytest.mark.real_model
@pytest.mark.slow
def test_a_program_and_the_window_write_what_each_writes_alone(tmp_path: Path) -> None:
    host = [sys.executable, "-m", "app.host"]
    with Scene(tmp_path, words=host) as scene:
        sampling = SamplingSettings(max_tokens=TOKENS)
        scene.controller.change_settings(ChatSettings(sampling=sampling))
        until(lambda: scene.controller.host.loaded is not None)
        with served(scene, tmp_path) as server:
            alone = [Program(server, body=body).wait().text for body in (PROGRAM, OTHER)]
            window_alone = ask(scene)
            scene.controller.new()
            before = len(scene.ended)
            programs = [Program(server, body=body) for body in (PROGRAM, OTHER)]
            until(lambda: server.state().serving.tokens)
            assert scene.controller.send("Why is the sky blue?")
            until(lambda: len(scene.ended) > before)
            assert scene.ended[-1].text == window_alone
            assert sorted(program.wait().text for program in programs) == sorted(alone)


def ask(scene: Scene) -> str:
    """Returns what the window gets alone."""
    before = len(scene.ended)
    assert scene.controller.send("Why is the sky blue?")
    until(lambda: len(scene.ended) > before)
    assert scene.ended[-1].state == "complete"
    return scene.ended[-1].text
