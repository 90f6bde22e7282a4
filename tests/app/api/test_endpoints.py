"""The endpoints tell what the host told, in the shapes that clients know; and the host gets what clients asked."""

import asyncio
from typing import Any

import pytest

from app import protocol
from app.host.recording_player import RecordingPlayer
from engine.settings import Grammar
from tests.app.api.api_calls import CHAT, MODEL, Api, post, with_api
from tests.app.host.process import RECORDED

SCHEMA = {"type": "integer"}


def recorded_reply() -> tuple[str, list[str], protocol.ReplyDone]:
    """The text of the first recorded reply, the origins of its tokens, and its end."""
    player = RecordingPlayer.read(RECORDED, 0)
    request = protocol.Reply(id=1, messages=(), sampling=protocol.SamplingSettings())
    answers = list(player.reply(request, asyncio.Event()))
    rounds = [answer.round for answer in answers if isinstance(answer, protocol.RoundDone)]
    end = next(answer for answer in answers if isinstance(answer, protocol.ReplyDone))
    text = "".join(round_.text_in("answer") for round_ in rounds) + end.finished.text
    return text, [origin for round_ in rounds for origin in round_.origins], end


def request_of(path: str, value: Any) -> protocol.Reply:
    """The request that the host gets."""

    async def scenario(api: Api) -> protocol.Reply:
        answer = await api.post(path, value)
        assert answer.status == 200, answer.body
        return api.engine.requests[0]

    return with_api(scenario)


def test_a_chat_reply_is_the_hosts_with_its_counts_and_origins():
    text, origins, end = recorded_reply()
    answer = post("/v1/chat/completions", {**CHAT, "logprobs": True}).json
    choice = answer["choices"][0]
    assert choice["message"] == {"role": "assistant", "content": text}
    assert choice["redline"]["origins"] == origins
    assert set(origins) == {"accepted", "corrected", "bonus"}
    assert answer["usage"]["completion_tokens"] == end.finished.tokens == len(origins)
    assert answer["timings"]["draft_n_accepted"] == origins.count("accepted")
    assert len(choice["logprobs"]["content"]) == len(origins)
    assert all(token["logprob"] <= 0 for token in choice["logprobs"]["content"])


def test_a_stream_adds_up_to_the_whole_reply_on_every_endpoint():
    text, _, _ = recorded_reply()
    chat = post("/v1/chat/completions", {**CHAT, "stream": True, "stream_options": {"include_usage": True}}).events
    assert chat[-1] == "[DONE]" and chat[-2]["choices"] == [] and chat[-2]["usage"]["completion_tokens"] > 0
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in chat[:-2]) == text
    assert chat[-3]["choices"][0]["finish_reason"] in ("stop", "length")
    plain = post("/v1/completions", {"prompt": "Hi", "stream": True}).events
    assert "".join(one["choices"][0]["text"] for one in plain[:-1]) == text
    responses = post("/v1/responses", {"input": "Hi", "stream": True}).events
    assert "".join(one["delta"] for one in responses if one["type"] == "response.output_text.delta") == text
    assert responses[-1]["response"]["output"][0]["content"][0]["text"] == text
    assert [one["sequence_number"] for one in responses] == list(range(len(responses)))
    claude = post("/v1/messages", {"model": MODEL, "max_tokens": 9, **CHAT, "stream": True}).events
    assert "".join(one["delta"]["text"] for one in claude if one["type"] == "content_block_delta") == text
    assert [claude[0]["type"], claude[-1]["type"]] == ["message_start", "message_stop"]


