"""Calls of tools as a model writes them, for chat templates that leave calls out of the history."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from models.tool_formats import ToolFormat


def call_text(tools: ToolFormat | None, calls: Sequence[Mapping[str, Any]]) -> str:
    """Returns calls as text, between the marks of the model's form where it is known: Python calls in a list for
    LFM2, else JSON objects. calls: with name and arguments, a JSON object as text."""
    start, end = (tools.start, tools.end) if tools is not None else ("<tool_call>", "</tool_call>")
    if tools is not None and tools.parser == "pythonic":
        return f"{start}[{', '.join(map(_python_call, calls))}]{end}"
    objects = [{"name": call["name"], "arguments": json.loads(call["arguments"])} for call in calls]
    written = [json.dumps(one, ensure_ascii=False) for one in objects]
    if not end:
        return f"{start}[{', '.join(written)}]"
    return "\n".join(f"{start}\n{one}\n{end}" for one in written)


def _python_call(call: Mapping[str, Any]) -> str:
    arguments = json.loads(call["arguments"])
    return f"{call['name']}({', '.join(f'{name}={value!r}' for name, value in arguments.items())})"
