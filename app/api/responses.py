"""`POST /v1/responses`, OpenAI's newer endpoint. Items of recent responses are remembered, in memory alone, so that
later requests may refer to them by their ids, as OpenAI's clients do (`recent_responses`).
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

from msgspec import to_builtins

from app import protocol
from app.api.api_errors import ApiError, Omissions
from app.api.endpoint import Choice, ReplyForm
from app.api.http_replies import Event
from app.api.recent_responses import RecentResponses
from app.api.reply_stream import Delta, Engine, Tally, measurements, origins
from app.api.request_schema import ResponseItem, ResponsesRequest, grammar_of, text_of
from app.api.tools import response_tools
from app.api.turns import Turns, call_of, last_question


class ResponseForm(ReplyForm):
    """The reply to a request. recent: what the request may refer to, and where its response is kept."""

    def __init__(self, recent: RecentResponses, engine: Engine, body: ResponsesRequest, omissions: Omissions) -> None:
        self._given = recent.items(body)
        self.replies = [_reply(engine, body, self._given, omissions)]
        self._recent, self._body, self._omissions = recent, body, omissions
        self._head = _head(engine, body)
        self._items = _Items((body.reasoning or {}).get("summary") is not None)
        self._number = 0  # of the next event

    def document(self, choices: list[Choice]) -> dict[str, Any]:
        tally = choices[0].tally
        for _ in chain(self._items.add(Delta(tally.answer, tally.thought, (), tuple(tally.calls))), self._items.end()):
            pass
        return self._complete(tally)

    def received(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        if not self._number:
            opening = {**self._head, "status": "in_progress", "output": [], "usage": None}
            for name in ("response.created", "response.in_progress"):
                yield self._numbered(_named(name, response=opening))
        yield from super().received(choice, delta)

    def added(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        yield from map(self._numbered, self._items.add(delta))

    def ended(self, choice: Choice) -> Iterator[Event]:
        yield from map(self._numbered, self._items.end())
        last = self._complete(choice.tally)
        yield self._numbered(_named(f"response.{last['status']}", response=last))

    def failed(self, error: ApiError) -> Event:
        return self._numbered(_named("error", code=error.code, message=error.message, param=error.param))

    def _numbered(self, event: Event) -> Event:
        name, value = event
        self._number += 1
        return name, {**value, "sequence_number": self._number - 1}

    def _complete(self, tally: Tally) -> dict[str, Any]:
        """Returns the response, which is kept for later requests unless the client does not want it."""
        output, metrics = self._items.output, tally.metrics
        if self._body.store is not False:
            self._recent.keep(self._head["id"], self._given, output)
        usage = {
            "input_tokens": metrics.prompt_tokens,
            "input_tokens_details": {"cached_tokens": metrics.reused_tokens},
            "output_tokens": metrics.tokens,
            "output_tokens_details": {"reasoning_tokens": tally.reasoning_tokens},
            "total_tokens": metrics.prompt_tokens + metrics.tokens,
        }
        short = tally.finish == "length"
        ending = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}} if short else {}
        more = {**measurements(tally, self._omissions), "redline": origins(tally.emitted)}
        return {**self._head, "status": "completed", **ending, "output": output, "usage": usage, **more}


def _head(engine: Engine, body: ResponsesRequest) -> dict[str, Any]:
    """Returns what is known of a response before it begins."""
    return {
        "id": f"resp_{secrets.token_hex(12)}",
        "object": "response",
        "created_at": engine.now(),
        "model": engine.loaded.target,
        "instructions": body.instructions,
        "temperature": body.temperature,
        "top_p": body.top_p,
        "max_output_tokens": body.max_output_tokens,
        "error": None,
        "incomplete_details": None,
        "metadata": {},
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "previous_response_id": body.previous_response_id,
        "reasoning": body.reasoning or {"effort": None, "summary": None},
        "store": body.store is not False,
        "tool_choice": body.tool_choice or "auto",
        "tools": [to_builtins(tool) for tool in body.tools or ()],
        "text": body.text or {"format": {"type": "text"}},
    }


def _reply(
    engine: Engine, body: ResponsesRequest, given: Sequence[ResponseItem], omissions: Omissions
) -> protocol.Reply:
    """Returns the request for the host. Raises ApiError."""
    engine.check_model(body.model)
    grammar = grammar_of((body.text or {}).get("format"), "text.format", omissions)
    values = {"temperature": body.temperature, "top_p": body.top_p, "max_tokens": body.max_output_tokens}
    values |= engine.thinking(body, omissions)
    settings = engine.settings({**values, "grammar": grammar})
    turns = messages_of(body.instructions, given, omissions)
    return engine.replies(turns, settings, tools=response_tools(body, omissions))[0]


class _Items:
    """The items of a response and their events: one for each stretch of thought or answer, and for each call.

    summarizes: whether thoughts are given as their summary, which is where most clients look for them. output: the
    items that are complete.
    """

    def __init__(self, summarizes: bool) -> None:
        self.output: list[dict[str, Any]] = []
        self._shapes = {"message": _MESSAGE, "reasoning": _SUMMARY if summarizes else _REASONING}
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
            shape = self._shapes[kind]
            yield _named(f"{shape.text_event}.delta", **self._place, delta=text, **more, redline=origins(delta.tokens))
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
        return {"item_id": self._id, "output_index": len(self.output), self._shapes[self._kind].number: 0}

    def _open(self, kind: str) -> Iterator[Event]:
        self._kind, self._text = kind, ""
        self._id = f"{'msg' if kind == 'message' else 'rs'}_{secrets.token_hex(12)}"
        shape = self._shapes[kind]
        yield _named("response.output_item.added", output_index=len(self.output), item=shape.item(self._id, None))
        yield _named(f"{shape.part_event}.added", **self._place, part=shape.content(""))

    def _close(self) -> Iterator[Event]:
        if not self._kind:
            return
        kind, shape = self._kind, self._shapes[self._kind]
        more: dict[str, Any] = {"logprobs": []} if kind == "message" else {}
        yield _named(f"{shape.text_event}.done", **self._place, text=self._text, **more)
        yield _named(f"{shape.part_event}.done", **self._place, part=shape.content(self._text))
        item, self._kind = shape.item(self._id, self._text), ""
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


def messages_of(
    instructions: str | None, items: Sequence[ResponseItem], omissions: Omissions
) -> tuple[protocol.Message, ...]:
    """Returns the conversation as the host takes it. Items of tools that only another server has are left out. Raises
    ApiError for a last question with parts that are not text."""
    turns, thought = Turns(omissions), ""
    if instructions:
        turns.add(protocol.Message(role="system", content=instructions))
    question = last_question(items)
    for place, item in enumerate(items):
        if item.type == "reasoning":
            thought = text_of(item.content, "input", omissions) or text_of(item.summary, "input", omissions)
        elif item.type in _CALLS:
            turns.add_call(call_of(item.call_id, item.name or item.type, _CALLS[item.type](item)), thought)
            thought = ""
        elif item.type in _RESULTS:
            turns.add_result(item.call_id or "", item.output)
        elif item.type == "message" and item.role is not None:
            role = "system" if item.role == "developer" else item.role
            text = text_of(item.content, "input", None if place == question else omissions)
            turns.add(protocol.Message(role=role, content=text, thought=thought))
            thought = ""
        else:
            omissions.add("input", f"an item of type {item.type[:40]!r}")
    return turns.all()


_CALLS: dict[str, Callable[[ResponseItem], Any]] = {  # what the arguments of a call are, by the type of the item
    "function_call": lambda item: item.arguments,
    "custom_tool_call": lambda item: {"input": item.input},
    "local_shell_call": lambda item: item.action,
}
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


def _named(event: str, /, **fields: Any) -> Event:
    return event, {"type": event, **fields}


class _Shape(NamedTuple):
    """How an item and its events look. item: its type, fields, and the list that its text is in. part: its text, with
    the field `text`. text_event, part_event: what the names of the events begin with. number: the field that says which
    part of the item it is."""

    fields: dict[str, Any]
    parts: str
    part: dict[str, Any]
    text_event: str
    part_event: str
    number: str

    def content(self, text: str) -> dict[str, Any]:
        return {**self.part, "text": text}

    def item(self, item: str, text: str | None) -> dict[str, Any]:
        """Returns an item, which is open while it has no text."""
        told = {**self.fields, "id": item, self.parts: [] if text is None else [self.content(text)]}
        if "status" in told and text is not None:
            told["status"] = "completed"
        return told


_MESSAGE = _Shape(
    {"type": "message", "role": "assistant", "status": "in_progress"},
    "content",
    {"type": "output_text", "annotations": [], "logprobs": []},
    "response.output_text",
    "response.content_part",
    "content_index",
)
_REASONING = _Shape(
    {"type": "reasoning", "summary": []},
    "content",
    {"type": "reasoning_text"},
    "response.reasoning_text",
    "response.content_part",
    "content_index",
)
_SUMMARY = _Shape(
    {"type": "reasoning"},
    "summary",
    {"type": "summary_text"},
    "response.reasoning_summary_text",
    "response.reasoning_summary_part",
    "summary_index",
)
