"""What clients send as a matter of course is taken; what cannot be honored is left out, and told."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from msgspec import structs

from app import protocol
from app.api import http_replies
from app.api.api_errors import HEADER, ApiError
from app.api.http_replies import PING_S
from app.api.recent_responses import RecentResponses
from app.api.request_schema import ResponseItem, ResponsesRequest
from app.task_queue import Work
from engine.events import Finished, PromptProgress, Round
from tests.app.api import stepped_loop
from tests.app.api.api_calls import CHAT, KEY, MODEL, PORT, Answer, Api, FakeEngine, post, with_api
from tests.app.api.test_tools import CHAT_TOOLS, CLAUDE_TOOLS, FLAT_TOOLS

COMPLETE, TEXT, RESPONSES, CLAUDE = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
CLAUDE_CHAT = {"model": MODEL, "max_tokens": 9, **CHAT}
USER = {"role": "user", "content": "Hi"}


def asked(path: str, value: dict[str, Any], **loaded: Any) -> tuple[Answer, protocol.Reply]:
    """Returns the answer and the host's request. loaded: what else the model has."""

    async def scenario(api: Api) -> tuple[Answer, Any]:
        assert api.client.loaded is not None
        api.client.loaded = structs.replace(api.client.loaded, **loaded)
        answer = await api.post(path, value)
        assert answer.status == 200, answer.body
        return answer, api.engine.requests[0]

    return with_api(scenario)


# --- roles, parts and calls of earlier turns ------------------------------------------------------


def test_a_system_turn_may_stand_anywhere_in_a_conversation():
    system = {"role": "system", "content": "Be brief."}
    for turns, roles in (([USER, system], ["user", "system"]), ([system, USER], ["system", "user"])):
        reply = asked(CLAUDE, {**CLAUDE_CHAT, "messages": turns})[1]
        assert [turn.role for turn in reply.messages] == roles


@pytest.mark.parametrize(
    ("arguments", "right"),
    [
        ('{"city": ', '{"arguments":"{\\"city\\": "}'),
        ("[1]", '{"arguments":"[1]"}'),
        ('"x"', '{"arguments":"\\"x\\""}'),
        ('{"a": NaN}', '{"arguments":"{\\"a\\": NaN}"}'),
        ("null", "{}"),
        ("", "{}"),
        (None, "{}"),
        ({"city": "Rome"}, '{"city":"Rome"}'),
        ('{"city": "Rome"}', '{"city": "Rome"}'),
    ],
)
def test_a_call_that_was_written_wrongly_does_not_end_the_conversation(arguments: Any, right: str):
    call = {"id": "a" * 300, "type": "function", "function": {"name": "weather", "arguments": arguments}}
    turns = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    turns.append({"role": "tool", "tool_call_id": "a" * 300, "content": None})
    (made,) = asked(COMPLETE, {"messages": turns})[1].messages[1].calls
    assert (made.name, made.arguments) == ("weather", right)
    item = {"type": "function_call", "call_id": "b", "name": "weather", "arguments": arguments}
    result = {"type": "function_call_output", "call_id": "b", "output": "rain"}
    (made,) = asked(RESPONSES, {"input": [USER, item, result]})[1].messages[1].calls
    assert made.arguments == right
    nameless = [USER, {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "", "arguments": "{}"}}]}]
    assert asked(COMPLETE, {"messages": nameless})[1].messages[1].calls[0].name == "unknown"


