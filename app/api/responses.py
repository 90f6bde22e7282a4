"""`POST /v1/responses`, OpenAI's newer endpoint, without storage: nothing is kept after the reply."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import unsupported
from app.api.http_replies import Event, EventStream, json_response, until_gone
from app.api.reply_stream import Engine, Tally, deltas, measurements, origins, whole
from app.api.request_schema import ResponsesRequest, grammar_of, read_request, text_of


class Responses:
    """The endpoint."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        body = read_request(await request.body(), ResponsesRequest)
        reply = self._reply(body)
        head = {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": self._engine.now(),
            "model": self._engine.loaded.target,
            "instructions": body.instructions,
            "temperature": body.temperature,
            "top_p": body.top_p,
            "max_output_tokens": body.max_output_tokens,
            "error": None,
            "incomplete_details": None,
            "metadata": {},
            "parallel_tool_calls": False,
            "previous_response_id": None,
            "store": False,
            "tool_choice": "none",
            "tools": [],
            "text": body.text or {"format": {"type": "text"}},
        }
        if body.stream:
            return await EventStream(_numbered(self._events(reply, head))).begin(request)
        tally = await until_gone(request.receive, whole(self._engine.client, reply))
        return json_response(_complete(head, tally, f"msg_{secrets.token_hex(12)}"))

    def _reply(self, body: ResponsesRequest) -> protocol.Reply:
        """Returns the request for the host. Raises ApiError."""
        self._engine.check_model(body.model)
        grammar = grammar_of((body.text or {}).get("format"), "text.format")
        effort = self._engine.effort((body.reasoning or {}).get("effort"))
        given = {"temperature": body.temperature, "top_p": body.top_p, "max_tokens": body.max_output_tokens}
        settings = self._engine.settings({**given, **effort, "grammar": grammar})
        return self._engine.replies(messages_of(body), settings)[0]

    async def _events(self, reply: protocol.Reply, head: dict[str, Any]) -> AsyncGenerator[Event]:
        tally, item = Tally(), f"msg_{secrets.token_hex(12)}"
        place = {"item_id": item, "output_index": 0, "content_index": 0}
        begun = False
        async for delta in deltas(self._engine.client, reply, tally):
            if not begun:
                begun = True
                opening = {**head, "status": "in_progress", "output": [], "usage": None}
                yield _named("response.created", response=opening)
                yield _named("response.in_progress", response=opening)
                yield _named("response.output_item.added", output_index=0, item=_message(item, None))
                yield _named("response.content_part.added", **place, part=_part(""))
            if delta.answer:
                fields = {"delta": delta.answer, "logprobs": [], "redline": origins(delta.tokens)}
                yield _named("response.output_text.delta", **place, **fields)
        yield _named("response.output_text.done", **place, text=tally.answer, logprobs=[])
        yield _named("response.content_part.done", **place, part=_part(tally.answer))
        yield _named("response.output_item.done", output_index=0, item=_message(item, tally.answer))
        last = _complete(head, tally, item)
        yield _named(f"response.{last['status']}", response=last)


def messages_of(body: ResponsesRequest) -> tuple[protocol.Message, ...]:
    """Returns the conversation as the host takes it. Raises ApiError for items that are no messages."""
    messages = [protocol.Message(role="system", content=body.instructions)] if body.instructions else []
    if isinstance(body.input, str):
        return (*messages, protocol.Message(role="user", content=body.input))
    for item in body.input:
        if item.type != "message" or item.role is None:
            raise unsupported("input", f"messages are read, and an item is {item.type[:40]!r}")
        role = "system" if item.role == "developer" else item.role
        messages.append(protocol.Message(role=role, content=text_of(item.content, "input")))
    return tuple(messages)


async def _numbered(events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """Yields the events with their numbers."""
    number = 0
    async for name, value in events:
        yield name, {**value, "sequence_number": number}
        number += 1


def _named(name: str, **fields: Any) -> Event:
    return name, {"type": name, **fields}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(item: str, text: str | None) -> dict[str, Any]:
    status, content = ("in_progress", []) if text is None else ("completed", [_part(text)])
    return {"type": "message", "id": item, "role": "assistant", "status": status, "content": content}


def _complete(head: dict[str, Any], tally: Tally, item: str) -> dict[str, Any]:
    output = [_message(item, tally.answer)]
    if tally.thought:
        thought = {"type": "reasoning_text", "text": tally.thought}
        output.insert(0, {"type": "reasoning", "id": item.replace("msg", "rs"), "summary": [], "content": [thought]})
    usage = {
        "input_tokens": tally.prompt_tokens,
        "input_tokens_details": {"cached_tokens": tally.reused},
        "output_tokens": tally.tokens,
        "output_tokens_details": {"reasoning_tokens": tally.thought_tokens},
        "total_tokens": tally.prompt_tokens + tally.tokens,
    }
    short = tally.finish == "length"
    ending = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}} if short else {}
    fields = {"output": output, "usage": usage, **measurements(tally), "redline": origins(tally.emitted)}
    return {**head, "status": "completed", **ending, **fields}
