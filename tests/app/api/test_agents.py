"""Requests of Claude Code, Codex and opencode, replayed; `tests.programs.agents` runs the agents themselves."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from app import protocol
from app.api.agents import AGENTS, agent_lines, agent_warning
from tests.app.api.api_calls import MODEL
from tests.app.api.test_tools import answer_and_request

REQUESTS = [json.loads(line) for line in Path(__file__).with_name("agent_requests.jsonl").read_text().splitlines()]
LOADED = protocol.Loaded(
    id=0, pair=protocol.Pair(), target=MODEL, drafter="none", speculation="off", note="", drafts_trees=False,
    context=100_000, tools=True,
)  # fmt: skip


@pytest.mark.parametrize("request_", REQUESTS, ids=[one["agent"] for one in REQUESTS])
def test_each_request_of_an_agent_is_answered(request_: dict[str, Any]):
    answer, reply = answer_and_request(request_["path"], request_["body"] | {"model": MODEL})
    assert answer.status == 200 and answer.events[-1] != "" and "error" not in answer.events[-1]
    texts = [turn.content for turn in reply.messages]
    assert any("note" in text or "Wait" in text for text in texts)
    assert [turn.name for turn in reply.messages if turn.role == "tool"] == [
        call.name for turn in reply.messages for call in turn.calls
    ]
    foreign = [tool["type"] for tool in request_["body"].get("tools", ()) if tool.get("type", "function") != "function"]
    assert all(name in answer.headers["x-redline-warning"] for name in foreign)
    assert bool(reply.tools) == bool(request_["body"].get("tools"))


@pytest.mark.parametrize("agent", AGENTS)
def test_an_agent_is_started_with_the_model_that_is_served(agent: str):
    lines = agent_lines(agent, LOADED, "http://127.0.0.1:8080", "a key")
    assert MODEL in lines and "http://127.0.0.1:8080" in lines and "a key" in lines
    assert agent_warning(agent, LOADED) == ""
    assert "context" in agent_warning(agent, structs.replace(LOADED, context=4096))
    assert "tools" in agent_warning(agent, structs.replace(LOADED, tools=False))