def test_an_image_in_a_result_or_an_earlier_turn_is_noted_in_its_place_and_in_a_new_question_refused():
    image = {"type": "image", "source": {"type": "base64", "data": "x"}}
    call = {"type": "tool_use", "id": "a", "name": "look", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text", "text": "see"}, image]}
    turns = [USER, {"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    answer, reply = asked(CLAUDE, {**CLAUDE_CHAT, "messages": turns})
    assert reply.messages[2].content == "see[image]" and "image" in answer.headers[HEADER]
    assert answer.json["stats"]["left_out"] == ["messages: a part of type 'image', which is no text"]
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
    reply = asked(COMPLETE, {"messages": [picture, {"role": "assistant", "content": "A cat."}, USER]})[1]
    assert reply.messages[0].content == "[image_url]"
    assert post(COMPLETE, {"messages": [USER, picture]}).status == 400
    text = {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "A letter."}}
    reply = asked(CLAUDE, {**CLAUDE_CHAT, "messages": [{"role": "user", "content": [text]}]})[1]
    assert reply.messages[0].content == "A letter."


# --- tools and formats ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "foreign"),
    [
        (COMPLETE, {**CHAT, "tools": [*CHAT_TOOLS, {"type": "custom", "custom": {"name": "patch"}}]}, "custom"),
        (RESPONSES, {"input": "Hi", "tools": [*FLAT_TOOLS, {"type": "web_search"}]}, "web_search"),
        (RESPONSES, {"input": "Hi", "tools": [*FLAT_TOOLS, {"type": "namespace", "name": "x"}]}, "namespace"),
        (CLAUDE, {**CLAUDE_CHAT, "tools": [*CLAUDE_TOOLS, {"type": "bash_20250124", "name": "bash"}]}, "bash"),
    ],
)
def test_tools_that_only_another_server_has_are_left_out_of_the_offer(path: str, value: dict[str, Any], foreign: str):
    answer, reply = asked(path, value)
    assert reply.tools is not None and [tool.name for tool in reply.tools.offered] == ["weather"]
    assert foreign in answer.headers[HEADER]


def test_items_of_tools_that_only_another_server_has_are_left_out_of_the_conversation():
    items = [
        {"type": "web_search_call", "id": "w", "status": "completed"},
        {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "*** Begin"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "ok"},
        {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}},
        {"type": "local_shell_call_output", "call_id": "s", "output": "a"},
    ]
    answer, reply = asked(RESPONSES, {"input": [USER, *items, USER]})
    calls = [(call.name, call.arguments) for turn in reply.messages for call in turn.calls]
    assert calls == [("patch", '{"input":"*** Begin"}'), ("local_shell_call", '{"command":["ls"]}')]
    assert "web_search_call" in answer.headers[HEADER]
    assert [turn.role for turn in asked(RESPONSES, {"input": []})[1].messages] == ["user"]


def test_a_choice_of_allowed_tools_narrows_the_offer():
    other = {"type": "function", "function": {"name": "other"}}
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [CHAT_TOOLS[0]]}}
    tools = asked(COMPLETE, {**CHAT, "tools": [*CHAT_TOOLS, other], "tool_choice": allowed})[1].tools
    assert tools is not None and [tool.name for tool in tools.offered] == ["weather"] and tools.required
    flat = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "weather"}]}
    tools = asked(
        RESPONSES, {"input": "Hi", "tools": [*FLAT_TOOLS, {"type": "function", "name": "o"}], "tool_choice": flat}
    )[1].tools
    assert tools is not None and len(tools.offered) == 1 and not tools.required


def test_words_of_a_schema_that_no_grammar_enforces_are_told():
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "format": "password"}}
    value = {**CHAT, "response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}
    answer, reply = asked(COMPLETE, value)
    assert reply.sampling.grammar is not None
    assert answer.json["stats"]["left_out"] == [
        "response_format: uniqueItems at / is not enforced",
        "response_format: format at /items is not enforced",
    ]


# --- thinking ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "model", "right"),
    [
        ({"reasoning_effort": "none"}, {}, (None, "")),
        ({"reasoning_effort": "none"}, {"thinking": True}, (False, "")),
        ({"reasoning_effort": "low"}, {"thinking": True}, (True, "")),
        ({"reasoning_effort": "low"}, {"efforts": ("low", "high")}, (None, "low")),
        ({"reasoning_effort": "minimal"}, {"efforts": ("low", "high")}, (None, "low")),
        ({"reasoning_effort": "none"}, {"efforts": ("none", "high")}, (None, "none")),
        ({"chat_template_kwargs": {"enable_thinking": False}}, {"thinking": True}, (False, "")),
        ({"enable_thinking": False}, {"thinking": True}, (False, "")),
        ({"think": False}, {"thinking": True}, (False, "")),
        ({"thinking": {"type": "disabled"}}, {"thinking": True}, (False, "")),
        ({"reasoning": {"enabled": False}}, {"thinking": True}, (False, "")),
        ({"reasoning": {"effort": "high"}}, {"thinking": True}, (True, "")),
    ],
)
def test_every_clients_word_for_thinking_is_the_models_switch(
    fields: dict[str, Any], model: dict[str, Any], right: Any
):
    for path, value in ((COMPLETE, CHAT), (RESPONSES, {"input": "Hi"}), (CLAUDE, CLAUDE_CHAT)):
        sampling = asked(path, {**value, **fields}, **model)[1].sampling
        assert (sampling.thinking, sampling.effort) == right, path


