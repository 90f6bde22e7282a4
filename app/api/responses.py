"""`POST /v1/responses`, OpenAI's newer endpoint, without storage: nothing is kept after the reply."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Iterator
from itertools import chain
from typing import Any

from msgspec import to_builtins
from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import unsupported
from app.api.http_replies import Event, EventStream, json_response, until_gone
from app.api.reply_stream import Delta, Engine, Tally, deltas, measurements, origins, whole
from app.api.request_schema import ResponsesRequest, grammar_of, read_request, text_of
from app.api.tools import Turns, call_of, response_tools


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
            "parallel_tool_calls": body.parallel_tool_calls is not False,
            "previous_response_id": None,
            "store": False,
            "tool_choice": body.tool_choice or "auto",
            "tools": [to_builtins(tool) for tool in body.tools or ()],
            "text": body.text or {"format": {"type": "text"}},
        }
        if body.stream:
            return await EventStream(_numbered(self._events(reply, head))).begin(request)
        tally = await until_gone(request.receive, whole(self._engine.client, reply))
        items = _Items()
        for _ in chain(items.add(Delta(tally.answer, tally.thought, (), tuple(tally.calls))), items.end()):
            pass
        return json_response(_complete(head, tally, items.output))

    def _reply(self, body: ResponsesRequest) -> protocol.Reply:
        """Returns the request for the host. Raises ApiError."""
        self._engine.check_model(body.model)
        grammar = grammar_of((body.text or {}).get("format"), "text.format")
        effort = self._engine.effort((body.reasoning or {}).get("effort"))
        given = {"temperature": body.temperature, "top_p": body.top_p, "max_tokens": body.max_output_tokens}
        settings = self._engine.settings({**given, **effort, "grammar": grammar})
        return self._engine.replies(messages_of(body), settings, tools=response_tools(body))[0]

    async def _events(self, reply: protocol.Reply, head: dict[str, Any]) -> AsyncGenerator[Event]:
        tally, items, begun = Tally(), _Items(), False
        async for delta in deltas(self._engine.client, reply, tally):
            if not begun:
                begun = True
                opening = {**head, "status": "in_progress", "output": [], "usage": None}
                yield _named("response.created", response=opening)
                yield _named("response.in_progress", response=opening)
            for event in items.add(delta):
                yield event
        for event in items.end():
            yield event
        last = _complete(head, tally, items.output)
        yield _named(f"response.{last['status']}", response=last)


class _Items:
    """The items of a response and their events: one for each stretch of thought or answer, and for each call. output:
    those that are complete."""

    def __init__(self) -> None:
        self.output: list[dict[str, Any]] = []
        self._kind, self._id, self._text = "", "", ""  # of the item that is open

    def add(self, delta: Delta) -> Iterator[Event]:
        """Yields the events of what a round added."""
        for kind, text in (("reasoning", delta.thought), ("message", delta.answer)):
            if not text or (kind == "message" and self._kind != kind and self.output and not text.strip()):
                continue  # blanks alone, between a thought or a call and the next call, are no message
            if kind != self._kind:
                yield from self._close()
                yield from self._open(kind)
            self._text += text
            more: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
            yield _named(f"{_TEXTS[kind]}.delta", **self._place, delta=text, **more, redline=origins(delta.tokens))
        for call in delta.calls:
            yield from self._close()
            yield from self._call(call)

    def end(self) -> Iterator[Event]:
        """Yields the end of the item that is open. A response without any item has an empty message."""
        yield from self._close()
        if not any(item["type"] in ("message", "function_call") for item in self.output):
            yield from self._open("message")
            yield from self._close()

    @property
    def _place(self) -> dict[str, Any]:
        return {"item_id": self._id, "output_index": len(self.output), "content_index": 0}

    def _open(self, kind: str) -> Iterator[Event]:
        self._kind, self._text = kind, ""
        self._id = f"{'msg' if kind == 'message' else 'rs'}_{secrets.token_hex(12)}"
        item = _ITEMS[kind](self._id, None)
        yield _named("response.output_item.added", output_index=len(self.output), item=item)
        yield _named("response.content_part.added", **self._place, part=_PARTS[kind](""))

    def _close(self) -> Iterator[Event]:
        if not self._kind:
            return
        kind = self._kind
        more: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
        yield _named(f"{_TEXTS[kind]}.done", **self._place, text=self._text, **more)
        yield _named("response.content_part.done", **self._place, part=_PARTS[kind](self._text))
        item, self._kind = _ITEMS[kind](self._id, self._text), ""
        yield _named("response.output_item.done", output_index=len(self.output), item=item)
        self.output.append(item)

    def _call(self, call: protocol.ToolCall) -> Iterator[Event]:
        index, number = len(self.output), f"fc_{secrets.token_hex(12)}"
        fields = {"type": "function_call", "id": number, "call_id": call.id, "name": call.name}
        place = {"item_id": number, "output_index": index}
        opened = {**fields, "arguments": "", "status": "in_progress"}
        yield _named("response.output_item.added", output_index=index, item=opened)
        yield _named("response.function_call_arguments.delta", **place, delta=call.arguments)
        yield _named("response.function_call_arguments.done", **place, name=call.name, arguments=call.arguments)
        self.output.append({**fields, "arguments": call.arguments, "status": "completed"})
        yield _named("response.output_item.done", output_index=index, item=self.output[-1])


def messages_of(body: ResponsesRequest) -> tuple[protocol.Message, ...]:
    """Returns the conversation as the host takes it. Raises ApiError for items that cannot be read."""
    turns = Turns()
    if body.instructions:
        turns.add(protocol.Message(role="system", content=body.instructions))
    if isinstance(body.input, str):
        turns.add(protocol.Message(role="user", content=body.input))
        return turns.all()
    thought = ""
    for item in body.input:
        if item.type == "reasoning":
            thought = text_of(item.content, "input")
        elif item.type == "function_call":
            turns.add_call(call_of(item.call_id or "", item.name or "", item.arguments), thought)
            thought = ""
        elif item.type == "function_call_output":
            turns.add_result(item.call_id or "", item.output)
        elif item.type == "message" and item.role is not None:
            role = "system" if item.role == "developer" else item.role
            turns.add(protocol.Message(role=role, content=text_of(item.content, "input"), thought=thought))
            thought = ""
        else:
            kinds = "messages, calls or results of calls"
            raise unsupported("input", f"input items must be {kinds}, not {item.type[:40]!r}")
    return turns.all()


async def _numbered(events: AsyncGenerator[Event]) -> AsyncGenerator[Event]:
    """Yields the events with their numbers."""
    number = 0
    async for name, value in events:
        yield name, {**value, "sequence_number": number}
        number += 1


def _named(event: str, /, **fields: Any) -> Event:
    return event, {"type": event, **fields}


def _part(text: str) -> dict[str, Any]:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(item: str, text: str | None) -> dict[str, Any]:
    status, content = ("in_progress", []) if text is None else ("completed", [_part(text)])
    return {"type": "message", "id": item, "role": "assistant", "status": status, "content": content}


def _thought_part(text: str) -> dict[str, Any]:
    return {"type": "reasoning_text", "text": text}


def _reasoning(item: str, text: str | None) -> dict[str, Any]:
    content = [] if text is None else [_thought_part(text)]
    return {"type": "reasoning", "id": item, "summary": [], "content": content}


_TEXTS = {"message": "response.output_text", "reasoning": "response.reasoning_text"}
_ITEMS = {"message": _message, "reasoning": _reasoning}
_PARTS = {"message": _part, "reasoning": _thought_part}


def _complete(head: dict[str, Any], tally: Tally, output: list[dict[str, Any]]) -> dict[str, Any]:
    metrics = tally.metrics
    usage = {
        "input_tokens": metrics.prompt_tokens,
        "input_tokens_details": {"cached_tokens": metrics.reused_tokens},
        "output_tokens": metrics.tokens,
        "output_tokens_details": {"reasoning_tokens": tally.reasoning_tokens},
        "total_tokens": metrics.prompt_tokens + metrics.tokens,
    }
    short = tally.finish == "length"
    ending = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}} if short else {}
    fields = {"output": output, "usage": usage, **measurements(tally), "redline": origins(tally.emitted)}
    return {**head, "status": "completed", **ending, **fields}
