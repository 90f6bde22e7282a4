"""What a model wrote as calls of tools, as calls. Runs in the tokenizer's process alone.

Texts come back as they were written, white space included: a tool that edits a file is told exactly what to write.
Where a form puts arguments between tags, text stands there as it is, so a text that contains the tag which ends it ends
at the first one that the next argument, or the end of the call, follows. What a text stands for is decided by the JSON
Schema of the argument: it is text wherever the schema allows text.
"""

import ast
import html
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from models.json_schemas import Schema, properties_of, resolved, types_of
from models.tool_formats import HARMONY, LONGEST_NAME, ToolFormat

Found = tuple[str, dict[str, Any]]  # the name of a tool, and its arguments
_DEEPEST = 64  # levels of values within each other, in MiniMax M3's form and Gemma's
_DECODER = json.JSONDecoder()


class ParsedCall(msgspec.Struct, frozen=True):
    """A call as it was parsed. arguments: a JSON object as text."""

    name: str
    arguments: str


def parse_calls(format_: ToolFormat, text: str, tools: Sequence[Mapping[str, Any]]) -> list[ParsedCall]:
    """Returns the calls in a text without the marks around them. tools: as OpenAI describes them. Raises ValueError
    where it holds anything but calls of these tools."""
    offered = {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}
    found = _PARSERS[format_.parser](text, offered, format_)
    if not found:
        raise ValueError("there is no call")
    return [_checked(name, arguments, offered) for name, arguments in found]


def _checked(name: str, arguments: Any, offered: Mapping[str, Schema]) -> ParsedCall:
    if name not in offered:
        raise ValueError(f"no tool is called {str(name)[:LONGEST_NAME]!r}")
    if isinstance(arguments, str):
        arguments = json.loads(arguments)
    if not isinstance(arguments, dict) or not all(isinstance(key, str) for key in arguments):
        raise ValueError("the arguments are not an object")
    text = json.dumps(arguments, ensure_ascii=False, allow_nan=False)
    text.encode()  # raises for what is not Unicode
    return ParsedCall(name, text)


# --- arguments as one JSON object ---------------------------------------------------------------------------


def _json_calls(text: str, offered: Mapping[str, Schema], _: ToolFormat) -> list[Found]:
    """Parses JSON objects that are calls, or arguments after the name of a tool, whatever stands between them."""
    found: list[Found] = []
    named = re.compile(rf"(?<![\w-])({'|'.join(sorted(map(re.escape, offered), key=len, reverse=True))})(?![\w-])")
    at = 0
    while (brace := text.find("{", at)) >= 0:
        value, end = _DECODER.raw_decode(text, brace)
        names = named.findall(text[at:brace]) if offered else []
        found.append((names[-1], value) if names else _json_call(value, offered))
        at = end
    return found


def _json_call(value: Any, offered: Mapping[str, Schema]) -> Found:
    """Returns the call that an object is: with a name and arguments, or the arguments under the name."""
    if isinstance(value.get("function"), dict):
        value = value["function"]
    name = next(
        (value[key] for key in ("name", "tool_name", "function", "tool") if isinstance(value.get(key), str)), ""
    )
    keys = [key for key in ("arguments", "parameters", "args", "input") if key in value]
    if name and keys:
        return name, value[keys[0]]
    if len(value) == 1 and (name := next(iter(value))) in offered:
        return name, value[name]
    raise ValueError("an object is no call")


def _harmony(text: str, _: Mapping[str, Schema], __: ToolFormat) -> list[Found]:
    """Parses the name of a tool, a line break and its arguments."""
    name, _break, arguments = text.partition("\n")
    return [(name, json.loads(arguments))]


# --- arguments between tags ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Tags:
    """How calls are tagged, as expressions. head: has the name of the tool. argument: the tag before a value, with its
    key, and its type where that is written. close: the tag after it. tail: the end of a call, None where the text ends
    with it."""

    head: re.Pattern[str]
    argument: re.Pattern[str]
    close: re.Pattern[str]
    tail: re.Pattern[str] | None = None


def _tags(head: str, argument: str, close: str, tail: str = "") -> _Tags:
    return _Tags(re.compile(head), re.compile(argument), re.compile(close), re.compile(tail) if tail else None)


