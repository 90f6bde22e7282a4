"""Tools over the API: in the forms of the three protocols, whole and streamed, and nothing that the client did not
offer."""

import json
from dataclasses import replace
from typing import Any

import pytest

from app import protocol
from app.task_queue import Work
from engine.events import Finished, Round
from tests.app.api.api_calls import MODEL, Api, FakeEngine, with_api

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
CALLS = (
    protocol.ToolCall(id="abcdefgh1", name="weather", arguments='{"city": "K\u00f6ln"}'),
    protocol.ToolCall(id="abcdefgh2", name="weather", arguments='{"city": "Rome"}'),
)
ASK = [{"role": "user", "content": "the weather?"}]
CHAT_TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}]
FLAT_TOOLS = [{"type": "function", "name": "weather", "parameters": SCHEMA}]
CLAUDE_TOOLS = [{"name": "weather", "input_schema": SCHEMA}]
CLAUDE = {"model": MODEL, "max_tokens": 9}
PATHS = ("/v1/chat/completions", "/v1/responses", "/v1/messages")


class CallingEngine(FakeEngine):
    """Thinks, says "I look." and asks for two calls. text: what it says."""

    text = "I look."

    def carry_out(self, request: Work) -> None:
        if not isinstance(request, protocol.Reply):
            return
        number = request.id
        said = Round(0, (1, 2, 3), (), 0, (1.0,) * 3, (), 1, 0.1, texts=("hm", self.text, ""),
                     channels=("thought", "answer", "call"))  # fmt: skip
        self.answer(
            protocol.RoundDone(id=number, round=said),
            protocol.Called(id=number, calls=CALLS[:1]),
            protocol.RoundDone(id=number, round=replace(said, index=1, texts=("",) * 3, channels=("call",) * 3)),
            protocol.Called(id=number, calls=CALLS[1:]),
            protocol.ReplyDone(id=number, finished=Finished("eos", 6, 0.2), seed=1),
        )


def answer_and_request(path: str, value: dict[str, Any], text: str = "I look.") -> tuple[Any, Any]:
    """Returns the answer, and the request that the engine got, if it got one."""

    async def scenario(api: Api) -> tuple[Any, Any]:
        assert isinstance(api.engine, CallingEngine)
        api.engine.text = text
        answer = await api.post(path, value)
        return answer, api.engine.requests[0] if api.engine.requests else None

    return with_api(scenario, engine=CallingEngine)


def test_chat_has_calls_whole_and_streamed():
    value = {"messages": ASK, "tools": CHAT_TOOLS}
    answer, request = answer_and_request("/v1/chat/completions", value)
    (choice,) = answer.json["choices"]
    assert choice["finish_reason"] == "tool_calls" and choice["message"]["content"] == "I look."
    assert choice["message"]["reasoning_content"] == "hm"
    functions = [{"name": one.name, "arguments": one.arguments} for one in CALLS]
    assert [one["function"] for one in choice["message"]["tool_calls"]] == functions
    assert answer.json["usage"]["completion_tokens_details"]["reasoning_tokens"] == 1
    assert request.tools.offered == (
        protocol.Tool(name="weather", parameters=json.dumps(SCHEMA, separators=(",", ":"))),
    )
    events = answer_and_request("/v1/chat/completions", {**value, "stream": True})[0].events[:-1]
    told = [one for event in events for one in event["choices"][0]["delta"].get("tool_calls", ())]
    assert [one["index"] for one in told] == [0, 1] and [one["function"] for one in told] == functions
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == "I look."
    assert events[-1]["choices"][0]["finish_reason"] == "tool_calls"
    assert answer_and_request("/v1/chat/completions", value, " \n")[0].json["choices"][0]["message"]["content"] is None


def test_messages_have_calls_whole_and_streamed():
    value = {**CLAUDE, "messages": ASK, "tools": CLAUDE_TOOLS}
    answer = answer_and_request("/v1/messages", value)[0].json
    assert [one["type"] for one in answer["content"]] == ["thinking", "text", "tool_use", "tool_use"]
    assert answer["content"][2]["input"] == {"city": "K\u00f6ln"} and answer["stop_reason"] == "tool_use"
    events = answer_and_request("/v1/messages", {**value, "stream": True})[0].events
    starts = [one["content_block"] for one in events if one["type"] == "content_block_start"]
    assert [one["type"] for one in starts] == ["thinking", "text", "tool_use", "tool_use"]
    parts = [one["delta"].get("partial_json", "") for one in events if one["type"] == "content_block_delta"]
    assert "".join(parts) == CALLS[0].arguments + CALLS[1].arguments
    stops = [one["index"] for one in events if one["type"] == "content_block_stop"]
    assert stops == [0, 1, 2, 3] and events[-2]["delta"]["stop_reason"] == "tool_use"
    assert "text" not in [one["type"] for one in answer_and_request("/v1/messages", value, "\n")[0].json["content"]]


