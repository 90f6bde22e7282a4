"""Grammars of calls of tools, in the form that a model's parser reads.

A grammar decides whether a reply calls a tool, which one, and whether the arguments follow its JSON Schema. It has the
text between calls free, apart from the tokens that the tokenizer never splits. Formats whose arguments are JSON take
any schema. Those that put each argument between tags, and Gemma 4's, have the properties in the order of the schema;
text stands there as it is, so it is free wherever the schema allows text, and listed where the schema lists it.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import UsageError
from engine.settings import Grammar
from models.grammar_matcher import json_expression
from models.json_schemas import properties_of, resolved, types_of
from models.tool_formats import JsonForm, ToolFormat

_KEY = re.compile(r"[^<>\"=:\s,{}\[\]]{1,64}")
_LARGEST = 2**53 - 1  # integers beyond it are not kept by parsers that read them as floats
_DEEPEST = 5  # levels of schemas within each other, in Gemma 4's form
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
    texts: dict[str, str] = field(default_factory=dict)  # the expressions of `text_until`, by the end

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

    def text_until(self, end: str) -> str:
        """Returns the expression of any text and the first `end` after it. Where `end` is a token, no text contains
        it."""
        if end not in self.texts:
            name = f"t{len(self.lines)}"
            self.lines.append(f"{name.upper()}: /(.|\\n)*/")
            if end in self.added:
                self.texts[end] = f"{name.upper()} {self.text(end)}"
            else:
                self.lines.append(f"{name}[lazy]: {name.upper()} {json.dumps(end)}")
                self.texts[end] = name
        return self.texts[end]


_Writer = Callable[[_Rules, Offer], str]


def tool_grammar(
    format_: ToolFormat,
    offers: Sequence[Offer],
    added: Mapping[str, int],
    required: bool,
    several: bool,
    answer: Grammar | None = None,
) -> Grammar:
    """Returns the grammar of a reply that may call these tools. required: whether it must, and then has no other text.
    several: whether it may call more than once. answer: what a reply without a call follows, None where it is free.
    Raises UsageError for formats and schemas without a grammar."""
    form = _form(format_)
    rules = _Rules(added)
    calls = rules.rule(" | ".join(form.writer(rules, offer) for offer in offers))
    if several and form.within:
        calls = f"{calls} ({rules.text(form.separator)} {calls})*" if form.separator else f"{calls}+"
    marks = [rules.text(format_.start), rules.text(form.before), calls, rules.text(form.after), rules.text(format_.end)]
    start, rest = marks[0], " ".join(mark for mark in marks[1:] if mark)
    repeats = several and not form.within and bool(format_.end or format_.parser == "mistral")
    lines = ["TEXT: /(.|\\n)+/", "BREAK: /\\n{1,2}/", 'KEY: /[^<>="\\s]{1,64}/']
    if required or answer is not None:
        block = rules.rule(f"{start} {rest}")
        called = f"BREAK? {block}" + (f" (BREAK? {block})*" if repeats else "")
        if answer is None or required:
            lines.append(f"start: {called}")
        else:
            lines += [f"start: {called} | answer", f"answer: {json_expression(json.loads(answer.source))}"]
    elif start.startswith("<["):
        block = rules.rule(f"{start} {rest}")
        lines.append(f"start: TEXT? ({block} TEXT?)*" if repeats else f"start: TEXT? {block}?")
    elif format_.start.startswith("{"):  # a whole answer is a call, or none of it
        block = rules.rule(f"{start} {rest}")
        lines += [f"start: {block} | OTHER?", "OTHER: /[^{](.|\\n)*/"]
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


def has_grammar(format_: ToolFormat) -> bool:
    """Whether calls of a format can be constrained."""
    return _known_form(format_) is not None


def _form(format_: ToolFormat) -> _Form:
    """Returns how calls of a format are written. Raises UsageError for one without a grammar."""
    if (form := _known_form(format_)) is None:
        what = f"this model writes calls in the format {format_.parser}, for which there is no grammar"
        raise UsageError(f"{what}: leave out response_format, and a tool_choice other than auto or none")
    return form


def _known_form(format_: ToolFormat) -> _Form | None:
    """Returns how calls of a format are written, None for one without a grammar."""
    if format_.parser == "mistral":
        return _Form(_named_json) if format_.headers else _Form(_json_object, "[", "]", True, ", ")
    if format_.json is not None and format_.parser in ("json", "json_tools"):
        form = format_.json
        if form.listed:
            inside = JsonForm(form.before.strip()[1:], form.middle, form.after.strip()[:-1])
            return _Form(_learned(inside), "[", "]", True, ", ")
        return _Form(_learned(form))
    forms = {
        "json_tools": _Form(_json_object, "\n", "\n"),
        "kimi_k2": _Form(_kimi, within=True),
        "qwen3_coder": _Form(_qwen3_coder(format_.wrapped), "\n", "\n"),
        "minicpm5": _Form(_minicpm5),
        "gemma4": _Form(_gemma4),
    }
    if format_.parser == "arg_keys" and format_.start.endswith("tool_call>"):
        return _Form(_arg_keys(format_.start.removeprefix("<").removesuffix("tool_call>")))
    if format_.parser == "invoke":
        prefix = re.sub(r"(?:minimax:)?\w+>$", "", format_.start.removeprefix("<"))
        return _Form(_invoke(prefix), "\n", "\n", within=True, separator="\n")
    return forms.get(format_.parser)


# --- formats whose arguments are JSON ---------------------------------------------------------------


def _json_object(rules: _Rules, offer: Offer) -> str:
    head = json.dumps({"name": offer.name}, ensure_ascii=False)[:-1] + ', "arguments": '
    return f'{rules.text(head)} {_json(offer.schema)} "}}"'


def _learned(form: JsonForm) -> _Writer:
    """Returns the writer of a form that was read off the template."""

    def write(rules: _Rules, offer: Offer) -> str:
        head, tail = rules.text(f"{form.before}{offer.name}{form.middle}"), rules.text(form.after)
        return f"{head} {_json(offer.schema)} {tail}"

    return write


def _named_json(rules: _Rules, offer: Offer) -> str:
    return f"{rules.text(f'{offer.name}[ARGS]')} {_json(offer.schema)}"


def _kimi(rules: _Rules, offer: Offer) -> str:
    begin, end = rules.text(f"<|tool_call_begin|>functions.{offer.name}:"), rules.text("<|tool_call_end|>")
    return f"{begin} /[0-9]/ {rules.text('<|tool_call_argument_begin|>')} {_json(offer.schema)} {end}"


def _json(schema: Mapping[str, Any] | None) -> str:
    """Returns the expression of JSON that follows a schema. An object has the properties that the schema describes and
    no others, unless it says that there may be others: what nobody described is of no use to a tool."""
    schema = _ANY if schema is None else schema
    if "properties" in schema and "additionalProperties" not in schema and "patternProperties" not in schema:
        described, _ = properties_of(schema, schema) or ({}, frozenset())
        schema = {**schema, "additionalProperties": False, "properties": described}
    return json_expression(schema)


# --- formats that put each argument between tags -------------------------------------------------------

_Argument = Callable[[str, str, bool], str]  # name, expression of the value and its end, whether it is text


def _arg_keys(prefix: str) -> _Writer:
    """Returns the writer of GLM's form: the name, then <arg_key> and <arg_value> for each argument."""

    def write(rules: _Rules, offer: Offer) -> str:
        value_end = f"</{prefix}arg_value>"

        def argument(name: str, value: str, _: bool) -> str:
            key = f"{rules.text(f'<{prefix}arg_key>')} {name} {rules.text(f'</{prefix}arg_key>')}"
            return f"{key} BREAK? {rules.text(f'<{prefix}arg_value>')} {value} BREAK?"

        return f"{rules.text(offer.name)} BREAK? {_arguments(rules, offer, argument, value_end)}"

    return write


