"""Grammars of calls of tools, in the form that a model's parser reads.

A grammar decides whether a reply calls a tool, which one, and whether the arguments follow its JSON Schema. It has the
text between calls free, apart from the tokens that the tokenizer never splits. Formats whose arguments are JSON take
any schema that llguidance takes. Those that put each argument between tags, and Gemma 4's, take objects of named
properties, whose texts are either free or of a list: text stands there as it is, so it cannot be counted or matched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import UsageError
from engine.settings import Grammar
from models.grammar_matcher import DEEPEST_SCHEMA, LAYOUT, depth_of
from models.tool_parsers import ToolFormat

_KEY = re.compile(r"[\w.-]{1,64}")
_LARGEST = 2**53 - 1  # integers beyond it are not kept by parsers that read them as floats
_PLAIN = ("string", "integer", "number", "boolean", "object", "array", "null")
_NOTES = ("type", "description", "title", "default", "examples", "$schema", "$defs", "definitions")
_OBJECT = (*_NOTES, "properties", "required", "additionalProperties")
_ANY = {"type": "object"}


@dataclass(frozen=True)
class Offer:
    """A tool that may be called. schema: of its arguments, None for any object."""

    name: str
    schema: Mapping[str, Any] | None


@dataclass
class _Rules:
    """The rules of a grammar so far. added: the tokens that the tokenizer never splits, by name."""

    added: Mapping[str, int]
    lines: list[str] = field(default_factory=list)

    def text(self, text: str) -> str:
        """Returns the expression of a text that must follow, in which names of tokens stand for these tokens."""
        names = "|".join(re.escape(name) for name in sorted(self.added, key=len, reverse=True) if name)
        pieces = re.split(f"({names})", text) if names else [text]
        known = (f"<[{self.added[piece]}]>" if piece in self.added else json.dumps(piece) for piece in pieces if piece)
        return " ".join(known)

    def rule(self, expression: str) -> str:
        """Returns the name of a rule for an expression."""
        self.lines.append(f"r{len(self.lines)}: {expression}")
        return f"r{len(self.lines) - 1}"

    def free_text(self, end: str, unlike: str = "") -> str:
        """Returns the name of a terminal for text without `end` in it, nor like the expression `unlike`."""
        name = f"T{len(self.lines)}"
        regex = re.sub(r"([^\w ])", r"\\\1", end)
        other = f" & ~/{unlike}/" if unlike else ""
        without = "" if end in self.added else f" & ~/(.|\\n)*{regex}(.|\\n)*/"
        self.lines.append(f"{name}: /(.|\\n)*/{without}{other}")
        return name


_Writer = Callable[[_Rules, Offer], str]


def tool_grammar(
    format_: ToolFormat, offers: Sequence[Offer], added: Mapping[str, int], required: bool, several: bool
) -> Grammar:
    """Returns the grammar of a reply that may call these tools. required: whether it must, and then has no other text.
    several: whether it may call more than once. Raises UsageError for formats and schemas without a grammar."""
    form = _form(format_)
    rules = _Rules(added)
    calls = rules.rule(" | ".join(form.writer(rules, offer) for offer in offers))
    if several and form.within:
        calls = f"{calls} ({rules.text(form.separator)} {calls})*" if form.separator else f"{calls}+"
    marks = [rules.text(format_.start), rules.text(form.before), calls, rules.text(form.after), rules.text(format_.end)]
    start, rest = marks[0], " ".join(mark for mark in marks[1:] if mark)
    repeats = several and not form.within
    lines = ["TEXT: /(.|\\n)+/", "BREAK: /\\n{1,2}/"]
    if required:
        block = rules.rule(f"{start} {rest}")
        lines.append(f"start: BREAK? {block}" + (f" (BREAK? {block})*" if repeats else ""))
    elif start.startswith("<["):
        block = rules.rule(f"{start} {rest}")
        lines.append(f"start: TEXT? ({block} TEXT?)*" if repeats else f"start: TEXT? {block}?")
    else:  # a start that is written as ordinary tokens is where text ends
        lines += [f"head[lazy]: TEXT_OR_NONE {start}", "TEXT_OR_NONE: /(.|\\n)*/"]
        block = rules.rule(f"head {rest}")
        lines.append(f"start: {block}* TEXT?" if repeats else f"start: {block} | TEXT?")
    return Grammar("lark", "\n".join(lines + rules.lines))


@dataclass(frozen=True)
class _Form:
    """writer: of a call. before, after: texts between the marks and the calls. within: whether several calls stand
    within one pair of marks, with `separator` between them; else each has its own."""

    writer: _Writer
    before: str = ""
    after: str = ""
    within: bool = False
    separator: str = ""


def _form(format_: ToolFormat) -> _Form:
    """Returns how calls of a format are written. Raises UsageError for one without a grammar."""
    if format_.parser == "mistral":
        return _Form(_named_json) if format_.headers else _Form(_json_object, "[", "]", True, ", ")
    forms = {
        "json_tools": _Form(_json_object, "\n", "\n"),
        "kimi_k2": _Form(_kimi, within=True),
        "glm47": _Form(_tags("", "")),
        "laguna": _Form(_tags("", "")),
        "longcat": _Form(_tags("longcat_", "")),
        "qwen3_coder": _Form(_qwen3_coder, "\n", "\n"),
        "gemma4": _Form(_gemma4),
    }
    if format_.parser not in forms:
        known = ", ".join([*forms, "mistral"])
        what = f"this model writes calls in the format {format_.parser}, for which there is no grammar (only {known})"
        raise UsageError(f"{what}: leave out strict, parallel_tool_calls, and a tool_choice other than auto or none")
    return forms[format_.parser]


# --- formats whose arguments are JSON ----------------------------------------------------------------


def _json_object(rules: _Rules, offer: Offer) -> str:
    head = json.dumps({"name": offer.name}, ensure_ascii=False)[:-1] + ', "arguments": '
    return f'{rules.text(head)} {_json(offer.schema)} "}}"'


def _named_json(rules: _Rules, offer: Offer) -> str:
    return f"{rules.text(f'{offer.name}[ARGS]')} {_json(offer.schema)}"


def _kimi(rules: _Rules, offer: Offer) -> str:
    begin, end = rules.text(f"<|tool_call_begin|>functions.{offer.name}:"), rules.text("<|tool_call_end|>")
    return f"{begin} /[0-9]/ {rules.text('<|tool_call_argument_begin|>')} {_json(offer.schema)} {end}"


def _json(schema: Mapping[str, Any] | None) -> str:
    """Returns the expression of JSON that follows a schema. An object has the properties that the schema describes and
    no others, unless it says that there may be others: what nobody described is of no use to a tool."""
    schema = _ANY if schema is None else schema
    if "properties" in schema and set(schema) <= set(_OBJECT):
        schema = {"additionalProperties": False, **schema}
    if depth_of(schema) > DEEPEST_SCHEMA:
        raise UsageError(f"the schema of a tool is nested deeper than {DEEPEST_SCHEMA} levels: make it flatter")
    return f"%json {json.dumps(LAYOUT | dict(schema))}"


# --- formats that put each argument between tags ------------------------------------------------------


def _tags(prefix: str, between: str) -> _Writer:
    """Returns the writer of GLM's form: the name, then <arg_key> and <arg_value> for each argument."""

    def write(rules: _Rules, offer: Offer) -> str:
        key_end, value_end = f"</{prefix}arg_key>", f"</{prefix}arg_value>"

        def argument(name: str, schema: Mapping[str, Any]) -> str:
            value = _tagged_value(rules, schema, value_end)
            middle = f"{rules.text(f'<{prefix}arg_key>{name}{key_end}')} BREAK? {rules.text(f'<{prefix}arg_value>')}"
            return f"{middle} {value} {rules.text(value_end)} BREAK?"

        return f"{rules.text(offer.name)} BREAK? {_arguments(rules, offer, argument)}"

    return write


