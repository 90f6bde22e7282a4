"""The requests of the API as records: what is read of them, and its bounds; and the grammar that a format of the reply
asks for. `request_reading` makes the records."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from app.api.api_errors import ApiError, Omissions, unsupported
from app.api.thinking_fields import ThinkingFields
from engine.settings import LARGEST_SEED, Grammar
from models.json_schemas import enforceable

Name = Annotated[str, Meta(max_length=200)]
Count = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Replies = Annotated[int, Meta(ge=1, le=8)]
Seed = Annotated[int, Meta(ge=0, le=LARGEST_SEED)]
StopText = Annotated[str, Meta(min_length=1, max_length=256)]
Stops = Annotated[tuple[StopText, ...], Meta(max_length=16)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]

MOST_TOOLS = 1024
ToolName = Annotated[str, Meta(max_length=256)]
CallId = Annotated[str, Meta(max_length=4096)]
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


class AnthropicTool(msgspec.Struct, frozen=True, rename={"parameters": "input_schema"}):
    """A tool as /v1/messages has it."""

    name: ToolName = ""
    description: str | None = None
    parameters: Schema | None = None
    strict: bool | None = None
    type: Name | None = None


class CalledFunction(msgspec.Struct, frozen=True):
    """arguments: a JSON object as text; whatever else a model wrote, or a client made of it, is taken too."""

    name: ToolName | None = None
    arguments: Any = None


class CustomCall(msgspec.Struct, frozen=True):
    """A call of a tool that takes any text."""

    name: ToolName | None = None
    input: Any = None


class CalledTool(msgspec.Struct, frozen=True):
    """A call that the assistant asked for."""

    id: CallId | None = None
    function: CalledFunction | None = None
    custom: CustomCall | None = None


class TextPart(msgspec.Struct, frozen=True):
    """A part of a message. `text_of` says what becomes of a part that is not text."""

    type: Name
    text: str | None = None
    refusal: str | None = None
    source: Mapping[str, Any] | None = None


Parts = Annotated[tuple[TextPart, ...], Meta(max_length=4096)]


class ChatMessage(msgspec.Struct, frozen=True):
    """One turn. content: text, or parts. reasoning_content, reasoning: what the assistant thought."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | Parts | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: Annotated[tuple[CalledTool, ...], Meta(max_length=MOST_TOOLS)] | None = None
    tool_call_id: CallId | None = None


class StreamOptions(msgspec.Struct, frozen=True):
    include_usage: bool = False


class SamplingFields(ThinkingFields, frozen=True, kw_only=True):
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

    messages: Annotated[tuple[ChatMessage, ...], Meta(min_length=1, max_length=4096)]
    max_completion_tokens: Count | None = None
    continue_final_message: bool | None = None
    add_generation_prompt: bool | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    return_progress: bool | None = None
    prediction: Prediction | None = None
    response_format: Mapping[str, Any] | None = None
    tools: Annotated[tuple[ChatTool, ...], Meta(max_length=MOST_TOOLS)] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None


PromptText = Annotated[str, Meta(min_length=1)]


class CompletionRequest(SamplingFields, frozen=True, kw_only=True):
    """`POST /v1/completions`. prompt: a text, or several, each of which is continued. logprobs: any number gives the
    chosen tokens' alone."""

    prompt: PromptText | Annotated[tuple[PromptText | int | tuple[int, ...], ...], Meta(min_length=1, max_length=64)]
    logprobs: Annotated[int, Meta(ge=0, le=5)] | None = None
    response_format: Mapping[str, Any] | None = None


class AnthropicPart(TextPart, frozen=True):
    """A part of a turn: text, what the assistant thought, a call (id, name, input), or its result (tool_use_id,
    content)."""

    thinking: Any = None
    id: CallId | None = None
    name: ToolName | None = None
    input: Any = None
    tool_use_id: CallId | None = None
    content: str | Parts | Mapping[str, Any] | None = None


