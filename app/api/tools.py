"""Tools in requests of the three protocols, as the host takes them: what is offered, and which must be called.

The host offers them to the model (`app.host.reply_tools`) through its chat template (`models.tokenizer_worker.render`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import structs

from app import protocol
from app.api.api_errors import ApiError, unsupported
from app.api.request_schema import (
    AnthropicTool,
    CalledTool,
    ChatRequest,
    FunctionTool,
    MessagesRequest,
    ResponsesRequest,
    TextPart,
    text_of,
)
from models.tool_parsers import NAME

_KINDS = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def chat_tools(body: ChatRequest) -> protocol.Tools | None:
    """Returns the tools of a request to /v1/chat/completions. Raises ApiError."""
    offered = []
    for tool in body.tools or ():
        if tool.type != "function" or tool.function is None:
            raise unsupported("tools", f"only function tools are supported, not {tool.type[:40]!r}")
        offered.append(_tool(tool.function))
    choice = body.tool_choice
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        choice = {**choice, "name": choice["function"].get("name")}
    return _tools(offered, choice, body.parallel_tool_calls, body.response_format)


def response_tools(body: ResponsesRequest) -> protocol.Tools | None:
    """Returns the tools of a request to /v1/responses. Raises ApiError."""
    offered = []
    for tool in body.tools or ():
        if tool.type != "function":
            raise unsupported("tools", f"only function tools are supported, not {tool.type[:40]!r}")
        offered.append(_tool(tool))
    return _tools(offered, body.tool_choice, body.parallel_tool_calls, (body.text or {}).get("format"))


def anthropic_tools(body: MessagesRequest) -> protocol.Tools | None:
    """Returns the tools of a request to /v1/messages. Raises ApiError."""
    for tool in body.tools or ():
        if tool.type not in (None, "custom"):
            raise unsupported("tools", f"only tools that the client defines are supported, not {tool.type[:40]!r}")
    choice = body.tool_choice
    single = isinstance(choice, Mapping) and bool(choice.get("disable_parallel_tool_use"))
    return _tools([_anthropic_tool(tool) for tool in body.tools or ()], choice, not single, None)


def _tools(
    offered: Sequence[protocol.Tool], choice: Any, several: bool | None, format_: Mapping[str, Any] | None
) -> protocol.Tools | None:
    """Returns what is offered under a choice, None where nothing is or may be called. Raises ApiError."""
    kind, named = _choice(choice)
    if not offered:
        if kind in ("required", "named"):
            raise ApiError(400, "invalid_value", "tool_choice asks for a call, but no tools were given", "tool_choice")
        return None
    if len({tool.name for tool in offered}) < len(offered):
        raise ApiError(400, "invalid_value", "two tools have the same name", "tools")
    if kind == "none":
        return None
    if (format_ or {}).get("type", "text") != "text":
        raise unsupported("response_format", "tools and response_format cannot be combined: leave one of them out")
    required = kind != "auto"
    return protocol.Tools(offered=tuple(offered), required=required, named=named, several=several is not False)


def _choice(choice: Any) -> tuple[str, str]:
    """Returns what a tool_choice asks for, and the tool that it names. Raises ApiError."""
    if choice is None:
        return "auto", ""
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    name = choice.get("name") if isinstance(choice, Mapping) else None
    if kind in ("function", "tool") and isinstance(name, str) and name:
        return "named", name
    if not isinstance(kind, str) or kind not in _KINDS:
        raise unsupported("tool_choice", "choices are auto, none, required (any), and a tool by its name")
    return _KINDS[kind], ""


def _tool(tool: FunctionTool) -> protocol.Tool:
    return _checked(tool.name, tool.description, tool.parameters, tool.strict)


def _anthropic_tool(tool: AnthropicTool) -> protocol.Tool:
    return _checked(tool.name, tool.description, tool.input_schema, tool.strict)


def _checked(
    name: str, description: str | None, schema: Mapping[str, Any] | None, strict: bool | None
) -> protocol.Tool:
    if not NAME.fullmatch(name):
        raise ApiError(400, "invalid_value", "a tool's name may contain only letters, digits, _, . and -", "tools")
    given = {} if schema is None else {"parameters": msgspec.json.encode(schema).decode()}
    return protocol.Tool(name=name, description=description or "", strict=strict is True, **given)


# --- calls and results in the conversation --------------------------------------------------------------


class Turns:
    """Collects the turns of a conversation. A call belongs to the assistant's turn before it, a result to a call."""

    def __init__(self) -> None:
        self._turns: list[protocol.Message] = []
        self._names: dict[str, str] = {}  # of the tools that were called, by the ids of the calls

    def add(self, turn: protocol.Message) -> None:
        self._turns.append(turn)
        self._names |= {call.id: call.name for call in turn.calls}

    def add_call(self, call: protocol.ToolCall, thought: str = "") -> None:
        """Adds a call to the assistant's turn, which begins with it if there is none. thought: before the call."""
        last = self._turns.pop() if self._turns and self._turns[-1].role == "assistant" else None
        turn = last or protocol.Message(role="assistant", content="", thought=thought)
        self.add(structs.replace(turn, calls=(*turn.calls, call)))

    def add_result(self, call_id: str, content: str | Iterable[TextPart] | None) -> None:
        """Adds what a call has given. Raises ApiError for one that was not asked for before."""
        if call_id not in self._names:
            message = (
                f"there is no call {call_id[:40]!r} before its result: send the assistant's turn with the call too"
            )
            raise ApiError(400, "invalid_value", message, "messages")
        text = text_of(content if content is None or isinstance(content, str) else tuple(content))
        self.add(protocol.Message(role="tool", content=text, call_id=call_id, name=self._names[call_id]))

    def all(self) -> tuple[protocol.Message, ...]:
        return tuple(self._turns)


def call_of(number: str, name: str, arguments: str | Mapping[str, Any]) -> protocol.ToolCall:
    """Returns a call of the conversation. Raises ApiError where its arguments are not a JSON object."""
    if not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    try:
        found = msgspec.json.decode(arguments or "{}")
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise ApiError(400, "invalid_value", "the arguments of a call are not a JSON object", "messages")
    return protocol.ToolCall(id=number, name=name, arguments=arguments or "{}")


def chat_calls(called: Iterable[CalledTool]) -> tuple[protocol.ToolCall, ...]:
    """Returns the calls of an assistant's turn on /v1/chat/completions. Raises ApiError."""
    return tuple(call_of(one.id, one.function.name, one.function.arguments) for one in called)