_PREFIX = r"[\w:\uff5c|]{0,20}"
_QWEN3_CODER = _tags(r"<function=([^>\n]+)>", r"\s*<parameter=([^>\n]+)>()", r"</parameter>", r"\s*</function>")
_ARG_KEYS = _tags(
    r"\s*([^\s<>]+)(?:<tool_sep(?::\w+)?>)?",
    r"\s*<(?:\w+_)?arg_key(?::\w+)?>([^<>]*)</(?:\w+_)?arg_key(?::\w+)?>\s*<(?:\w+_)?arg_value(?::\w+)?>()",
    r"</(?:\w+_)?arg_value(?::\w+)?>",
    r"\s*</(?:\w+_)?tool_call(?::\w+)?>",
)
_INVOKE = _tags(
    rf'<{_PREFIX}invoke name="([^"<>]*)"[^<>]*>',
    rf'\s*<{_PREFIX}parameter name="([^"<>]*)"(?: string="(true|false)")?[^<>]*>',
    rf"</{_PREFIX}parameter>",
    rf"\s*</{_PREFIX}invoke>",
)
_MINICPM5 = _tags(r'\s*"?([^"<>]+)"?>', r'\s*<param name="([^"<>]*)">()', r"</param>")
_KIMI_K3 = _tags(
    r'<\|open\|>call [^<]*?tool="([^"<]*)"[^<]*<\|sep\|>',
    r'\s*<\|open\|>argument [^<]*?key="([^"<]*)"(?: type="(\w+)")?[^<]*<\|sep\|>',
    r"<\|close\|>argument<\|sep\|>",
    r"\s*<\|close\|>call<\|sep\|>",
)
_KIMI_K3_JSON = re.compile(r"\s*<\|open\|>json[^<]*<\|sep\|>\s*(?=\{)")
_CDATA = re.compile(r"<!\[CDATA\[(.*)\]\]>", re.DOTALL)


def _tagged(tags: _Tags) -> Callable[[str, Mapping[str, Schema], ToolFormat], list[Found]]:
    """Returns the parser of tagged calls."""

    def parse(text: str, offered: Mapping[str, Schema], format_: ToolFormat) -> list[Found]:
        found: list[Found] = []
        at = 0
        while (head := tags.head.search(text, at)) is not None and (not found or text[at : head.start()].strip() == ""):
            name = html.unescape(head[1].strip())
            if name not in offered:
                raise ValueError("a tool was not offered")
            arguments, at = _tagged_arguments(text, head.end(), tags, offered[name], format_)
            found.append((name, arguments))
            tail = None if tags.tail is None else tags.tail.match(text, at)
            if tail is None and text[at:].strip():
                raise ValueError("a call does not end")
            at = len(text) if tail is None else tail.end()
        return found

    return parse


def _tagged_arguments(
    text: str, at: int, tags: _Tags, schema: Schema, format_: ToolFormat
) -> tuple[dict[str, Any], int]:
    """Returns the arguments that begin at a place of a text, and where they end."""
    if tags is _KIMI_K3 and (whole := _KIMI_K3_JSON.match(text, at)) is not None:
        value, end = _DECODER.raw_decode(text, whole.end())
        close = text.find("<|close|>json<|sep|>", end)
        return value, end if close < 0 else close + len("<|close|>json<|sep|>")
    known = _properties(schema)
    arguments: dict[str, Any] = {}
    while (opening := tags.argument.match(text, at)) is not None:
        key, kind = html.unescape(opening[1].strip()), opening[2]
        end, at = _value_end(text, opening.end(), tags, known)
        value = text[opening.end() : end]
        if format_.wrapped:
            value = value.removeprefix("\n").removesuffix("\n")
        if tags is _MINICPM5 and (literal := _CDATA.fullmatch(value)) is not None:
            value = literal[1]
        arguments[key] = value if kind in ("true", "string") else _typed(value, known.get(key), schema, bool(kind))
    return arguments, at


def _value_end(text: str, begin: int, tags: _Tags, known: Mapping[str, Schema]) -> tuple[int, int]:
    """Returns where a value ends and its closing tag does. A value may contain the closing tag: the first one counts
    that the next argument or the end of the call follows, or else the last."""
    last: tuple[int, int] | None = None
    for close in tags.close.finditer(text, begin):
        last = (close.start(), close.end())
        if _may_follow(text, close.end(), tags, known):
            return last
    if last is None:
        raise ValueError("an argument does not end")
    return last