class AnthropicMessage(msgspec.Struct, frozen=True):
    """A turn. Claude Code sends system turns in the middle of a conversation."""

    role: Literal["system", "user", "assistant"]
    content: str | Annotated[tuple[AnthropicPart, ...], Meta(max_length=4096)]


class MessagesRequest(ThinkingFields, frozen=True, kw_only=True):
    """`POST /v1/messages` and `/v1/messages/count_tokens` of Anthropic. output_format: the beta's name of
    output_config.format."""

    model: Name
    messages: Annotated[tuple[AnthropicMessage, ...], Meta(min_length=1, max_length=4096)]
    max_tokens: Count | None = None
    system: str | Parts = ""
    stop_sequences: Stops = ()
    stream: bool = False
    temperature: Fraction | None = None
    top_p: Fraction | None = None
    top_k: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None
    output_format: Mapping[str, Any] | None = None
    tools: Annotated[tuple[AnthropicTool, ...], Meta(max_length=MOST_TOOLS)] | None = None
    tool_choice: Mapping[str, Any] | None = None


class ResponseItem(msgspec.Struct, frozen=True):
    """An item of a Responses input: a message, what was thought, a call (call_id, name, arguments; input of a tool that
    takes any text; action of a shell), its result (call_id, output), or the id of an item of a recent response."""

    role: Literal["system", "developer", "user", "assistant"] | None = None
    content: str | Parts | None = None
    type: Name = "message"
    id: CallId | None = None
    call_id: CallId | None = None
    name: ToolName | None = None
    arguments: Any = None
    input: Any = None
    action: Any = None
    summary: Parts | None = None
    output: str | Parts | Mapping[str, Any] | None = None


class ResponsesRequest(ThinkingFields, frozen=True, kw_only=True):
    """`POST /v1/responses`. store: whether later requests may refer to the items of the response."""

    model: Name | None = None
    input: str | Annotated[tuple[ResponseItem, ...], Meta(max_length=8192)] = ()
    previous_response_id: CallId | None = None
    store: bool | None = None
    instructions: str | None = None
    max_output_tokens: Count | None = None
    stream: bool | None = None
    temperature: Annotated[float, Meta(ge=0, le=2)] | None = None
    top_p: Fraction | None = None
    text: Mapping[str, Any] | None = None
    tools: Annotated[tuple[FunctionTool, ...], Meta(max_length=MOST_TOOLS)] | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None


def grammar_of(wanted: Mapping[str, Any] | None, param: str, omissions: Omissions) -> Grammar | None:
    """Returns the grammar that a format of the reply asks for, None for text; words of its schema that no grammar can
    enforce are left out. Raises ApiError for another format.

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
    for word in enforceable(schema)[1]:
        omissions.add(param, f"{word} is not enforced")
    return Grammar("json_schema", msgspec.json.encode(schema).decode())


def text_of(
    content: str | tuple[TextPart, ...] | None, param: str = "messages", omissions: Omissions | None = None
) -> str:
    """Returns the text of a message, with a note in the place of each part that is not text, such as an image. Raises
    ApiError for such a part where no `omissions` are given."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(_part_text(part, param, omissions) for part in content)


_TEXTS = ("text", "input_text", "output_text", "reasoning_text", "summary_text", "refusal")


def _part_text(part: TextPart, param: str, omissions: Omissions | None) -> str:
    if part.type in _TEXTS:
        return part.text or part.refusal or ""
    source = part.source or {}
    if source.get("type") == "text" and isinstance(source.get("data"), str):  # a document, as Anthropic has it
        return str(source["data"])
    if omissions is None:
        message = f"the model reads only text, but {param} has a part of type {part.type[:40]!r}"
        raise ApiError(400, "unsupported_parameter", message, param)
    omissions.add(param, f"a part of type {part.type[:40]!r}, which is no text")
    return f"[{part.type[:40]}]"
