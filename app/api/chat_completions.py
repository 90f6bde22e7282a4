"""`POST /v1/chat/completions`, OpenAI's chat."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

from app import protocol
from app.api.api_errors import ApiError, unsupported
from app.api.http_replies import Event, EventStream, json_response, until_gone
from app.api.omissions import Omissions
from app.api.reply_stream import Choice, ChoiceStream, Delta, Engine, Tally, Token, deltas, measurements, origins, usage
from app.api.request_reading import read_request
from app.api.request_schema import ChatMessage, ChatRequest, grammar_of, text_of
from app.api.tools import chat_tools
from app.api.turns import Turns, chat_calls, last_question, split_opening
from engine.events import PromptProgress

Role = Literal["system", "user", "assistant"]
SMALLEST_LOGPROB = -9999.0  # what OpenAI gives for a token of no probability
_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


class ChatCompletions:
    """The endpoint. A request for n replies has them at once, with the seeds seed, seed + 1, ..."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def __call__(self, request: Request) -> Response:
        omissions = Omissions()
        body = read_request(await request.body(), ChatRequest, omissions)
        replies = self._replies(body, omissions)
        head = self._engine.head("chatcmpl")
        if body.stream:
            head = {**head, "object": "chat.completion.chunk"}
            counts_usage = body.stream_options is not None and body.stream_options.include_usage
            events_of = partial(self._events, body, head, omissions)
            events = ChoiceStream(head, body.n or 1, counts_usage).events(replies, events_of)
            return await EventStream(events, headers=omissions.headers).begin(request)
        tallies = await until_gone(request.receive, self._engine.wholes(replies))
        choices = [_choice(i, tally, bool(body.logprobs)) for i, tally in enumerate(tallies)]
        counts = {"usage": usage(tallies, body.n or 1), **measurements(tallies[0], omissions)}
        whole = {**head, "object": "chat.completion", "choices": choices, **counts}
        return json_response(whole, headers=omissions.headers)

    def _replies(self, body: ChatRequest, omissions: Omissions) -> list[protocol.Reply]:
        """Returns the requests for the host. Raises ApiError."""
        self._engine.check_model(body.model)
        if body.top_logprobs:
            raise unsupported("top_logprobs", "only the chosen token's probability is available: use logprobs")
        grammar = grammar_of(body.response_format, "response_format", omissions)
        longest = body.max_completion_tokens
        settings = self._engine.settings_of(body, omissions, grammar=grammar, max_tokens=longest)
        prediction = "" if body.prediction is None else text_of(body.prediction.content, "prediction")
        fields: dict[str, Any] = {"prediction": prediction, "tools": chat_tools(body, omissions)}
        turns = messages_of(body.messages, omissions)
        if body.continue_final_message or body.add_generation_prompt is False:
            turns, fields["opening"] = split_opening(turns)
            if not fields["opening"]:
                where = "continue_final_message"
                message = f"{where}: the last message is not text written by the assistant"
                raise ApiError(400, "invalid_value", message, where)
        return self._engine.replies(turns, settings, body.n or 1, **fields)

    async def _events(
        self, body: ChatRequest, head: dict[str, Any], omissions: Omissions, choice: Choice
    ) -> AsyncGenerator[Event]:
        index, tally, called = choice.index, choice.tally, 0
        opening: dict[str, Any] = {"role": "assistant"}
        async with aclosing(deltas(self._engine.client, choice.reply, tally)) as added:
            async for delta in added:
                if delta.progress is not None and body.return_progress:
                    yield "", {**head, **_progress(delta.progress)}
                    continue
                if (sign := delta.sign_of_life) is not None:
                    yield sign
                    continue
                calls = [{"index": i, **_call(call)} for i, call in enumerate(delta.calls, called)]
                fields = opening | ({"tool_calls": calls} if calls else _texts(delta))
                opening, called = {}, called + len(delta.calls)
                added_to: dict[str, Any] = {"index": index, "delta": fields, "finish_reason": None}
                if body.logprobs:
                    added_to["logprobs"] = _logprobs(delta.tokens)
                yield "", {**head, "choices": [added_to], "redline": origins(delta.tokens)}
        last = {"index": index, "delta": {}, "finish_reason": tally.finish}
        ended = {"choices": [last], **measurements(tally, omissions), "redline": {"seed": tally.seed}}
        yield "", {**head, **ended}


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


def _choice(index: int, tally: Tally, logprobs: bool) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": tally.answer}
    if tally.calls:
        message |= {
            "content": tally.answer if tally.answer.strip() else None,
            "tool_calls": list(map(_call, tally.calls)),
        }
    if tally.thought:
        message["reasoning_content"] = tally.thought
    return {
        "index": index,
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