def test_the_settings_that_a_client_gives_reach_the_host_and_all_others_are_the_models():
    value = {**CHAT, "temperature": 0.5, "top_k": 7, "seed": 11, "stop": "END", "logit_bias": {"3": -100}}
    value |= {
        "prediction": {"type": "content", "content": [{"type": "text", "text": "a = 1"}]},
        "user": "u",
        "tools": [],
    }
    value |= {"repetition_penalty": 1.1, "presence_penalty": 0.5, "frequency_penalty": -0.5}
    request = request_of("/v1/chat/completions", {**value, "max_completion_tokens": 9, "max_tokens": 4})
    assert request.prediction == "a = 1"
    sampling = request.sampling
    assert (sampling.temperature, sampling.top_k, sampling.seed, sampling.stop) == (0.5, 7, 11, ("END",))
    assert (sampling.logit_bias, sampling.max_tokens, sampling.fresh) == ({3: -100.0}, 9, False)
    penalties = sampling.repetition_penalty, sampling.presence_penalty, sampling.frequency_penalty
    assert penalties == (1.1, 0.5, -0.5)
    assert set(sampling.from_model) & {"temperature", "top_k"} == set() and "top_p" in sampling.from_model


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("/v1/chat/completions", {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}}),
        ("/v1/completions", {"response_format": {"type": "json_schema", "schema": SCHEMA}}),
        ("/v1/chat/completions", {"response_format": {"type": "json_object", "schema": SCHEMA}}),
        ("/v1/responses", {"text": {"format": {"type": "json_schema", "name": "x", "schema": SCHEMA}}}),
        ("/v1/messages", {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        ("/v1/messages", {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
    ],
)
def test_a_schema_becomes_the_grammar_of_the_reply(path: str, value: dict[str, Any]) -> None:
    chat = {**CHAT, "model": MODEL, "max_tokens": 9}
    value |= {"/v1/completions": {"prompt": "x"}, "/v1/responses": {"input": "x"}}.get(path, chat)
    assert request_of(path, value).sampling.grammar == Grammar("json_schema", '{"type":"integer"}')


def test_messages_reach_the_host_whole():
    turns = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "reasoning_content": "d"},
        {"role": "user", "content": "e"},
    ]
    told = [
        (one.role, one.content, one.thought) for one in request_of("/v1/chat/completions", {"messages": turns}).messages
    ]
    assert told == [("system", "Be brief.", ""), ("user", "ab", ""), ("assistant", "c", "d"), ("user", "e", "")]
    plain = request_of("/v1/completions", {"prompt": "Once"})
    assert (plain.prompt, plain.target) == ("Once", protocol.Pair().target)
    claude = {"model": MODEL, "max_tokens": 5, "system": "s", **CHAT, "stop_sequences": ["x"]}
    error = post("/v1/messages", {**claude, "model": "claude"})
    assert (error.status, error.json["type"], error.json["error"]["type"]) == (404, "error", "not_found_error")
    reply = request_of("/v1/messages", claude)
    assert [one.role for one in reply.messages] == ["system", "user"] and reply.sampling.stop == ("x",)


def test_several_replies_have_seeds_that_follow_each_other():
    async def scenario(api: Api) -> None:
        answer = await api.post("/v1/chat/completions", {**CHAT, "n": 3, "seed": 5})
        assert [choice["index"] for choice in answer.json["choices"]] == [0, 1, 2]
        assert [one.sampling.seed for one in api.engine.requests] == [5, 6, 7]
        assert len({one.id for one in api.engine.requests}) == 3

    with_api(scenario)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_has_its_reply_stopped(stream: bool):
    async def scenario(api: Api) -> None:
        gone = asyncio.Event()
        call = asyncio.create_task(api.post("/v1/chat/completions", {**CHAT, "stream": stream}, gone=gone))
        while not api.client.pending:
            await asyncio.sleep(0)
        while len(api.engine.requests) == 0:
            await asyncio.sleep(0)
        gone.set()
        answer = await call
        assert not (stream and answer.status == 200 and answer.complete)
        reply, stop = api.engine.requests
        assert isinstance(stop, protocol.Stop) and stop.id == reply.id
        assert api.client.pending == 0

    with_api(scenario, held=True)


def test_an_engine_that_ends_fails_what_is_open_and_all_that_comes_later():
    async def scenario(api: Api) -> None:
        call = asyncio.create_task(api.post("/v1/chat/completions", CHAT))
        while not api.client.pending:
            await asyncio.sleep(0)
        api.client.end()
        for answer in (await call, await api.post("/v1/chat/completions", CHAT), await api.call("GET", "/health")):
            assert (answer.status, answer.json["error"]["code"]) == (503, "engine_unavailable")

    with_api(scenario, held=True)


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        (protocol.NOT_LOADED, 503, "model_not_loaded"),
        (protocol.OTHER_MODEL, 503, "model_changed"),
        ("ContextError", 400, "context_length_exceeded"),
        ("RuntimeError", 500, "engine_error"),
    ],
)
def test_what_the_host_could_not_do_has_its_status(kind: str, status: int, code: str):
    async def scenario(api: Api) -> None:
        call = asyncio.create_task(api.post("/v1/chat/completions", CHAT))
        while not api.engine.requests:
            await asyncio.sleep(0)
        api.engine.answer(protocol.Failed(id=0, kind=kind, message="why"))
        answer = await call
        assert (answer.status, answer.json["error"]["code"], answer.json["error"]["message"]) == (status, code, "why")

    with_api(scenario, held=True)