def test_responses_have_calls_whole_and_streamed():
    value = {"input": "the weather?", "tools": FLAT_TOOLS}
    answer = answer_and_request("/v1/responses", value)[0].json
    assert [one["type"] for one in answer["output"]] == ["reasoning", "message", "function_call", "function_call"]
    assert (answer["output"][2]["call_id"], answer["output"][2]["arguments"]) == ("abcdefgh1", CALLS[0].arguments)
    events = answer_and_request("/v1/responses", {**value, "stream": True})[0].events
    added = [one for one in events if one["type"] == "response.output_item.added"]
    assert [one["output_index"] for one in added] == [0, 1, 2, 3]
    done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"] and [one["type"] for one in done] == [
        one["type"] for one in answer["output"]
    ]
    assert [one["sequence_number"] for one in events] == list(range(len(events)))


@pytest.mark.parametrize(
    ("path", "choices"),
    [
        ("/v1/chat/completions", ["auto", "required", {"type": "function", "function": {"name": "weather"}}, "none"]),
        ("/v1/responses", ["auto", "required", {"type": "function", "name": "weather"}, "none"]),
        ("/v1/messages", [{"type": kind, "name": "weather"} for kind in ("auto", "any", "tool", "none")]),
    ],
)
def test_a_choice_of_tool_reaches_the_host(path: str, choices: list[Any]):
    body = {
        "/v1/chat/completions": {"messages": ASK, "tools": CHAT_TOOLS, "parallel_tool_calls": False},
        "/v1/responses": {"input": "x", "tools": FLAT_TOOLS, "parallel_tool_calls": False},
        "/v1/messages": {**CLAUDE, "messages": ASK, "tools": CLAUDE_TOOLS},
    }[path]
    found = []
    for choice in choices:
        if path == "/v1/messages":
            choice = {**choice, "disable_parallel_tool_use": True}
        tools = answer_and_request(path, {**body, "tool_choice": choice})[1].tools
        found.append(tools and (tools.required, tools.named, tools.several))
    assert found == [(False, "", False), (True, "", False), (True, "weather", False), None]


def test_calls_and_results_reach_the_host_in_one_form():
    call = {"id": "abcdefgh1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}}
    chat = [
        *ASK,
        {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "abcdefgh1", "content": [{"type": "text", "text": "rain"}]},
    ]
    claude = [
        *ASK,
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {"type": "tool_use", "id": "abcdefgh1", "name": "weather", "input": {"city": "Rome"}},
            ],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "abcdefgh1", "content": "rain"}]},
    ]
    responses = [
        *ASK,
        {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
        {"type": "function_call", "call_id": "abcdefgh1", "name": "weather", "arguments": '{"city":"Rome"}'},
        {"type": "function_call_output", "call_id": "abcdefgh1", "output": "rain"},
    ]
    told = [
        answer_and_request("/v1/chat/completions", {"messages": chat})[1].messages,
        answer_and_request("/v1/messages", {**CLAUDE, "messages": claude})[1].messages,
        answer_and_request("/v1/responses", {"input": responses})[1].messages,
    ]
    expected = protocol.ToolCall(id="abcdefgh1", name="weather", arguments='{"city":"Rome"}')
    assert told[0] == told[1] == told[2] and told[0][1].calls == (expected,) and told[0][1].thought == "hm"
    result = protocol.Message(role="tool", content="rain", call_id="abcdefgh1", name="weather")
    assert told[0][2] == result


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        (PATHS[0], {"messages": ASK, "tools": CHAT_TOOLS * 2}, "tools"),
        (PATHS[0], {"messages": ASK, "tools": [{"type": "custom"}], "tool_choice": {"type": "custom"}}, "tool_choice"),
        (PATHS[0], {"messages": ASK, "tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools"),
        (PATHS[0], {"messages": ASK, "tools": [{"type": "function", "function": {"name": "a\n"}}]}, "tools"),
        (PATHS[0], {"messages": ASK, "tools": [{"type": "function", "function": {}}]}, "tools"),
        (PATHS[0], {"messages": ASK, "tools": CHAT_TOOLS * 1025}, None),
        (PATHS[0], {"messages": ASK, "tools": CHAT_TOOLS, "tool_choice": "maybe"}, "tool_choice"),
        (PATHS[0], {"messages": ASK, "tool_choice": "required"}, "tool_choice"),
        (PATHS[0], {"messages": ASK, "tools": CHAT_TOOLS, "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
        (PATHS[0], {"messages": [*ASK, {"role": "tool", "tool_call_id": "x", "content": "y"}]}, "messages"),
        (PATHS[0], {"messages": [{"role": "function", "content": "y"}]}, "messages"),
        (PATHS[0], {"messages": ASK, "functions": [{"name": "f"}]}, "functions"),
        (
            PATHS[1],
            {"input": "x", "tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
            "tool_choice",
        ),
        (PATHS[1], {"input": "x", "tools": [{"type": "web_search"}], "tool_choice": "required"}, "tool_choice"),
        (PATHS[1], {"input": [{"type": "item_reference", "id": "a"}]}, "input"),
        (PATHS[1], {"input": "x", "previous_response_id": "a"}, "previous_response_id"),
    ],
)
def test_tools_that_cannot_be_are_refused_before_the_host(path: str, value: dict[str, Any], param: str | None):
    answer, request = answer_and_request(path, value)
    assert answer.status == 400 and request is None
    if path != PATHS[2]:
        assert answer.json["error"]["param"] == param
