"""`POST /v1/chat/completions`, OpenAI's chat."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from app import protocol
from app.api.api_errors import ApiError, Omissions, unsupported
from app.api.endpoint import Choice, ReplyForm, stream_end, usage
from app.api.http_replies import Event
from app.api.reply_stream import Delta, Engine, Token, measurements, origins
from app.api.request_schema import ChatMessage, ChatRequest, grammar_of, text_of
from app.api.tools import chat_tools
from app.api.turns import Turns, chat_calls, last_question, split_opening
from engine.events import PromptProgress

Role = Literal["system", "user", "assistant"]
SMALLEST_LOGPROB = -9999.0  # what OpenAI gives for a token of no probability
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class ChatForm(ReplyForm):
    """The replies to a request: n at once, with the seeds seed, seed + 1, ..."""

    def __init__(self, engine: Engine, body: ChatRequest, omissions: Omissions) -> None:
        self.replies = _replies(engine, body, omissions)
        self._body, self._omissions = body, omissions
        kind = "chat.completion.chunk" if body.stream else "chat.completion"
        self._head = {**engine.head("chatcmpl"), "object": kind}
        self._begun = set[int]()  # the replies of which something has been told

    def document(self, choices: list[Choice]) -> dict[str, Any]:
        told = [_choice(one, bool(self._body.logprobs)) for one in choices]
        counts = {"usage": usage(choices, self._body.n), **measurements(choices[0].tally, self._omissions)}
        return {**self._head, "choices": told, **counts}

    def received(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        if delta.progress is not None and self._body.return_progress:
            yield "", {**self._head, **_progress(delta.progress)}
        else:
            yield from super().received(choice, delta)

    def added(self, choice: Choice, delta: Delta) -> Iterator[Event]:
        fields: dict[str, Any] = {} if choice.index in self._begun else {"role": "assistant"}
        self._begun.add(choice.index)
        first = len(choice.tally.calls) - len(delta.calls)
        calls = [{"index": i, **_call(call)} for i, call in enumerate(delta.calls, first)]
        fields |= {"tool_calls": calls} if calls else _texts(delta)
        added: dict[str, Any] = {"index": choice.index, "delta": fields, "finish_reason": None}
        if self._body.logprobs:
            added["logprobs"] = _logprobs(delta.tokens)
        yield "", {**self._head, "choices": [added], "redline": origins(delta.tokens)}

    def ended(self, choice: Choice) -> Iterator[Event]:
        last = {"index": choice.index, "delta": {}, "finish_reason": choice.tally.finish}
        more = {**measurements(choice.tally, self._omissions), "redline": {"seed": choice.tally.seed}}
        yield "", {**self._head, "choices": [last], **more}

    def finished(self, choices: list[Choice]) -> Iterator[Event]:
        return stream_end(self._head, self._body, choices)


def _replies(engine: Engine, body: ChatRequest, omissions: Omissions) -> list[protocol.Reply]:
    """Returns the requests for the host. Raises ApiError."""
    engine.check_model(body.model)
    if body.top_logprobs:
        raise unsupported("top_logprobs", "only the chosen token's probability is available: use logprobs")
    grammar = grammar_of(body.response_format, "response_format", omissions)
    settings = engine.settings_of(body, omissions, grammar=grammar, max_tokens=body.max_completion_tokens)
    prediction = "" if body.prediction is None else text_of(body.prediction.content, "prediction")
    fields: dict[str, Any] = {"prediction": prediction, "tools": chat_tools(body, omissions)}
    turns = messages_of(body.messages, omissions)
    if body.continue_final_message or body.add_generation_prompt is False:
        turns, fields["opening"] = split_opening(turns)
        if not fields["opening"]:
            where = "continue_final_message"
            message = f"{where}: the last message is not text written by the assistant"
            raise ApiError(400, "invalid_value", message, where)
    return engine.replies(turns, settings, body.n or 1, **fields)


def messages_of(turns: Sequence[ChatMessage], omissions: Omissions) -> tuple[protocol.Message, ...]:
    """Returns the turns as the host takes them. Raises ApiError for those that cannot be, such as a last question with
    an image."""
    messages = Turns(omissions)
    question = last_question(turns)
    for place, turn in enumerate(turns):
        if turn.role == "tool":
            messages.add_result(turn.tool_call_id or "", turn.content)
            continue
        if turn.role not in _ROLES or (turn.tool_calls and turn.role != "assistant"):
            whose = "only assistant messages may have calls; results belong in messages with the role tool"
            raise unsupported("messages", whose)
        text = text_of(turn.content, omissions=None if place == question else omissions)
        calls = chat_calls(turn.tool_calls or ())
        thought = turn.reasoning_content or turn.reasoning or ""
        messages.add(protocol.Message(role=_ROLES[turn.role], content=text, thought=thought, calls=calls))
    return messages.all()


def _progress(progress: PromptProgress) -> dict[str, Any]:
    """Returns how much of the prompt has been read, as llama.cpp has it."""
    fields = {"total": progress.total, "cache": progress.reused, "processed": progress.done}
    return {"choices": [], "prompt_progress": {**fields, "time_ms": round(progress.time_s * 1000)}}


def _texts(delta: Delta) -> dict[str, str]:
    """Returns the text of a delta by the fields of OpenAI and, for thought, of those who added it."""
    return {"content": delta.answer} | ({"reasoning_content": delta.thought} if delta.thought else {})


def _call(call: protocol.ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _choice(choice: Choice, logprobs: bool) -> dict[str, Any]:
    tally = choice.tally
    message: dict[str, Any] = {"role": "assistant", "content": tally.answer}
    if tally.calls:
        message |= {
            "content": tally.answer if tally.answer.strip() else None,
            "tool_calls": list(map(_call, tally.calls)),
        }
    if tally.thought:
        message["reasoning_content"] = tally.thought
    return {
        "index": choice.index,
        "message": message,
        "finish_reason": tally.finish,
        "logprobs": _logprobs(tally.emitted) if logprobs else None,
        "redline": {**origins(tally.emitted), "seed": tally.seed},
    }


def _logprobs(tokens: Iterable[Token]) -> dict[str, Any]:
    return {"content": [_logprob(token) for token in tokens if token.channel == "answer"]}


def _logprob(token: Token) -> dict[str, Any]:
    value = logprob(token)
    return {"token": token.text, "logprob": value, "bytes": list(token.text.encode()), "top_logprobs": []}


def logprob(token: Token) -> float:
    """Returns the log of a token's probability, as JSON can say it."""
    return math.log(token.probability) if token.probability > 0 else SMALLEST_LOGPROB
