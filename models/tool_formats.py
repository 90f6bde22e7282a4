"""How a model writes calls of tools: found in its chat template, and in what the template writes for an earlier call.

A form is known by a mark in it. Forms whose arguments are one JSON object need no entry here: `tool_format` reads the
marks around the object off what the template writes. The parsers are in `models.tool_parsers`.
"""

from __future__ import annotations

import json
import re
from typing import NamedTuple

import msgspec

from models.reply_format import TAGS, paired

HARMONY = "harmony"
RECIPIENT_MARK = ">>>"  # Functionary 3.2: before the name of who is spoken to
_HARMONY_MARKS = ("<|channel|>", "<|message|>", "<|call|>")
LONGEST_NAME = 128  # characters
NAME = re.compile(rf"[A-Za-z0-9_.:/@-]{{1,{LONGEST_NAME}}}")


class ToolFormat(msgspec.Struct, frozen=True):
    """How a model writes calls.

    parser: how what stands between the marks is read (`models.tool_parsers`). start, end: the texts around calls; no
    end where it goes on to the next start or the end of the reply. A start that begins with a brace belongs to the
    call, and only an answer that begins with it is one. bare: a text with which a call begins where the model leaves
    the start out. headers: whether a call has the name in [ARGS]'s form, where the parser knows two. wrapped: whether
    the value of an argument stands on lines of its own. raw: whether texts stand between quotes as they are, without
    escapes. json: how a call with JSON arguments is written, where that was read off the template.
    """

    parser: str
    start: str
    end: str
    bare: str = ""
    headers: bool = False
    wrapped: bool = False
    raw: bool = False
    json: JsonForm | None = None


class JsonForm(msgspec.Struct, frozen=True):
    """How a call with JSON arguments stands between its marks: the text before the name, between name and arguments,
    and after these. listed: whether calls stand in a list, whose brackets are in `before` and `after`."""

    before: str
    middle: str
    after: str
    listed: bool = False


class _Form(NamedTuple):
    """A form that has a parser of its own. mark: by which it is known. start: the first of the marks around calls, as
    an expression. end: the last one; "</" makes it of the first. bare: as in ToolFormat."""

    mark: str
    parser: str
    start: str
    end: str
    bare: str = ""


_FORMS = (  # the first whose mark is there counts
    _Form("]<]minimax[>[<tool_call>", "minimax_m3", r"\]<\]minimax\[>\[<tool_call>", "]<]minimax[>[</tool_call>"),
    _Form("<|open|>call tool=", "kimi_k3", r"<\|open\|>tools<\|sep\|>", "<|close|>tools<|sep|>"),
    _Form("<|tool_call>call:", "gemma4", r"<\|tool_call>", "<tool_call|>"),
    _Form("<start_function_call>", "function_gemma", r"<start_function_call>", "<end_function_call>"),
    _Form("<|tool_call_start|>", "pythonic", r"<\|tool_call_start\|>", "<|tool_call_end|>"),
    _Form("<|tool_calls_section_begin|>", "kimi_k2", r"<\|tool_calls_section_begin\|>", "<|tool_calls_section_end|>"),
    _Form("<function name=", "minicpm5", "<function name=", "</function>"),
    _Form('invoke name="', "invoke", r"<(?:[\w:\uff5c|]+)?(?:function_calls|tool_calls|tool_call)>", "</"),
    _Form("arg_key", "arg_keys", r"<(?:\w+_)?tool_call(?::\w+)?>", "</"),
    _Form("<parameter=", "qwen3_coder", r"<(?:\w+:)?tool_call>", "</", "<function="),
    _Form("[TOOL_CALLS]", "mistral", r"\[TOOL_CALLS\]", ""),
    _Form("<function=", "json", "<function=", "</function>"),
    _Form("<TOOLCALL>", "json", "<TOOLCALL>", "</TOOLCALL>"),
    _Form("<|tool_call|>", "json", r"<\|tool_call\|>", ""),
    _Form("<\uff5ctool\u2581calls\u2581begin\uff5c>", "json", "<\uff5ctool\u2581calls\u2581begin\uff5c>",
          "<\uff5ctool\u2581calls\u2581end\uff5c>"),
    _Form("<tool_call>", "json_tools", "<tool_call>", "</tool_call>"),
)  # fmt: skip
_TAG = re.compile(r"<[^<>\s]{1,40}>|\[[A-Z_]{3,30}\]")
_CLOSINGS = (("<", "</"), ("start", "end"), ("begin", "end"), ("prefix", "suffix"), ("START", "END"), ("BEGIN", "END"))


