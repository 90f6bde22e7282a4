"""How a model writes calls of tools, and mlx-lm's parsers for what it wrote. Runs in the tokenizer's process alone.

mlx-lm chooses a parser by the chat template (`mlx_lm.tokenizer_utils.load`); its rule is used as it is. Its modules are
read by their files, because importing the package `mlx_lm` would start a device in this process. For harmony, of
gpt-oss, it has none: there the header of a message names the tool, and its content is the arguments.
"""

from __future__ import annotations

import json
import re
import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

HARMONY = "harmony"
_HARMONY_MARKS = ("<|channel|>", "<|message|>", "<|call|>")
LONGEST_NAME = 128  # characters
NAME = re.compile(rf"[A-Za-z0-9_.:/@-]{{1,{LONGEST_NAME}}}")
_PACKAGE = "redline_mlx_lm_tool_parsers"


class ToolFormat(msgspec.Struct, frozen=True):
    """How a model writes calls. parser: the name of mlx-lm's module, or HARMONY. start, end: the texts around a call;
    no end where it goes on to the next start or the end of the reply. headers: whether a call has the name in [ARGS]'s
    form, where the parser knows two."""

    parser: str
    start: str
    end: str
    headers: bool = False


class ParsedCall(msgspec.Struct, frozen=True):
    """A call as it was parsed. arguments: a JSON object as text."""

    name: str
    arguments: str


def tool_format(tokenizer: Any, template: str) -> ToolFormat | None:
    """Returns how the model of one of transformers' tokenizers writes calls; None where mlx-lm has no parser for what
    `template`, the one for conversations with tools, asks the model to write."""
    tokenizer.chat_template = template  # by which mlx-lm chooses
    if all(mark in template for mark in _HARMONY_MARKS):
        return ToolFormat(HARMONY, "<|channel|>", "<|call|>")
    named = tokenizer.init_kwargs.get("tool_parser_type")
    parser = named if isinstance(named, str) else _file_module("tokenizer_utils")._infer_tool_parser(tokenizer)
    if parser is None or not re.fullmatch(r"[a-z0-9_]{1,40}", parser):
        return None
    module = _parser_module(parser)
    return ToolFormat(parser, module.tool_call_start, module.tool_call_end, "[ARGS]" in template)


def parse_calls(parser: str, text: str, tools: list[dict[str, Any]]) -> list[ParsedCall]:
    """Returns the calls in a text without the marks around them. tools: as OpenAI describes them. Raises ValueError
    where it holds anything but calls of these tools, and whatever a parser raises."""
    parsed = _harmony(text) if parser == HARMONY else _parser_module(parser).parse_tool_call(text, tools)
    offered = {tool["function"]["name"] for tool in tools}
    return [_checked(call, offered) for call in (parsed if isinstance(parsed, list) else [parsed])]


def _harmony(text: str) -> dict[str, Any]:
    """Parses the name of a tool, a line break and its arguments."""
    name, _, arguments = text.partition("\n")
    return {"name": name, "arguments": json.loads(arguments)}


def _checked(call: Any, offered: set[str]) -> ParsedCall:
    name, arguments = call["name"], call["arguments"]
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if name not in offered:
        raise ValueError(f"no tool is called {str(name)[:LONGEST_NAME]!r}")
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        raise ValueError("the arguments are not an object")
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    text.encode()  # raises for what is not Unicode
    return ParsedCall(name, text)


def _parser_module(name: str) -> ModuleType:
    if _PACKAGE not in sys.modules:
        folder = _mlx_lm() / "tool_parsers"
        spec = spec_from_file_location(_PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)])
        assert spec is not None
        sys.modules[_PACKAGE] = module_from_spec(spec)
    return import_module(f"{_PACKAGE}.{name}")


@cache
def _file_module(name: str) -> ModuleType:
    spec = spec_from_file_location(f"redline_mlx_lm_{name}", _mlx_lm() / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _mlx_lm() -> Path:
    spec = find_spec("mlx_lm")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations)))
