"""The turns of a conversation as the host takes them: calls belong to the assistant's turn, results to calls.

What a model's template cannot take, such as a system turn in the middle, is reshaped later (`models/turn_shape.py`).
A past turn must not stop a conversation. So a call that a model wrote wrongly is given to the model as text, and in the
place of a part that is not text stands a note.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import structs

from app import protocol
from app.api.api_errors import ApiError, Omissions
from app.api.request_schema import (
    AnthropicMessage,
    CalledFunction,
    CalledTool,
    ChatMessage,
    ResponseItem,
    TextPart,
    text_of,
)

_NO_NAME = "unknown"


class Turns:
    """Collects the turns. omissions: takes note of parts that are not text."""

    def __init__(self, omissions: Omissions) -> None:
        self._turns: list[protocol.Message] = []
        self._names: dict[str, str] = {}  # of the tools that were called, by the ids of the calls
        self._omissions = omissions

    def add(self, turn: protocol.Message) -> None:
        self._turns.append(turn)
        self._names |= {call.id: call.name for call in turn.calls}

    def add_call(self, call: protocol.ToolCall, thought: str = "") -> None:
        """Adds a call to the assistant's turn, which begins with it if there is none. thought: before the call."""
        last = self._turns.pop() if self._turns and self._turns[-1].role == "assistant" else None
        turn = last or protocol.Message(role="assistant", content="", thought=thought)
        self.add(structs.replace(turn, calls=(*turn.calls, call)))

    def add_result(self, call_id: str, content: str | tuple[TextPart, ...] | Mapping[str, Any] | None) -> None:
        """Adds the result of a call. Raises ApiError for a call that no turn before it has."""
        if call_id not in self._names:
            message = (
                f"there is no call {call_id[:40]!r} before its result: send the assistant's turn with the call too"
            )
            raise ApiError(400, "invalid_value", message, "messages")
        if isinstance(content, Mapping):
            text = msgspec.json.encode(content).decode()
        else:
            text = text_of(content, "messages", self._omissions)
        self.add(protocol.Message(role="tool", content=text, call_id=call_id, name=self._names[call_id]))

    def all(self) -> tuple[protocol.Message, ...]:
        """Returns the turns. Where there are none but the system's, an empty question is added."""
        if all(turn.role == "system" for turn in self._turns):
            self._turns.append(protocol.Message(role="user", content=""))
        return tuple(self._turns)


def last_question(turns: Sequence[ChatMessage | AnthropicMessage | ResponseItem]) -> int:
    """Returns the place of the user's last turn, -1 where there is none."""
    return max((place for place, turn in enumerate(turns) if turn.role == "user"), default=-1)


def split_opening(turns: tuple[protocol.Message, ...]) -> tuple[tuple[protocol.Message, ...], str]:
    """Returns the turns before a last one of the assistant's, and its text, which the reply continues; all turns and
    "" where the conversation ends otherwise."""
    last = turns[-1]
    if last.role != "assistant" or last.calls or not last.content.strip():
        return turns, ""
    return turns[:-1], last.content


def call_of(call_id: str | None, name: str | None, arguments: Any) -> protocol.ToolCall:
    """Returns a call of the conversation. Arguments that are not a JSON object, which a model may have written wrongly,
    are given to the model as they are, under `arguments`."""
    found = arguments
    if isinstance(arguments, str):
        with suppress(msgspec.DecodeError, RecursionError):
            found = msgspec.json.decode(arguments) if arguments.strip() else None
    if not isinstance(found, Mapping):
        arguments = {"arguments": arguments} if found else {}
    text = arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()
    return protocol.ToolCall(id=call_id or "", name=name or _NO_NAME, arguments=text)


def chat_calls(called: Iterable[CalledTool]) -> tuple[protocol.ToolCall, ...]:
    """Returns the calls of an assistant's turn on /v1/chat/completions."""
    calls = []
    for one in called:
        if one.custom is not None:
            calls.append(call_of(one.id, one.custom.name, {"input": one.custom.input}))
        else:
            function = one.function or CalledFunction()
            calls.append(call_of(one.id, function.name, function.arguments))
    return tuple(calls)
