"""`redline serve` as a process, with the built-in model."""

import json
import urllib.error
import urllib.request

import psutil
import pytest

from tests.app.api.serve_process import served
from tests.waiting import HANG_S


@pytest.mark.slow
def test_the_command_replies_and_leaves_no_host_behind():
    with served("--drafter", "lookup") as server:
        (host,) = server.process.children()
        body = {"messages": [{"role": "user", "content": "Say hi."}], "max_tokens": 3, "temperature": 0}
        headers = {"authorization": f"Bearer {server.key}", "content-type": "application/json"}
        asked = urllib.request.Request(f"{server.url}/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(asked, timeout=HANG_S) as answer:
            reply = json.load(answer)
        assert reply["usage"]["completion_tokens"] == 3
        assert len(reply["choices"][0]["redline"]["origins"]) == 3
        plain = urllib.request.Request(f"{server.url}/models", headers={"host": "attacker.example"})
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(plain, timeout=HANG_S)
    assert psutil.wait_procs([host], timeout=HANG_S)[1] == []