def tool_format(template: str, written: str = "", name: str = "", call_id: str = "") -> ToolFormat | None:
    """Returns how a model writes calls, None where that is not known.

    template: for conversations with tools. written: what it writes for a turn of the assistant's with one call, "" if
    it leaves calls out; an argument of it is a text of two lines. name: of the tool that is called. call_id: of the
    call.
    """
    if all(mark in template for mark in _HARMONY_MARKS):
        return ToolFormat(HARMONY, "<|channel|>", "<|call|>")
    form = _json_format(written, name, call_id) if written else None
    known = next((one for one in _FORMS if one.mark in (written or template)), None)
    if known is None or (known.parser == "json" and form is not None and form.start == known.start):
        return form
    found = _of(known, written or template)
    if found is not None and form is not None and form.start == found.start:
        return msgspec.structs.replace(found, json=form.json)
    return found


UNKNOWN = ToolFormat("json_tools", "<tool_call>", "</tool_call>")  # which most templates have


def _of(form: _Form, text: str) -> ToolFormat | None:
    """Returns a form with the marks that it has in a text."""
    found = re.search(form.start, text)
    start = found[0] if found is not None else ""
    end = start.replace("<", "</", 1) if form.end == "</" else form.end
    if not start:  # calls without marks around them
        start, end = form.bare, ""
    if not start:
        return None
    return ToolFormat(
        form.parser,
        start,
        end,
        bare=form.bare if form.bare != start else "",
        headers="[ARGS]" in text,
        wrapped=re.search(r">\n[^<\n]*\n[^<\n]*\n</", text) is not None,
        raw=re.search(r"='[^'\n]*\n", text) is not None,
    )


# --- forms whose arguments are one JSON object -----------------------------------------------------------------------


def _json_format(written: str, name: str, call_id: str) -> ToolFormat | None:
    """Returns the form of a call whose arguments are written as a JSON object, None where they are not."""
    place = written.find(name)
    brace = written.find("{", place + len(name)) if place >= 0 else -1
    if brace < 0:
        return None
    try:
        _, ends = json.JSONDecoder().raw_decode(written, brace)
    except ValueError:
        return None
    start, before = _start_of(written[:place])
    if not start:
        return ToolFormat("json", RECIPIENT_MARK, "") if place == 0 else None
    end = _end_of(start, written[ends:])
    after = written[ends : written.index(end, ends)] if end else _closing(before)
    middle = written[place + len(name) : brace]
    listed = before.strip().startswith("[")
    form = None if call_id in before + middle else JsonForm(before, middle, after, listed)
    return ToolFormat("json", start, end, json=form)


def _closing(before: str) -> str:
    """Returns the brackets that close those of a text."""
    return "".join({"{": "}", "[": "]"}[sign] for sign in reversed(before) if sign in "{[")


def _start_of(prefix: str) -> tuple[str, str]:
    """Returns the mark with which calls begin, and what stands between it and the name. prefix: what is written before
    the first name."""
    first = next((tag for tag in _TAG.finditer(prefix) if not _is_thought(tag[0])), None)
    if first is not None:
        return first[0], prefix[first.end() :]
    brace = prefix.find("{")
    mark = prefix[brace:].rstrip('" ').removesuffix(":") if brace >= 0 else ""  # {"name"
    return mark, prefix[brace + len(mark) :] if mark else prefix


def _end_of(start: str, suffix: str) -> str:
    """Returns the mark with which calls end, "" if that is not known. suffix: what is written after the arguments."""
    closings = {start.replace(one, other, 1) for one, other in _CLOSINGS if one in start} - {start}
    return next((tag[0] for tag in _TAG.finditer(suffix) if tag[0] in closings), "")


def _is_thought(tag: str) -> bool:
    opening = tag.replace("</", "<", 1).replace("[/", "[", 1)
    return paired(opening) is not None or any(tag in pair for pair in TAGS)
