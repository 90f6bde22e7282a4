"""`POST /v1/messages` and `/v1/messages/count_tokens`, Anthropic's protocol."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import ApiError, of_failure
from app.api.http_replies import Event, EventStream, json_response, until_gone
from app.api.reply_stream import Engine, Tally, deltas, measurements, origins, whole
from app.api.request_schema import MessagesRequest, read_request, text_of


class AnthropicMessages:
    """The endpoint for replies."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        body = read_request(await request.body(), MessagesRequest)
        reply = self._reply(body)
        head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self._engine.loaded.target,
        }
        if body.stream:
            return await EventStream(self._events(body, reply, head), anthropic=True).begin(request)
        tally = await until_gone(request.receive, whole(self._engine.client, reply))
        content = [{"type": "text", "text": tally.answer}]
        if tally.thought:
            content.insert(0, {"type": "thinking", "thinking": tally.thought, "signature": ""})
        fields = {"usage": _usage(tally), **measurements(tally), "redline": origins(tally.emitted)}
        return json_response({**head, "content": content, **_ending(body, tally), **fields})

    def _reply(self, body: MessagesRequest) -> protocol.Reply:
        """Returns the request for the host. Raises ApiError."""
        self._engine.check_model(body.model)
        if body.max_tokens is None:
            raise ApiError(400, "invalid_request", "max_tokens is missing", "max_tokens")
        given: dict[str, Any] = {name: getattr(body, name) for name in ("temperature", "top_p", "top_k", "max_tokens")}
        if self._engine.loaded.thinking and body.thinking is not None:
            given["thinking"] = body.thinking.get("type") != "disabled"
        settings = self._engine.settings({**given, "stop": body.stop_sequences})
        return self._engine.replies(messages_of(body), settings)[0]

    async def _events(
        self, body: MessagesRequest, reply: protocol.Reply, head: dict[str, Any]
    ) -> AsyncGenerator[Event]:
        tally, index, kind = Tally(), -1, ""
        async for delta in deltas(self._engine.client, reply, tally):
            if index < 0 and not kind:
                opening = {**head, "content": [], "stop_reason": None, "stop_sequence": None, "usage": _usage(tally, 1)}
                yield _named("message_start", message=opening)
            for channel, text in (("thinking", delta.thought), ("text", delta.answer)):
                if not text:
                    continue
                if channel != kind:
                    if index >= 0:
                        yield _named("content_block_stop", index=index)
                    index, kind = index + 1, channel
                    yield _named("content_block_start", index=index, content_block={"type": kind, kind: ""})
                fields = {"type": f"{kind}_delta", kind: text}
                yield _named("content_block_delta", index=index, delta=fields, redline=origins(delta.tokens))
            kind = kind or "begun"
        if index >= 0:
            yield _named("content_block_stop", index=index)
        yield _named("message_delta", delta=_ending(body, tally), usage=_usage(tally), **measurements(tally))
        yield _named("message_stop")


class CountTokens:
    """The endpoint that counts the tokens of a conversation, the chat template included."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        body = read_request(await request.body(), MessagesRequest)
        self._engine.check_model(body.model)
        count = protocol.Count(id=0, messages=messages_of(body), target=self._engine.loaded.pair.target)
        return json_response({"input_tokens": await until_gone(request.receive, self._count(count))})

    async def _count(self, count: protocol.Count) -> int:
        async with aclosing(self._engine.client.request(count)) as answers:
            async for answer in answers:
                if isinstance(answer, protocol.Counted):
                    return answer.tokens
                if isinstance(answer, protocol.Failed):
                    raise of_failure(answer)
        raise ApiError(500, "engine_error", "the engine did not count")


def messages_of(body: MessagesRequest) -> tuple[protocol.Message, ...]:
    """Returns the turns as the host takes them. Raises ApiError for parts that are no text."""
    system = text_of(body.system, "system")
    first = (protocol.Message(role="system", content=system),) if system else ()
    return first + tuple(protocol.Message(role=turn.role, content=text_of(turn.content)) for turn in body.messages)


def _named(name: str, **fields: Any) -> Event:
    return name, {"type": name, **fields}


def _usage(tally: Tally, least: int = 0) -> dict[str, int]:
    return {
        "input_tokens": tally.prompt_tokens - tally.reused,
        "cache_read_input_tokens": tally.reused,
        "cache_creation_input_tokens": 0,
        "output_tokens": max(tally.tokens, least),
    }


def _ending(body: MessagesRequest, tally: Tally) -> dict[str, Any]:
    """Returns why the reply ended. Which of several stop sequences it was is not known, and null."""
    stopped = tally.reason == "stop"
    reason = "stop_sequence" if stopped else "max_tokens" if tally.finish == "length" else "end_turn"
    sequence = body.stop_sequences[0] if stopped and len(body.stop_sequences) == 1 else None
    return {"stop_reason": reason, "stop_sequence": sequence}