def _qwen3_coder(rules: _Rules, offer: Offer) -> str:
    def argument(name: str, schema: Mapping[str, Any]) -> str:
        end = "\n</parameter>"
        value = _tagged_value(rules, schema, "</", unlike="[nN][uU][lL][lL]")
        return f"{rules.text(f'<parameter={name}>' + chr(10))} {value} {rules.text(end + chr(10))}"

    head = rules.text(f"<function={offer.name}>\n")
    return f"{head} {_arguments(rules, offer, argument)} {rules.text('</function>')}"


def _arguments(rules: _Rules, offer: Offer, argument: Callable[[str, Mapping[str, Any]], str]) -> str:
    """Returns the expression of all arguments of a tool, in the order of its schema."""
    expressions = []
    for name, schema, required in _properties(offer.schema, offer.name):
        one = rules.rule(argument(name, schema))
        expressions.append(one if required else f"{one}?")
    return " ".join(expressions)


def _tagged_value(rules: _Rules, schema: Mapping[str, Any], end: str, unlike: str = "") -> str:
    """Returns the expression of a value that is JSON, or text as it stands if the schema says string."""
    kind = _kind(schema)
    if kind == "string":
        return _choice(schema) or rules.free_text(end, unlike)
    bounds = {"minimum": -_LARGEST, "maximum": _LARGEST} if kind in ("integer", "number") else {}
    return _json({"allOf": [schema, bounds]} if bounds else schema)


