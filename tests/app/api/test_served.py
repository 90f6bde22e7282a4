"""`redline serve` as a process: with the built-in model, and with an engine that hangs."""

import json
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from app.cli.serve import RESTARTING
from tests.app.api.gated_engine import TEXT
from tests.app.api.serve_process import ROOT, Served, served
from tests.waiting import HANG_S, until


def ask(server: Served, **more: Any) -> Any:
    """Returns the reply to a short question, as JSON."""
    body = {"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 3, "temperature": 0, **more}
    headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
    asked = urllib.request.Request(f"{server.url}/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=HANG_S) as answer:
        return json.load(answer)


@pytest.mark.slow
def test_the_command_replies_and_leaves_no_process_behind():
    with served("--drafter", "lookup") as server:
        children = server.process.children(recursive=True)
        reply = ask(server)
        assert reply["usage"]["completion_tokens"] == 3
        assert len(reply["choices"][0]["redline"]["origins"]) == 3
        plain = urllib.request.Request(f"{server.url}/models", headers={"host": "attacker.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(plain, timeout=HANG_S)
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(HANG_S) == 130
    assert psutil.wait_procs(children, timeout=HANG_S)[1] == []


@pytest.mark.slow
def test_an_engine_that_hangs_is_replaced_at_the_same_address():
    with served(program=("-m", "tests.app.api.stuck_serve")) as server:
        with pytest.raises(urllib.error.HTTPError) as refused:
            ask(server)
        assert refused.value.code == 503 and json.load(refused.value)["error"]["message"] == RESTARTING
        replies: list[Any] = []

        def ask_again() -> list[Any]:
            with suppress(OSError):  # until the command has begun anew
                replies.append(ask(server))
            return replies

        until(ask_again)
        assert replies[0]["choices"][0]["message"]["content"] == TEXT


@pytest.mark.slow
def test_a_model_that_cannot_be_loaded_ends_the_command(tmp_path: Path):
    words = ["serve", str(tmp_path), "--port", "0", "--key-file", str(tmp_path / "key")]
    source = "from app.cli.main import main; raise SystemExit(main())"
    done = subprocess.run([sys.executable, "-c", source, *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "config.json" in done.stderr and "Serving" not in done.stdout
