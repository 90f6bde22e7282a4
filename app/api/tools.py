"""Tools in requests of the three protocols, as the host takes them: what is offered, and which must be called. Tools
that only another server has, such as web search, are left out.

The host offers them to the model (`app.host.reply_tools`) through its chat template (`models.tokenizer_worker.render`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from app import protocol
from app.api.api_errors import ApiError, Omissions, unsupported
from app.api.request_schema import AnthropicTool, ChatRequest, FunctionTool, MessagesRequest, ResponsesRequest
from models.json_schemas import enforceable
from models.tool_formats import NAME

_KINDS = {"auto": "auto", "none": "none", "required": "required", "any": "required"}


def chat_tools(body: ChatRequest, omissions: Omissions) -> protocol.Tools | None:
    """Returns the tools of a request to /v1/chat/completions. Raises ApiError."""
    functions, foreign = [], []
    for tool in body.tools or ():
        if tool.type == "function" and tool.function is not None:
            functions.append(_tool(tool.function))
        else:
            foreign.append(tool.type)
    choice = body.tool_choice
    if isinstance(choice, Mapping) and isinstance(choice.get("function"), Mapping):
        choice = {**choice, "name": choice["function"].get("name")}
    return _tools(functions, foreign, choice, body.parallel_tool_calls, omissions)


def response_tools(body: ResponsesRequest, omissions: Omissions) -> protocol.Tools | None:
    """Returns the tools of a request to /v1/responses. Raises ApiError."""
    tools = body.tools or ()
    functions = [_tool(tool) for tool in tools if tool.type == "function"]
    foreign = [tool.type for tool in tools if tool.type != "function"]
    return _tools(functions, foreign, body.tool_choice, body.parallel_tool_calls, omissions)


def anthropic_tools(body: MessagesRequest, omissions: Omissions) -> protocol.Tools | None:
    """Returns the tools of a request to /v1/messages. Raises ApiError."""
    tools = body.tools or ()
    functions = [_tool(tool) for tool in tools if tool.type in (None, "custom")]
    foreign = [tool.type for tool in tools if tool.type not in (None, "custom")]
    names = [tool.name for tool in tools if tool.type not in (None, "custom")]
    choice = body.tool_choice
    single = isinstance(choice, Mapping) and bool(choice.get("disable_parallel_tool_use"))
    return _tools(functions, [*foreign, *names], choice, not single, omissions)


def _tools(
    offered: list[protocol.Tool], foreign: Sequence[str], choice: Any, several: bool | None, omissions: Omissions
) -> protocol.Tools | None:
    """Returns what may be called under a choice, None where nothing may. Raises ApiError.

    offered: the tools that the client runs. foreign: the types and names of those that it expects the server to have.
    """
    for one in foreign:
        omissions.add("tools", f"{one[:40]!r} is a tool of another server")
    if isinstance(choice, Mapping) and choice.get("type") == "allowed_tools":
        listed = choice.get("allowed_tools")
        allowed = listed if isinstance(listed, Mapping) else choice
        names = {_name_of(tool) for tool in allowed.get("tools") or ()}
        offered, choice = [tool for tool in offered if tool.name in names], allowed.get("mode", "auto")
        if not offered:
            raise ApiError(400, "invalid_value", "tool_choice allows none of the tools", "tool_choice")
    kind, named = _choice(choice, foreign)
    if not offered:
        if kind in ("required", "named"):
            raise ApiError(400, "invalid_value", "tool_choice asks for a call, but no tools were given", "tool_choice")
        return None
    if len({tool.name for tool in offered}) < len(offered):
        raise ApiError(400, "invalid_value", "two tools have the same name", "tools")
    if kind == "none":
        return None
    required = kind != "auto"
    for tool in offered:
        if required or tool.strict:
            for word in enforceable(msgspec.json.decode(tool.parameters))[1]:
                omissions.add(f"tools: {tool.name}", f"{word} is not enforced")
    return protocol.Tools(offered=tuple(offered), required=required, named=named, several=several is not False)


def _name_of(tool: Any) -> Any:
    """Returns the name of a tool that a tool_choice allows."""
    named = tool.get("function", tool) if isinstance(tool, Mapping) else {}
    return named.get("name") if isinstance(named, Mapping) else None


def _choice(choice: Any, foreign: Sequence[str]) -> tuple[str, str]:
    """Returns what a tool_choice asks for, and the tool that it names. Raises ApiError."""
    if choice is None:
        return "auto", ""
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    name = choice.get("name") if isinstance(choice, Mapping) else None
    if kind in foreign or (kind in ("custom", "tool") and name in foreign):
        raise unsupported("tool_choice", f"{str(name or kind)[:40]!r} is a tool of another server")
    if kind in ("function", "tool") and isinstance(name, str) and name:
        return "named", name
    if not isinstance(kind, str) or kind not in _KINDS:
        raise unsupported("tool_choice", "choices are auto, none, required (any), and a tool by its name")
    return _KINDS[kind], ""


def _tool(tool: FunctionTool | AnthropicTool) -> protocol.Tool:
    """Returns a tool as the host takes it. Raises ApiError for a name that a model could not write."""
    if not NAME.fullmatch(tool.name):
        allowed = "letters, digits and the signs _ . : / @ -"
        raise ApiError(400, "invalid_value", f"the tool {tool.name[:40]!r}: a name may contain only {allowed}", "tools")
    given = {} if tool.parameters is None else {"parameters": msgspec.json.encode(tool.parameters).decode()}
    return protocol.Tool(name=tool.name, description=tool.description or "", strict=tool.strict is True, **given)