# --- Gemma 4 -----------------------------------------------------------------------------------------

_QUOTE = '<|"|>'


def _gemma4(rules: _Rules, offer: Offer) -> str:
    return f"{rules.text(f'call:{offer.name}')} {_gemma_object(rules, offer.schema, offer.name)}"


def _gemma_object(rules: _Rules, schema: Mapping[str, Any] | None, where: str) -> str:
    """Returns the expression of an object: keys without quotes, a comma between its properties."""
    after = rules.rule('""')  # what may follow the last property, with and without one before it
    first = after
    for name, value, required in reversed(_properties(schema, where)):
        if not name.isidentifier():
            raise UsageError(f"the property {name!r} of {where!r} is not a word, which this model's format needs")
        one = rules.rule(f"{rules.text(f'{name}:')} {_gemma_value(rules, value, where)}")
        first = rules.rule(f"{one} {after}" + ("" if required else f" | {first}"))
        after = rules.rule(f'"," {one} {after}' + ("" if required else f" | {after}"))
    return f'"{{" {first} "}}"'


def _gemma_value(rules: _Rules, schema: Mapping[str, Any], where: str) -> str:
    kind = _kind(schema)
    if kind == "string":
        quote = rules.text(_QUOTE)
        return f"{quote} ({_choice(schema) or rules.free_text(_QUOTE)}) {quote}"
    if kind == "object":
        return _gemma_object(rules, schema, where)
    if kind == "array":
        _only(schema, (*_NOTES, "items"), where)
        item = rules.rule(_gemma_value(rules, schema.get("items", {}), where))
        return f'"[" ({item} ("," {item})*)? "]"'
    return _json(schema)


# --- schemas of named properties -----------------------------------------------------------------------


def _properties(schema: Mapping[str, Any] | None, where: str) -> list[tuple[str, Mapping[str, Any], bool]]:
    """Returns name, schema and whether it is required, of each property. Raises UsageError for schemas that say more
    than their properties do. Any object has none: nothing is known of it."""
    schema = _ANY if schema is None else schema
    _only(schema, _OBJECT, where)
    properties: Any = schema.get("properties", {})
    required: Any = schema.get("required", [])
    if schema.get("type", "object") != "object" or not isinstance(properties, dict) or not isinstance(required, list):
        raise UsageError(f"the schema of {where!r} is not that of an object: correct it")
    if not set(map(str, required)) <= set(properties):
        raise UsageError(f"the schema of {where!r} requires a property that it does not describe: describe it")
    named = {name: one for name in ("$defs", "definitions") if isinstance(one := schema.get(name), dict)}
    found: list[tuple[str, Mapping[str, Any], bool]] = []
    for name, value in properties.items():
        if not _KEY.fullmatch(name) or not isinstance(value, dict):
            raise UsageError(f"the property {name[:64]!r} of {where!r} cannot be written in this model's format")
        found.append((name, value | named if named else value, name in required))
    return found


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if not isinstance(kind, str) or kind not in _PLAIN:
        raise UsageError(
            "in this model's format the schema of each property has one type: give it one, or leave out strict"
        )
    return kind


def _choice(schema: Mapping[str, Any]) -> str:
    """Returns the expression of the texts that a schema lists, "" for any text."""
    _only(schema, (*_NOTES, "enum", "const"), "a text")
    texts = [schema["const"]] if "const" in schema else schema.get("enum", [])
    if not all(isinstance(text, str) and text and text == text.strip() for text in texts):
        raise UsageError("the texts that a schema lists cannot be empty, or begin or end with blanks, in this format")
    return " | ".join(json.dumps(text) for text in texts) and f"({' | '.join(json.dumps(text) for text in texts)})"


def _only(schema: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    other = sorted(set(schema) - set(known))
    if other:
        what = f"in this model's format the schema of {where!r} cannot have {other[0][:40]!r}"
        raise UsageError(f"{what}: leave it out, or leave out strict and the choice of a tool")