def _may_follow(text: str, at: int, tags: _Tags, known: Mapping[str, Schema]) -> bool:
    """Whether an argument that may be there, the end of the call or that of the text stands at a place of a text."""
    if (argument := tags.argument.match(text, at)) is not None:
        return not known or argument[1].strip() in known
    tail = tags.tail.match(text, at) if tags.tail is not None else None
    end = tail.end() if tail is not None else at
    return not text[end:].strip() or (tail is not None and tags.head.match(text[end:].lstrip()) is not None)


# --- MiniMax M3: elements within each other -----------------------------------------------------------------

_ELEMENT = re.compile(r"<(/?)([^<>]*)>(.*)", re.DOTALL)


def _minimax_m3(text: str, offered: Mapping[str, Schema], _: ToolFormat) -> list[Found]:
    """Parses elements, each tag after a mark that no text contains: leaves are values, others objects or lists."""
    parts = [part for one in text.split("]<]minimax[>[") if (part := _ELEMENT.match(one)) is not None]
    found: list[Found] = []
    at = 0
    while at < len(parts):
        invoke = re.fullmatch(r'invoke name="([^"]*)"', parts[at][2])
        if invoke is None:
            at += 1
            continue
        root = offered.get(invoke[1], {})
        value, at = _element(parts, at + 1, root, root, 0)
        found.append((invoke[1], value if isinstance(value, dict) else {}))
    return found


def _element(parts: list[re.Match[str]], at: int, schema: Schema | None, root: Schema, depth: int) -> tuple[Any, int]:
    """Returns the value whose children begin with this part, and the place after its closing tag."""
    if depth > _DEEPEST:
        raise ValueError("a call is nested too deep")
    items: list[Any] = []
    fields: dict[str, Any] = {}
    known = _properties(schema or {}, root)
    inner = (resolved(schema, root) or {}).get("items")
    while at < len(parts) and not parts[at][1]:
        tag, content = parts[at][2], parts[at][3]
        wanted = inner if tag == "item" else known.get(tag)
        leaf = at + 1 < len(parts) and parts[at + 1][1] and parts[at + 1][2] == tag
        if leaf:
            value: Any = _typed(content, wanted, root) if content or wanted is not None else None
            at += 2
        else:
            value, at = _element(parts, at + 1, wanted, root, depth + 1)
        if tag == "item":
            items.append(value)
        else:
            fields[tag] = value
    return (items if items else fields), at + 1


# --- Gemma: keys without quotes, texts between marks --------------------------------------------------------


def _gemma(quote: str) -> Callable[[str, Mapping[str, Schema], ToolFormat], list[Found]]:
    """Returns the parser of Gemma 4's form, or of Function Gemma's. quote: around texts."""

    def parse(text: str, offered: Mapping[str, Schema], _: ToolFormat) -> list[Found]:
        found: list[Found] = []
        at = 0
        while (head := re.compile(r"\s*call:([^\s{]+)\{").match(text, at)) is not None:
            value, at = _GemmaReader(text, quote, offered.get(head[1], {})).object(head.end(), 0)
            found.append((head[1], value))
        return found if not text[at:].strip() else []

    return parse


class _GemmaReader:
    """Reads values. Each method is given the place where one begins, and returns it and the place after it."""

    def __init__(self, text: str, quote: str, schema: Schema) -> None:
        self._text, self._quote, self._schema = text, quote, schema

    def object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        known = _properties(self._schema) if depth == 0 else {}
        fields: dict[str, Any] = {}
        while not self._text.startswith("}", at):
            colon = self._text.index(":", at)
            key = self._text[at:colon].strip().removeprefix(self._quote).removesuffix(self._quote)
            fields[key], at = self._value(colon + 1, depth + 1, known.get(key))
            at = self._after_comma(at, "}")
        return fields, at + 1

    def _value(self, at: int, depth: int, schema: Schema | None = None) -> tuple[Any, int]:
        if depth > _DEEPEST:
            raise ValueError("a call is nested too deep")
        if self._text.startswith(self._quote, at):
            begin = at + len(self._quote)
            end = self._text.index(self._quote, begin)
            return self._text[begin:end], end + len(self._quote)
        if self._text.startswith("{", at):
            return self.object(at + 1, depth)
        if self._text.startswith("[", at):
            return self._list(at + 1, depth)
        word = re.compile(r"[^,\]}]*").match(self._text, at)
        assert word is not None
        return _typed(word[0].strip(), schema, self._schema), word.end()

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        items = []
        while not self._text.startswith("]", at):
            item, at = self._value(at, depth + 1)
            items.append(item)
            at = self._after_comma(at, "]")
        return items, at + 1

    def _after_comma(self, at: int, end: str) -> int:
        if self._text.startswith(",", at):
            return at + 1
        if not self._text.startswith(end, at):
            raise ValueError("a call does not end")
        return at


