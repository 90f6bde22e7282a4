"""The tools of one reply in the host: what the model is told about them, their grammar, and its calls.

The chat template puts the tools into the prompt (`models.tokenizer_worker.render`).
"""

import json
import secrets
import string
from collections.abc import Iterable, Iterator
from typing import Any

from app import protocol
from app.inference.reply_events import ReplyEvent
from app.inference.tool_call_reader import call_reader
from engine.errors import UsageError
from engine.events import Finished, Round
from engine.settings import Grammar
from models.tokenizer import FolderTokenizer
from models.tool_grammar import Offer, has_grammar, tool_grammar
from models.tool_parsers import ParsedCall

_ID_SYMBOLS, _ID_LENGTH = string.ascii_letters + string.digits, 9  # what Mistral's templates insist on


class ReplyTools:
    """The tools of one reply. Raises UsageError for a model that takes no tools, and for tools that cannot be used.

    answer: the grammar of a reply without a call, None where it is free. described: the tools as OpenAI describes them.
    grammar: of a reply whose calls or answer are constrained, else None; where the model's format of calls has no
    grammar, `strict` constrains nothing.
    """

    def __init__(self, tokenizer: FolderTokenizer, tools: protocol.Tools, answer: Grammar | None = None) -> None:
        self._tokenizer, self._tools = tokenizer, tools
        if tokenizer.tools is None:
            what = "this model takes no tools" if not tokenizer.takes_tools else "this model's calls cannot be parsed"
            raise UsageError(f"{what}: leave tools out, or choose another model")
        if tools.named and tools.named not in {tool.name for tool in tools.offered}:
            raise UsageError(f"tool_choice names {tools.named!r}, which is not among the tools: add it to them")
        self.described = [_described(tool) for tool in tools.offered]
        self.grammar = self._grammar(answer)

    def _grammar(self, answer: Grammar | None) -> Grammar | None:
        tools, format_ = self._tools, self._tokenizer.tools
        assert format_ is not None
        required = tools.required or bool(tools.named)
        strict = any(tool.strict for tool in tools.offered) and has_grammar(format_)
        if not required and not strict and answer is None:
            return None
        called = [tool for tool in tools.offered if tools.named in ("", tool.name)]
        offers = [Offer(tool.name, _schema(tool) if required or tool.strict else None) for tool in called]
        several = tools.several and not tools.named
        return tool_grammar(format_, offers, self._tokenizer.added, required, several, answer)

    def events(self, events: Iterator[ReplyEvent]) -> Iterator[ReplyEvent | tuple[protocol.ToolCall, ...]]:
        """Yields the events of a reply without the text of its calls, and its calls after the round that ended them.
        A reply that may have only one call ends after it."""
        calls, tokens = call_reader(self._tokenizer, self.described), 0
        for event in events:
            found: list[ParsedCall] = []
            if isinstance(event, Round):
                event, found = calls.push(event)
                tokens += len(event.tokens)
                yield event
            elif isinstance(event, Finished):
                event, found = calls.finish(event)
            else:
                yield event
            if found:
                yield tuple(map(_with_id, found if self._tools.several else found[:1]))
            if found and not self._tools.several and isinstance(event, Round):
                event = Finished("eos", tokens, event.time_s)
            if isinstance(event, Finished):
                yield event
                return


def check_turns(tokenizer: FolderTokenizer, messages: Iterable[protocol.Message]) -> None:
    """Raises UsageError for calls and their results that the model's template would leave out."""
    if not tokenizer.takes_tools and any(turn.calls or turn.role == "tool" for turn in messages):
        raise UsageError("this model takes no tools, but the conversation contains tool calls: choose another model")


def _schema(tool: protocol.Tool) -> dict[str, Any]:
    """Returns the JSON Schema of a tool's arguments. Raises UsageError."""
    try:
        schema = json.loads(tool.parameters)
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        raise UsageError(f"the parameters of the tool {tool.name!r} are not a JSON Schema: give an object")
    return schema


def _described(tool: protocol.Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": _schema(tool)}
    return {"type": "function", "function": function}


def _with_id(call: ParsedCall) -> protocol.ToolCall:
    number = "".join(secrets.choice(_ID_SYMBOLS) for _ in range(_ID_LENGTH))
    return protocol.ToolCall(id=number, name=call.name, arguments=call.arguments)