def _qwen3_coder(wrapped: bool) -> _Writer:
    """Returns the writer of Qwen3-Coder's form, or of Seed-OSS's, whose values stand on no lines of their own."""
    line = "\n" if wrapped else ""

    def write(rules: _Rules, offer: Offer) -> str:
        end = f"{line}</parameter>"

        def argument(name: str, value: str, _: bool) -> str:
            opening = f"{rules.text('<parameter=')} {name} {rules.text('>' + line)}"
            return f'{opening} {value} "\\n"'

        head = rules.text(f"<function={offer.name}>\n")
        return f"{head} {_arguments(rules, offer, argument, end)} {rules.text('</function>')}"

    return write


def _invoke(prefix: str) -> _Writer:
    """Returns the writer of the form of MiniMax M2, Muse and DeepSeek V3.2. prefix: of their tags."""
    typed = "DSML" in prefix

    def write(rules: _Rules, offer: Offer) -> str:
        end = f"</{prefix}parameter>"

        def argument(name: str, value: str, is_text: bool) -> str:
            kind = f' string="{"true" if is_text else "false"}"' if typed else ""
            opening = f"{rules.text(f'<{prefix}parameter name=' + chr(34))} {name} {rules.text(chr(34) + kind + '>')}"
            return f'{opening} {value} "\\n"'

        head = rules.text(f'<{prefix}invoke name="{offer.name}">\n')
        return f"{head} {_arguments(rules, offer, argument, end)} {rules.text(f'</{prefix}invoke>')}"

    return write


def _minicpm5(rules: _Rules, offer: Offer) -> str:
    end = "</param>"

    def argument(name: str, value: str, _: bool) -> str:
        return f"{rules.text('<param name=' + chr(34))} {name} {rules.text(chr(34) + '>')} {value}"

    return f"{rules.text(chr(34) + offer.name + chr(34) + '>')} {_arguments(rules, offer, argument, end)}"