def test_a_level_that_a_model_does_not_have_is_told_and_a_budget_bounds_the_thought():
    answer, reply = asked(COMPLETE, {**CHAT, "reasoning_effort": "max"}, efforts=("low", "high"))
    assert reply.sampling.effort == "high" and "max" in answer.headers[HEADER]
    answer, _ = asked(COMPLETE, {**CHAT, "reasoning_effort": "none"}, efforts=("low", "high"))
    assert "always thinks" in answer.headers[HEADER]
    thinking = {"type": "enabled", "budget_tokens": 16}
    sampling = asked(CLAUDE, {**CLAUDE_CHAT, "thinking": thinking}, thinking=True)[1].sampling
    assert (sampling.thinking, sampling.max_thought_tokens) == (True, 16)


# --- values that ask for nothing, samplers that are not here, names ------------------------------------


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": -1, "seed": -1, "top_k": -1, "stop": ""},
        {"max_tokens": 0, "stop": [""], "add_generation_prompt": True, "best_of": 1, "suffix": "", "grammar": ""},
        {"guided_json": "", "chat_template": "", "function_call": "auto", "typical_p": 1.0, "mirostat": 0},
        {
            "temperature": None,
            "stream": None,
            "tools": None,
            "response_format": None,
            "min_tokens": 0,
            "ignore_eos": False,
        },
    ],
)
def test_values_that_ask_for_nothing_change_nothing(fields: dict[str, Any]):
    answer, reply = asked(COMPLETE, {**CHAT, **fields})
    plain = asked(COMPLETE, CHAT)[1]
    assert structs.replace(reply, sampling=plain.sampling) == plain and HEADER not in answer.headers
    assert (reply.sampling.max_tokens, reply.sampling.stop, reply.sampling.top_k) == (8192, (), 0)
    nulls = {**CLAUDE_CHAT, "system": None, "stream": None, "metadata": None, "stop_sequences": None}
    assert post(CLAUDE, nulls).status == 200


@pytest.mark.parametrize("name", ["typical_p", "xtc_probability", "dry_multiplier", "mirostat", "min_tokens"])
def test_ways_of_sampling_that_are_not_available_are_told(name: str):
    assert name in asked(COMPLETE, {**CHAT, name: 2})[0].headers[HEADER]


def test_a_model_has_its_name_in_any_case_and_with_the_prefix_of_a_provider():
    for name in (MODEL.upper(), f"openai/{MODEL}", "default", ""):
        assert post(COMPLETE, {**CHAT, "model": name}).status == 200
    assert post(COMPLETE, {**CHAT, "model": "gpt-4o"}).status == 404
    assert post(f"{COMPLETE}/", CHAT).status == 200
    kind = {"content-type": "application/json; charset=utf8"}
    assert post(COMPLETE, CHAT, headers=kind).status == 200
    assert with_api(lambda api: api.call("GET", "/v1/models/")).json["object"] == "list"
    assert post(COMPLETE, CHAT, headers={"x-api-key": "dummy"}).status == 200


def test_prompts_in_a_list_have_a_choice_each():
    answer, reply = asked(TEXT, {"prompt": ["Once"]})
    assert reply.prompt == "Once" and len(answer.json["choices"]) == 1
    answer = post(TEXT, {"prompt": ["Once", "Twice"], "n": 2})
    assert [choice["index"] for choice in answer.json["choices"]] == [0, 1, 2, 3]
    assert answer.json["usage"]["prompt_tokens"] == 2 * post(TEXT, {"prompt": "x"}).json["usage"]["prompt_tokens"]
    assert post(TEXT, {"prompt": [[1, 2]]}).json["error"]["param"] == "prompt"