def test_too_many_requests_are_told_when_to_come_again():
    async def scenario(api: Api) -> None:
        calls = [asyncio.create_task(api.post("/v1/chat/completions", CHAT)) for _ in range(65)]
        done, open_ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        (refused,) = [call.result() for call in done]
        assert (refused.status, refused.headers["retry-after"]) == (429, "5")
        assert len(open_) == 64
        for call in open_:
            call.cancel()
        await asyncio.wait(open_)
        assert api.client.pending == 0

    with_api(scenario, held=True)


@pytest.mark.parametrize(
    ("value", "code", "param"),
    [
        ({"model": "gpt-4"}, "model_not_found", "model"),
        ({"temperature": 3}, "invalid_request", None),
        ({"temperature": 1e-9}, "invalid_value", "temperature"),
        ({"response_format": {"type": "json_schema"}}, "invalid_value", "response_format"),
        ({"response_format": {"type": "json_object", "schema": 3}}, "invalid_value", "response_format"),
        ({"response_format": {"type": "grammar"}}, "unsupported_parameter", "response_format"),
        ({"top_logprobs": 2, "logprobs": True}, "unsupported_parameter", "top_logprobs"),
        ({"prediction": {"type": "other", "content": "x"}}, "invalid_request", None),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "unsupported_parameter", "messages"),
        ({"stop": ["", "x"]}, "invalid_request", None),
        ({"stop_token_ids": [5]}, "unsupported_parameter", "stop_token_ids"),
        ({"continue_final_message": True}, "invalid_value", "continue_final_message"),
    ],
)
def test_what_would_give_another_reply_is_refused_by_name(value: dict, code: str, param: str | None):
    for stream in (False, True):
        answer = post("/v1/chat/completions", {**CHAT, **value, "stream": stream})
        assert answer.status == (404 if code == "model_not_found" else 400)
        assert set(answer.json["error"]) == {"message", "type", "param", "code"}
        assert (answer.json["error"]["code"], answer.json["error"]["param"]) == (code, param)


def test_models_counts_and_the_page_of_the_interface():
    async def scenario(api: Api) -> None:
        assert [one["id"] for one in (await api.call("GET", "/v1/models")).json["data"]] == [MODEL]
        assert (await api.call("GET", f"/v1/models/{MODEL}")).json["id"] == MODEL
        assert (await api.call("GET", "/v1/models/other/one")).status == 404
        count = await api.post("/v1/messages/count_tokens", {"model": MODEL, **CHAT})
        assert count.json["input_tokens"] > 0
        page = (await api.call("GET", "/openapi.json")).json
        assert "messages" in page["components"]["schemas"]["ChatRequest"]["required"]
        assert page["paths"]["/health"]["get"]["security"] == []
        assert "401" in page["paths"]["/v1/models"]["get"]["responses"]

    with_api(scenario)


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("POST", "/health", "GET, HEAD"),
        ("POST", "/v1/models/x/y", "GET, HEAD"),
        ("TRACE", "/v1/models", "GET, HEAD"),
        ("GET", "/v1/completions", "POST"),
        ("PUT", "/v1/messages", "POST"),
    ],
)
def test_another_method_is_refused_with_those_that_there_are(method: str, path: str, allowed: str):
    """RFC 9110, 15.5.6: a 405 has them in Allow. The type of the body does not matter then."""
    answer = with_api(lambda api: api.call(method, path, headers={"content-type": ""}))
    assert (answer.status, answer.headers.get("allow")) == (405, allowed)
    assert with_api(lambda api: api.call("HEAD", "/v1/models")).status == 200
