"""`POST /v1/messages` and `/v1/messages/count_tokens`, Anthropic's protocol.

A last turn of the assistant's is continued, as the protocol says.
"""

import secrets
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import ApiError, Omissions, of_failure
from app.api.endpoint import Choice, ReplyForm
from app.api.http_replies import Event, json_response, until_gone
from app.api.reply_stream import Delta, Engine, Tally, measurements, origins
from app.api.request_reading import read_request
from app.api.request_schema import AnthropicPart, MessagesRequest, TextPart, grammar_of, text_of
from app.api.tools import anthropic_tools
from app.api.turns import Turns, call_of, last_question, split_opening

# The first block of Claude Code's system prompt begins with this. It is for its maker's billing, changes at each
# request, and would keep everything after it from being reused.
_BILLING = "x-anthropic-billing-header:"


class MessageForm(ReplyForm):
    """The reply to a request: a block for each stretch of text of one kind, and for each call."""

    ping = ("ping", {"type": "ping"})

    def __init__(self, engine: Engine, body: MessagesRequest, omissions: Omissions) -> None:
        self.replies = [_reply(engine, body, omissions)]
        self._body, self._omissions = body, omissions
        about = {"type": "message", "role": "assistant", "model": engine.loaded.target}
        self._head = {"id": f"msg_{secrets.token_hex(12)}", **about}
        self._begun, self._index, self._kind = False, -1, ""  # of the block that is open

    def document(self, choices: list[Choice]) -> dict[str, Any]:
        tally = choices[0].tally
        content: list[dict[str, Any]] = []
        if tally.thought:
            content.append({"type": "thinking", "thinking": tally.thought, "signature": ""})
        if tally.answer.strip() or not tally.calls:
            content.append({"type": "text", "text": tally.answer})
        content += [{**_tool_use(call), "input": msgspec.json.decode(call.arguments)} for call in tally.calls]
        fields = {"usage": _usage(tally), **measurements(tally, self._omissions), "redline": origins(tally.emitted)}
        return {**self._head, "content": content, **_ending(self._body, tally), **fields}

    def received(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        if not (self._begun or delta.waits):  # whose head counts the prompt
            self._begun = True
            unended: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
            yield _named("message_start", message={**self._head, **unended, "usage": _usage(choice.tally, 1)})
        yield from super().received(choice, delta)

    def added(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        for kind, text in (("thinking", delta.thought), ("text", delta.answer)):
            if text and kind != self._kind:
                yield from self._begin(kind, {"type": kind, kind: ""})
            if text:
                added = {"type": f"{kind}_delta", kind: text}
                yield _named("content_block_delta", index=self._index, delta=added, redline=origins(delta.tokens))
        for call in delta.calls:
            yield from self._begin("tool_use", _tool_use(call))
            added = {"type": "input_json_delta", "partial_json": call.arguments}
            yield _named("content_block_delta", index=self._index, delta=added)

    def _begin(self, kind: str, block: dict[str, Any]) -> Iterator[Event]:
        yield from self._end()
        self._index, self._kind = self._index + 1, kind
        yield _named("content_block_start", index=self._index, content_block=block)

    def _end(self) -> Iterator[Event]:
        if self._kind:
            yield _named("content_block_stop", index=self._index)

    def ended(self, choice: Choice) -> Iterator[Event]:
        yield from self._end()
        fields = {"usage": _usage(choice.tally), **measurements(choice.tally, self._omissions)}
        yield _named("message_delta", delta=_ending(self._body, choice.tally), **fields)
        yield _named("message_stop")

    def failed(self, error: ApiError) -> Event:
        return "error", error.body(anthropic=True)


def _reply(engine: Engine, body: MessagesRequest, omissions: Omissions) -> protocol.Reply:
    """Returns the request for the host. Raises ApiError."""
    engine.check_model(body.model)
    if body.max_tokens is None:
        raise ApiError(400, "invalid_request", "max_tokens is missing", "max_tokens")
    given: dict[str, Any] = {name: getattr(body, name) for name in ("temperature", "top_p", "top_k", "max_tokens")}
    given |= engine.thinking(body, omissions)
    wanted = body.output_format or (body.output_config or {}).get("format")
    given |= {"stop": body.stop_sequences, "grammar": grammar_of(wanted, "output_config.format", omissions)}
    turns, opening = split_opening(messages_of(body, omissions))
    settings = engine.settings(given)
    return engine.replies(turns, settings, opening=opening, tools=anthropic_tools(body, omissions))[0]


class CountTokens:
    """The endpoint that counts the tokens of a conversation, the chat template included."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        omissions = Omissions()
        body = read_request(await request.body(), MessagesRequest, omissions)
        self._engine.check_model(body.model)
        target, tools = self._engine.loaded.pair.target, anthropic_tools(body, omissions)
        count = protocol.Count(id=0, messages=messages_of(body, omissions), tools=tools, target=target)
        counted = await until_gone(request.receive, self._count(count))
        return json_response({"input_tokens": counted}, headers=omissions.headers)

    async def _count(self, count: protocol.Count) -> int:
        async with aclosing(self._engine.client.request(count)) as answers:
            async for answer in answers:
                if isinstance(answer, protocol.Counted):
                    return answer.tokens
                if isinstance(answer, protocol.Failed):
                    raise of_failure(answer)
        raise ApiError(500, "engine_error", "the engine could not count the tokens")


def messages_of(body: MessagesRequest, omissions: Omissions) -> tuple[protocol.Message, ...]:
    """Returns the turns as the host takes them. Raises ApiError for a last question with parts that are not text."""
    turns = Turns(omissions)
    blocks = (TextPart("text", body.system),) if isinstance(body.system, str) else body.system
    if system := text_of(
        tuple(one for one in blocks if not (one.text or "").startswith(_BILLING)), "system", omissions
    ):
        turns.add(protocol.Message(role="system", content=system))
    question = last_question(body.messages)
    for place, turn in enumerate(body.messages):
        parts = (TextPart("text", turn.content),) if isinstance(turn.content, str) else turn.content
        if turn.role == "assistant":
            turns.add(_assistant(parts, omissions))
            continue
        if turn.role == "system":
            turns.add(protocol.Message(role="system", content=text_of(parts, omissions=omissions)))
            continue
        results = [part for part in parts if isinstance(part, AnthropicPart) and part.type == "tool_result"]
        for part in results:
            turns.add_result(part.tool_use_id or "", part.content)
        rest = tuple(part for part in parts if part.type != "tool_result")
        if rest or not results:
            text = text_of(rest, omissions=None if place == question else omissions)
            turns.add(protocol.Message(role="user", content=text))
    return turns.all()


def _assistant(parts: tuple[TextPart, ...], omissions: Omissions) -> protocol.Message:
    """Returns a turn of the assistant: what it thought and said, and the calls that it asked for."""
    rich = [part for part in parts if isinstance(part, AnthropicPart)]
    calls = [call_of(part.id, part.name, part.input) for part in rich if part.type == "tool_use"]
    thought = "".join(str(part.thinking or "") for part in rich if part.type == "thinking")
    said = tuple(part for part in parts if part.type not in ("tool_use", "thinking", "redacted_thinking"))
    text = text_of(said, omissions=omissions)
    return protocol.Message(role="assistant", content=text, thought=thought, calls=tuple(calls))


def _tool_use(call: protocol.ToolCall) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}


def _named(name: str, **fields: Any) -> Event:
    return name, {"type": name, **fields}


def _usage(tally: Tally, least: int = 0) -> dict[str, int]:
    metrics = tally.metrics
    return {
        "input_tokens": metrics.prompt_tokens - metrics.reused_tokens,
        "cache_read_input_tokens": metrics.reused_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": max(metrics.tokens, least),
    }


def _ending(body: MessagesRequest, tally: Tally) -> dict[str, Any]:
    """Returns why the reply ended. Which of several stop sequences it was is not known, and null."""
    stopped = tally.reason == "stop"
    ended = {"length": "max_tokens", "tool_calls": "tool_use", "stop": "end_turn"}[tally.finish]
    reason = "stop_sequence" if stopped and not tally.calls else ended
    sequence = body.stop_sequences[0] if reason == "stop_sequence" and len(body.stop_sequences) == 1 else None
    return {"stop_reason": reason, "stop_sequence": sequence}