def test_a_last_turn_of_the_assistant_is_continued():
    turns = [USER, {"role": "assistant", "content": "Once upon"}]
    reply = asked(CLAUDE, {**CLAUDE_CHAT, "messages": turns}, thinking=True)[1]
    assert (reply.opening, len(reply.messages), reply.sampling.thinking) == ("Once upon", 1, False)
    assert asked(COMPLETE, {"messages": turns})[1].opening == ""
    for wish in ({"continue_final_message": True}, {"add_generation_prompt": False}):
        assert asked(COMPLETE, {"messages": turns, **wish})[1].opening == "Once upon"


def test_claude_codes_billing_line_does_not_reach_the_prompt():
    system = [{"type": "text", "text": "x-anthropic-billing-header: cch=36ee5;"}, {"type": "text", "text": "Be brief."}]
    assert asked(CLAUDE, {**CLAUDE_CHAT, "system": system})[1].messages[0].content == "Be brief."


# --- responses: references and summaries -----------------------------------------------------------------


def test_items_and_responses_can_be_referred_to_unless_they_were_not_to_be_stored():
    async def scenario(api: Api) -> None:
        first = (await api.post(RESPONSES, {"input": "Hi"})).json
        said = first["output"][0]["content"][0]["text"]
        reference = {"type": "item_reference", "id": first["output"][0]["id"]}
        assert (await api.post(RESPONSES, {"input": [USER, reference, USER]})).status == 200
        streamed = (
            await api.post(RESPONSES, {"input": "More", "previous_response_id": first["id"], "stream": True})
        ).events
        second = streamed[-1]["response"]
        await api.post(RESPONSES, {"input": "And?", "previous_response_id": second["id"]})
        _, by_item, by_response, third = api.engine.requests
        assert [turn.content for turn in by_item.messages] == ["Hi", said, "Hi"]
        assert [turn.content for turn in by_response.messages] == ["Hi", said, "More"]
        assert [turn.content for turn in third.messages] == ["Hi", said, "More", said, "And?"]
        private = (await api.post(RESPONSES, {"input": "Hi", "store": False})).json
        assert private["store"] is False and first["store"] is True
        answer = await api.post(RESPONSES, {"input": "More", "previous_response_id": private["id"]})
        assert (answer.status, answer.json["error"]["code"]) == (400, "previous_response_not_found")

    with_api(scenario)


def test_what_is_remembered_and_referred_to_is_bounded():
    recent = RecentResponses(3000)
    item = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "x" * 900}]}
    for number in range(5):
        recent.keep(str(number), (), [{**item, "id": f"m{number}"}])
    for number, known in ((0, False), (4, True)):
        body = ResponsesRequest(input=(ResponseItem(type="item_reference", id=f"m{number}"),))
        with nullcontext() if known else pytest.raises(ApiError):
            assert len(recent.items(body)) == 1
    large = RecentResponses()
    large.keep("r", (), [{**item, "content": [{"type": "output_text", "text": "x" * 1_000_000}]}])
    with pytest.raises(ApiError) as refused:
        large.items(ResponsesRequest(input=(ResponseItem(type="item_reference", id="m"),) * 60))
    assert refused.value.status == 413


class ThinkingEngine(FakeEngine):
    """Thinks "hm", says "Yes."; reads the prompt first, when it is told to (`go_on`)."""

    def carry_out(self, request: Work) -> None:
        """Waits."""

    def go_on(self, failure: str = "") -> None:
        said = Round(0, (1, 2), (), 0, (1.0, 1.0), (), 1, 0.1, texts=("hm", "Yes."), channels=("thought", "answer"))
        end = protocol.Failed(id=0, kind="RuntimeError", message="why")
        done = protocol.ReplyDone(id=0, finished=Finished("eos", 2, 0.2), seed=1)
        self.answer(protocol.RoundDone(id=0, round=said), end if failure else done)

    def read_prompt(self, done: int) -> None:
        self.answer(protocol.PrefillProgress(id=0, progress=PromptProgress(done, 4096, 0, 0.5)))