# --- LFM2: calls as Python writes them ----------------------------------------------------------------------

_PYTHON_HEAD = re.compile(r"\s*([\w.:/@-]+)\(")
_PYTHON_KEY = re.compile(r"\s*(\w+)\s*=\s*")
_PYTHON_TEXT = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_AFTER_TEXT = re.compile(r"\s*(?:,\s*\w+\s*=|\)\s*(?:[,\]]|$))")


def _pythonic(text: str, offered: Mapping[str, Schema], format_: ToolFormat) -> list[Found]:
    """Parses `[name(key=value), ...]`. Nothing is evaluated but literals."""
    text = text.strip().removeprefix("[").removesuffix("]")
    found: list[Found] = []
    at = 0
    while (head := _PYTHON_HEAD.match(text, at)) is not None:
        schema, arguments, at = offered.get(head[1], {}), {}, head.end()
        while (key := _PYTHON_KEY.match(text, at)) is not None:
            arguments[key[1]], at = _python_value(text, key.end(), schema, key[1], format_.raw)
            at = _skip(text, at, ",")
        at = _skip(text, at, ")", needed=True)
        found.append((head[1], arguments))
        at = _skip(text, at, ",")
    if text[at:].strip():
        raise ValueError("there is more than calls")
    return found


def _skip(text: str, at: int, sign: str, needed: bool = False) -> int:
    while text[at : at + 1].isspace():
        at += 1
    if text.startswith(sign, at):
        return at + 1
    if needed:
        raise ValueError("a call does not end")
    return at


def _python_value(text: str, at: int, schema: Schema, key: str, raw: bool) -> tuple[Any, int]:
    quote = text[at : at + 1]
    if quote and quote in "'\"" and raw:
        end = next(
            (i.start() for i in re.finditer(quote, text[at + 1 :]) if _AFTER_TEXT.match(text, at + 1 + i.end())), -1
        )
        if end < 0:
            raise ValueError("a text does not end")
        return text[at + 1 : at + 1 + end], at + end + 2
    end = max(_ends_of_value(text, at), default=at)
    return _literal(text[at:end].strip(), schema, key), end


def _ends_of_value(text: str, at: int) -> Iterator[int]:
    """Yields the places that a value reaches, up to the comma or bracket after it."""
    depth = 0
    while at < len(text):
        if (found := _PYTHON_TEXT.match(text, at)) is not None:
            at = found.end()
            yield at
            continue
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth < 0 or (depth == 0 and text[at] == ","):
            return
        at += 1
        yield at


def _literal(text: str, schema: Schema, key: str) -> Any:
    wanted = _properties(schema).get(key)
    if text[:1] not in ("'", '"') and types_of(wanted, schema) == {"string"}:
        return text
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _typed(text, wanted, schema)


# --- what a text stands for ---------------------------------------------------------------------------------


def _properties(schema: Schema, root: Schema | None = None) -> Mapping[str, Any]:
    found = properties_of(schema, root or schema)
    return {} if found is None else found[0]


def _typed(text: str, schema: Any, root: Schema, is_json: bool = False) -> Any:
    """Returns what a text stands for. is_json: whether it is known to be no text, whatever the schema says."""
    kinds = None if is_json else types_of(schema, root)
    if kinds is not None and "string" in kinds:
        return None if "null" in kinds and text.strip() in ("null", "None") else text
    stripped = text.strip()
    try:
        return json.loads(stripped)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(stripped)  # as templates write objects that they do not turn into JSON
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text


_PARSERS: dict[str, Callable[[str, Mapping[str, Schema], ToolFormat], list[Found]]] = {
    HARMONY: _harmony,
    **dict.fromkeys(("json", "json_tools", "mistral", "kimi_k2"), _json_calls),
    "qwen3_coder": _tagged(_QWEN3_CODER),
    "arg_keys": _tagged(_ARG_KEYS),
    "invoke": _tagged(_INVOKE),
    "minicpm5": _tagged(_MINICPM5),
    "kimi_k3": _tagged(_KIMI_K3),
    "minimax_m3": _minimax_m3,
    "gemma4": _gemma('<|"|>'),
    "function_gemma": _gemma("<escape>"),
    "pythonic": _pythonic,
}