def _arguments(rules: _Rules, offer: Offer, argument: _Argument, end: str) -> str:
    """Returns the expression of all arguments of a tool, in the order of its schema; of any arguments where it names
    none, or names that cannot be written. end: the text after a value."""
    properties = None if offer.schema is None else _properties(offer.schema, offer.name)
    if offer.schema is None or properties is None or not all(_KEY.fullmatch(name) for name, _, _ in properties):
        return f"({rules.rule(argument('KEY', rules.text_until(end), True))})*"
    expressions = []
    for name, schema, required in properties:
        kinds = types_of(schema, offer.schema)
        is_text = kinds is not None and "string" in kinds
        value = _tagged_value(rules, schema, offer.schema, end)
        one = rules.rule(argument(rules.text(name), value, is_text))
        expressions.append(one if required else f"{one}?")
    return " ".join(expressions)


def _tagged_value(rules: _Rules, schema: Mapping[str, Any], root: Mapping[str, Any], end: str) -> str:
    """Returns the expression of a value and its end: text as it stands wherever the schema allows text, else JSON."""
    kinds = types_of(schema, root)
    if kinds is None or "string" in kinds:
        choice = _choice(resolved(schema, root) or {})
        return f"{choice} {rules.text(end)}" if choice else rules.text_until(end)
    named = {name: one for name in ("$defs", "definitions") if isinstance(one := root.get(name), dict)}
    bounds = {"minimum": -_LARGEST, "maximum": _LARGEST} if kinds <= {"integer", "number"} else {}
    value = _json({"allOf": [schema, bounds], **named} if bounds else {**schema, **named})
    return f"{value} {rules.text(end)}"


# --- Gemma 4 -----------------------------------------------------------------------------------------

_QUOTE = '<|"|>'


def _gemma4(rules: _Rules, offer: Offer) -> str:
    root = _ANY if offer.schema is None else offer.schema
    return f"{rules.text(f'call:{offer.name}')} {_gemma_object(rules, offer.schema, root, offer.name)}"


def _gemma_any(rules: _Rules) -> str:
    """Returns the name of a rule for any value; there is one a grammar."""
    if "any:" not in (line[:4] for line in rules.lines):
        quote, text = rules.text(_QUOTE), rules.text_until(_QUOTE)
        rules.lines += [
            f'any: {quote} {text} | BARE | "[" (any ("," any)*)? "]" | fields',
            'fields: "{" (WORD ":" any ("," WORD ":" any)*)? "}"',
            "BARE: /-?[0-9]{1,15}(\\.[0-9]{1,15})?|true|false|null/",
            "WORD: /[A-Za-z_][A-Za-z0-9_.-]{0,63}/",
        ]
    return "any"


def _gemma_object(
    rules: _Rules, schema: Mapping[str, Any] | None, root: Mapping[str, Any], where: str, depth: int = 0
) -> str:
    """Returns the expression of an object: keys without quotes, a comma between its properties."""
    properties = None if schema is None else _properties(schema, where, root)
    if properties is None or not all(_KEY.fullmatch(name) for name, _, _ in properties):
        _gemma_any(rules)
        return "fields"
    after = rules.rule('""')  # what may follow the last property, with and without one before it
    first = after
    for name, value, required in reversed(properties):
        one = rules.rule(f"{rules.text(f'{name}:')} {_gemma_value(rules, value, root, where, depth + 1)}")
        first = rules.rule(f"{one} {after}" + ("" if required else f" | {first}"))
        after = rules.rule(f'"," {one} {after}' + ("" if required else f" | {after}"))
    return f'"{{" {first} "}}"'


def _gemma_value(rules: _Rules, schema: Any, root: Mapping[str, Any], where: str, depth: int = 0) -> str:
    found, kinds = resolved(schema, root), types_of(schema, root)
    if found is None or kinds is None or len(kinds) != 1 or depth > _DEEPEST:
        return _gemma_any(rules)
    if kinds == {"string"}:
        quote = rules.text(_QUOTE)
        choice = _choice(found)
        return f"{quote} {choice} {quote}" if choice else f"{quote} {rules.text_until(_QUOTE)}"
    if kinds == {"object"}:
        return _gemma_object(rules, found, root, where, depth)
    if kinds == {"array"}:
        item = rules.rule(_gemma_value(rules, found.get("items"), root, where, depth + 1))
        return f'"[" ({item} ("," {item})*)? "]"'
    return _json(found)


# --- schemas of named properties -----------------------------------------------------------------------


def _properties(
    schema: Mapping[str, Any], where: str, root: Mapping[str, Any] | None = None
) -> list[tuple[str, Any, bool]] | None:
    """Returns name, schema and whether it is required, of each property; None where the schema names none. Raises
    UsageError for what is no schema of an object. root: that references are within, the schema itself if not given."""
    kinds = types_of(schema, root or schema)
    if kinds is not None and "object" not in kinds:
        raise UsageError(f"the schema of {where!r} is not that of an object: correct it")
    found = properties_of(schema, root or schema)
    if found is None:
        return None
    properties, required = found
    return [(name, value, name in required) for name, value in properties.items()]


def _choice(schema: Mapping[str, Any]) -> str:
    """Returns the expression of the texts that a schema lists, "" where it lists none, or what cannot be written."""
    texts = [schema["const"]] if "const" in schema else schema.get("enum") or []
    if not texts or not all(isinstance(text, str) and text for text in texts):
        return ""
    return f"({' | '.join(json.dumps(text) for text in texts)})"