def test_a_thought_is_the_summary_that_a_client_asks_for_and_an_error_is_an_event_of_its_own():
    async def scenario(api: Api) -> None:
        async def streamed(failure: str) -> list[Any]:
            value = {"input": "Hi", "reasoning": {"summary": "auto"}, "stream": True}
            count = len(api.engine.requests)
            call = asyncio.create_task(api.post(RESPONSES, value))
            while len(api.engine.requests) == count:
                await asyncio.sleep(0)
            api.engine.go_on(failure)  # type: ignore[attr-defined]
            return (await call).events

        events = await streamed("")
        summary = [one["delta"] for one in events if one["type"] == "response.reasoning_summary_text.delta"]
        assert summary == ["hm"]
        assert events[-1]["response"]["output"][0]["summary"] == [{"type": "summary_text", "text": "hm"}]
        failed = (await streamed("why"))[-1]
        assert (failed["type"], failed["message"]) == ("error", "why")
        assert failed["sequence_number"] > 0

    with_api(scenario, engine=ThinkingEngine)


# --- signs of life -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "value", "sign"),
    [
        (COMPLETE, CHAT, b": ping"),
        (TEXT, {"prompt": "Hi"}, b": ping"),
        (RESPONSES, {"input": "Hi"}, b": ping"),
        (CLAUDE, CLAUDE_CHAT, b"event: ping"),
    ],
)
def test_a_stream_shows_at_once_and_then_regularly_that_it_lives(path: str, value: dict[str, Any], sign: bytes):
    async def scenario() -> None:
        engine = ThinkingEngine()
        api = Api(engine)
        answer = Answer()
        call = asyncio.create_task(api.post(path, {**value, "stream": True}, into=answer))
        await stepped_loop.advance(http_replies.FIRST_S)
        assert answer.status == 200 and answer.body.count(sign) == 1
        for count in (2, 3):
            await stepped_loop.advance(PING_S)
            assert answer.body.count(sign) == count
        engine.read_prompt(1024)
        await stepped_loop.settle()
        assert b": prompt 1024/4096" in answer.body
        engine.go_on()
        await call
        assert answer.complete and b"Yes." in answer.body

    stepped_loop.run(scenario())


def test_progress_of_the_prompt_is_told_as_llama_cpp_has_it():
    async def scenario(api: Api) -> None:
        call = asyncio.create_task(api.post(COMPLETE, {**CHAT, "stream": True, "return_progress": True}))
        while not api.engine.requests:
            await asyncio.sleep(0)
        api.engine.read_prompt(2048)  # type: ignore[attr-defined]
        api.engine.go_on()  # type: ignore[attr-defined]
        told = next(event["prompt_progress"] for event in (await call).events if "prompt_progress" in event)
        assert told == {"total": 4096, "cache": 0, "processed": 2048, "time_ms": 500}

    with_api(scenario, engine=ThinkingEngine)


# --- other origins -------------------------------------------------------------------------------------


def test_other_names_and_origins_are_answered_where_the_user_allows_them_and_need_the_key():
    origin, name = "app://obsidian.md", "host.docker.internal"

    async def scenario(api: Api) -> None:
        api.allow(hosts=(name,), origins=(origin,))
        answer = await api.post(COMPLETE, CHAT, headers={"origin": origin, "sec-fetch-site": "cross-site"})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)
        assert (await api.post(COMPLETE, CHAT, headers={"host": f"{name}:{PORT}"})).status == 200
        asks = {"origin": origin, "authorization": "", "access-control-request-headers": "authorization,x-stainless-os"}
        before = await api.call("OPTIONS", COMPLETE, headers=asks)
        assert before.status == 204 and "x-stainless-os" in before.headers["access-control-allow-headers"]
        keyless = await api.post(COMPLETE, CHAT, headers={"origin": origin, "authorization": f"Bearer {KEY}x"})
        assert keyless.status == 401
        for headers in ({"origin": "app://other"}, {"host": f"other:{PORT}"}):
            assert (await api.post(COMPLETE, CHAT, headers=headers)).status == 403

    with_api(scenario)
