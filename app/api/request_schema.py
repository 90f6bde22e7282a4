"""The requests of the API as records: what is read of them, its bounds, and what is refused by name.

Fields that change nothing about the reply (`user`, `metadata`, `store` and the like) are ignored. Fields that would
change it and that Redline does not have are refused, because to ignore them would silently give another reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from app.api.api_errors import ApiError, unsupported
from engine.settings import LARGEST_SEED, Grammar

Name = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Replies = Annotated[int, Meta(ge=1, le=8)]
Seed = Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
StopText = Annotated[str, Meta(min_length=1, max_length=256)]
Stops = Annotated[tuple[StopText, ...], Meta(max_length=16)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]

_TEMPLATES = "the model's own chat template is used"
_GRAMMARS = "ask for structured output with response_format"
# What each endpoint refuses, and why. A value that asks for nothing (null, false, [] or {}) is let through.
REFUSED = {
    "chat_template": _TEMPLATES,
    "chat_template_kwargs": _TEMPLATES,
    "add_generation_prompt": _TEMPLATES,
    "documents": _TEMPLATES,
    "grammar": _GRAMMARS,
    "json_schema": _GRAMMARS,
    "guided_json": _GRAMMARS,
    "guided_regex": _GRAMMARS,
    "guided_choice": _GRAMMARS,
    "guided_grammar": _GRAMMARS,
    "structured_outputs": _GRAMMARS,
    "functions": "give them as tools",
    "function_call": "give it as tool_choice",
    "audio": "replies are text",
    "suffix": "the model continues text and does not fill gaps",
    "best_of": "ask for n replies instead",
    "echo": "the prompt is not repeated",
    "n_discard": "the context is never shifted",
    "previous_response_id": "responses are not kept: send the whole conversation",
    "conversation": "conversations are not kept: send the whole conversation",
    "background": "the reply is sent while the client waits",
    "mcp_servers": "Redline does not connect to other servers",
}

T = TypeVar("T", bound=msgspec.Struct)


ToolName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]{1,128}$")]
CallId = Annotated[str, Meta(min_length=1, max_length=200)]
Schema = Mapping[str, Any]


class FunctionTool(msgspec.Struct, frozen=True):
    """A tool of the client's. parameters: the JSON Schema of its arguments, which `strict` has them follow. type: as
    /v1/responses has it."""

    name: ToolName = ""
    description: str | None = None
    parameters: Schema | None = None
    strict: bool | None = None
    type: Name = "function"


class ChatTool(msgspec.Struct, frozen=True):
    """A tool as /v1/chat/completions has it."""

    type: Name
    function: FunctionTool | None = None


class AnthropicTool(msgspec.Struct, frozen=True):
    """A tool as /v1/messages has it."""

    name: ToolName
    description: str | None = None
    input_schema: Schema | None = None
    strict: bool | None = None
    type: Name | None = None


class CalledFunction(msgspec.Struct, frozen=True):
    name: ToolName
    arguments: str = ""


class CalledTool(msgspec.Struct, frozen=True):
    """A call that the assistant asked for. arguments: a JSON object as text."""

    id: CallId
    function: CalledFunction


class TextPart(msgspec.Struct, frozen=True):
    """A part of a message. type: only text is read."""

    type: Name
    text: str = ""


Parts = Annotated[tuple[TextPart, ...], Meta(max_length=1024)]


class ChatMessage(msgspec.Struct, frozen=True):
    """One turn. content: text, or parts that are texts. reasoning_content: what the assistant thought."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Parts | None = None
    reasoning_content: str | None = None
    tool_calls: Annotated[tuple[CalledTool, ...], Meta(max_length=128)] | None = None
    tool_call_id: CallId | None = None


Turns = Annotated[tuple[ChatMessage, ...], Meta(min_length=1, max_length=4096)]


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class SamplingFields(msgspec.Struct, frozen=True, kw_only=True):
    """What endpoints share. A value that is not given is the model's own, else neutral; see SamplingSettings."""

    model: Name | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    min_p: Fraction | None = None
    repetition_penalty: Annotated[float, Meta(gt=0, le=2)] | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: Mapping[str, Annotated[float, Meta(ge=-100, le=100)]] | None = None
    seed: Seed | None = None
    max_tokens: Count | None = None
    stop: StopText | Stops | None = None
    n: Replies | None = None
    stream_options: StreamOptions | None = None


class Prediction(msgspec.Struct, frozen=True):
    """A text that the reply is expected to repeat in large part."""

    type: Literal["content"]
    content: str | Parts


class ChatRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/chat/completions`."""

    messages: Turns
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    reasoning_effort: Name | None = None
    prediction: Prediction | None = None
    response_format: Mapping[str, Any] | None = None
    tools: Annotated[tuple[ChatTool, ...], Meta(max_length=128)] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None


class CompletionRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/completions`. logprobs: any number gives the chosen tokens' alone."""

    prompt: Annotated[str, Meta(min_length=1)]
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    response_format: Mapping[str, Any] | None = None


class AnthropicPart(TextPart, frozen=True):
    """A part of a turn: text, what the assistant thought, a call (id, name, input), or its result (tool_use_id,
    content)."""

    thinking: str = ""
    id: CallId | None = None
    name: ToolName | None = None
    input: Mapping[str, Any] = {}
    tool_use_id: CallId | None = None
    content: str | Parts | None = None


class AnthropicMessage(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str | Annotated[tuple[AnthropicPart, ...], Meta(max_length=1024)]


class MessagesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/messages` and `/v1/messages/count_tokens` of Anthropic."""

    model: Name
    messages: Annotated[tuple[AnthropicMessage, ...], Meta(min_length=1, max_length=4096)]
    max_tokens: Count | None = None
    system: str | Parts = ""
    stop_sequences: Stops = ()
    stream: bool = False
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    thinking: Mapping[str, Any] | None = None
    tools: Annotated[tuple[AnthropicTool, ...], Meta(max_length=128)] | None = None
    tool_choice: Mapping[str, Any] | None = None


class ResponseItem(msgspec.Struct, frozen=True):
    """An item of a Responses input: a message, what was thought, a call (call_id, name, arguments), or its result
    (call_id, output)."""

    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | Parts | None = None
    type: Name = "message"
    call_id: CallId | None = None
    name: ToolName | None = None
    arguments: str = ""
    output: str | Parts | None = None


class ResponsesRequest(msgspec.Struct, frozen=True, kw_only=True):
    """`POST /v1/responses`."""

    model: Name | None = None
    input: str | Annotated[tuple[ResponseItem, ...], Meta(min_length=1, max_length=4096)]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    reasoning: Mapping[str, Any] | None = None
    text: Mapping[str, Any] | None = None
    tools: Annotated[tuple[FunctionTool, ...], Meta(max_length=128)] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None


def read_request(body: bytes, kind: type[T]) -> T:
    """Returns the request in a body. Raises ApiError for what is no such request, and for fields of REFUSED."""
    try:
        fields = msgspec.json.decode(body)
        if not isinstance(fields, dict):
            raise msgspec.ValidationError("the body must be a JSON object")
        for name, why in REFUSED.items():
            if fields.get(name) not in (None, False, [], {}) and name not in kind.__struct_fields__:
                raise unsupported(name, why)
        request = msgspec.convert(fields, kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        message = str(error).encode(errors="replace").decode()
        raise ApiError(400, "invalid_request", f"the request cannot be read: {message}") from error
    return request


def grammar_of(wanted: Mapping[str, Any] | None, param: str) -> Grammar | None:
    """Returns the grammar that a format of the reply asks for, None for text. Raises ApiError for another format.

    wanted: `{"type": "json_object"}`, with a `schema` as llama.cpp has it or without, or `{"type": "json_schema"}` with
    the schema as `schema`, within `json_schema` on /v1/chat/completions. Whether it can be used is for the host to say.
    """
    kind = "text" if wanted is None else wanted.get("type", "text")
    if wanted is None or kind == "text":
        return None
    if kind == "json_object" and wanted.get("schema") is None:
        return Grammar("json_schema", '{"type": "object"}')
    if kind not in ("json_schema", "json_object"):
        raise unsupported(param, "formats are text, json_object and json_schema")
    within = wanted.get("json_schema", wanted)
    schema = within.get("schema") if isinstance(within, Mapping) else None
    if not isinstance(schema, Mapping):
        raise ApiError(400, "invalid_value", f"{param}: give the JSON Schema as an object named schema", param)
    return Grammar("json_schema", msgspec.json.encode(schema).decode())


def text_of(content: str | tuple[TextPart, ...] | None, param: str = "messages") -> str:
    """Returns the text of a message. Raises ApiError for parts that are no text."""
    if content is None or isinstance(content, str):
        return content or ""
    for part in content:
        if part.type not in ("text", "input_text", "output_text", "reasoning_text"):
            raise unsupported(param, f"the model reads only text, but one part is of type {part.type[:40]!r}")
    return "".join(part.text for part in content)
