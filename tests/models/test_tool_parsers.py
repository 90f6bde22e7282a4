"""Calls of tools come back as they were written, whatever their arguments are; forms are told by what is written."""

import json
import random
from typing import Any

import pytest

from models.tool_formats import ToolFormat, tool_format
from models.tool_parsers import parse_calls

TOOL = {
    "type": "function",
    "function": {
        "name": "edit",
        "parameters": {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "maybe": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "either": {"type": ["string", "integer"]},
                "linked": {"$ref": "#/$defs/Text"},
                "count": {"type": "integer"},
                "deep": {"type": "object"},
            },
            "$defs": {"Text": {"type": "string"}},
        },
    },
}
OTHER = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}
CALL = "@@"
# How each form writes a call: before and after all arguments, and before, between and after each; texts as they are.
TAGGED = {
    "qwen3_coder": (
        "<tool_call>\n<function=edit>\n", "<parameter=", ">\n", "\n</parameter>\n", "</function>\n</tool_call>",
    ),
    "seed": (
        "<seed:tool_call>\n<function=edit>\n", "<parameter=", ">", "</parameter>\n", "</function>\n</seed:tool_call>",
    ),
    "glm": ("<tool_call>edit\n", "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", "</tool_call>"),
    "longcat": (
        "<longcat_tool_call>edit\n", "<longcat_arg_key>", "</longcat_arg_key><longcat_arg_value>",
        "</longcat_arg_value>", "</longcat_tool_call>",
    ),
    "hunyuan": (
        "<tool_call:x>edit<tool_sep:x>\n", "<arg_key:x>", "</arg_key:x>\n<arg_value:x>", "</arg_value:x>\n",
        "</tool_call:x>",
    ),
    "minimax_m2": (
        '<minimax:tool_call>\n<invoke name="edit">\n', '<parameter name="', '">', "</parameter>\n",
        "</invoke>\n</minimax:tool_call>",
    ),
    "muse": (
        '<atem:function_calls>\n<atem:invoke name="edit">\n', '<atem:parameter name="', '">', "</atem:parameter>\n",
        "</atem:invoke>\n</atem:function_calls>",
    ),
    "kimi_k3": (
        '<|open|>tools<|sep|><|open|>call tool="edit" index="1"<|sep|>', '<|open|>argument key="',
        '" type="string"<|sep|>', "<|close|>argument<|sep|>", "<|close|>call<|sep|><|close|>tools<|sep|>",
    ),
}  # fmt: skip
JSON = {
    "hermes": '<tool_call>\n{"name": "edit", "arguments": @@}\n</tool_call>',
    "apertus": '<|tools_prefix|>[{"edit": @@}]<|tools_suffix|>',
    "apriel": '<tool_calls>[{"name": "edit", "arguments": @@}]</tool_calls>',
    "cohere": '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "edit", "parameters": @@}\n]<|END_ACTION|>',
    "llama": '{"name": "edit", "parameters": @@}',
    "functionary": "<function=edit>@@</function>",
    "mistral small 3.2": "[TOOL_CALLS]edit[CALL_ID]abcdefgh1[ARGS]@@",
    "mistral nemo": '[TOOL_CALLS][{"name": "edit", "arguments": @@, "id": "abcdefgh1"}]',
    "solar": "<|tool_calls|><|tool_call:begin|>7<|tool_call:name|>edit<|tool_call:args|>@@<|tool_call:end|>",
    "deepseek": (
        "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>edit<\uff5ctool\u2581sep\uff5c>@@"
        "<\uff5ctool\u2581call\u2581end\uff5c><\uff5ctool\u2581calls\u2581end\uff5c>"
    ),
    "gigachat": '<|function_call|>{"name": "edit", "arguments": @@}<|message_sep|>',
}
AWKWARD = [
    "",
    " ",
    "null",
    "3",
    "true",
    '{"a": 1}',
    "[1]",
    "  x\n",
    "\n\nx\n\n",
    "a</b>",
    "x < 1 && y",
    'say "hi" \\n',
    "\u00e9\u4e2d",
]


def written(form: str, arguments: dict[str, str]) -> str:
    if form in JSON:
        return JSON[form].replace(CALL, json.dumps(arguments, ensure_ascii=False))
    before, opening, middle, closing, after = TAGGED[form]
    return before + "".join(f"{opening}{name}{middle}{value}{closing}" for name, value in arguments.items()) + after


def format_of(form: str) -> ToolFormat:
    found = tool_format("", written(form, {"text": "first line\nsecond line", "maybe": "x"}), "edit", "no-such-id")
    assert found is not None
    return found


def read_back(form: str, arguments: dict[str, str]) -> list[tuple[str, Any]]:
    format_ = format_of(form)
    text = written(form, arguments)
    assert text.startswith(format_.start) and format_.end in text
    body = text.removeprefix("" if format_.start.startswith("{") else format_.start)
    body = body[: body.rindex(format_.end)] if format_.end else body
    return [(call.name, json.loads(call.arguments)) for call in parse_calls(format_, body, [TOOL, OTHER])]


@pytest.mark.parametrize("form", [*TAGGED, *JSON])
def test_texts_come_back_as_they_were_written(form: str):
    random_ = random.Random(form)
    signs = [*"abc <>/=\"'{}[](),:;|\\\n\t_", "</parameter>", "<arg_key>", "</function>", "]]>", "\u00e9"]
    texts = [*AWKWARD, *("".join(random_.choices(signs, k=random_.randrange(1, 30))) for _ in range(300))]
    for text in texts:
        arguments = {"text": text, "linked": "l", "either": "7"}
        assert read_back(form, arguments) == [("edit", arguments)], text


@pytest.mark.parametrize("form", [form for form in TAGGED if form != "kimi_k3"])  # whose tags have the types themselves
def test_what_is_no_text_is_what_the_schema_says(form: str):
    arguments = {"text": "null", "maybe": "null", "either": "3", "count": "3", "deep": '{"a": [1, null]}'}
    right = {"text": "null", "maybe": None, "either": "3", "count": 3, "deep": {"a": [1, None]}}
    assert read_back(form, arguments) == [("edit", right)]
    python = read_back(form, {"deep": "{'a': None, 'b': True}"})
    assert python == [("edit", {"deep": {"a": None, "b": True}})]


def test_text_stays_text_where_the_schema_is_a_reference_or_a_word_without_quotes():
    linked = {"$ref": "#/$defs/X", "$defs": {"X": TOOL["function"]["parameters"]}}  # type: ignore[index]
    tool = {"function": {"name": "edit", "parameters": linked}}
    text = "<function=edit>\n<parameter=text>\n5\n</parameter>\n</function>"
    assert json.loads(parse_calls(format_of("qwen3_coder"), text, [tool])[0].arguments) == {"text": "5"}
    assert json.loads(parse_calls(ToolFormat("pythonic", "", ""), "[edit(text=true)]", [TOOL])[0].arguments) == {
        "text": "true"
    }


def test_blanks_without_end_take_no_time():
    with pytest.raises(ValueError, match="a call does not end"):
        parse_calls(format_of("glm"), "edit<arg_key>" + " " * 200_000, [TOOL])


@pytest.mark.parametrize(
    ("form", "text"),
    [
        (
            "qwen3_coder",
            "<function=edit>\n<parameter=text>\na\n</parameter>\n</function>\n<function=read>\n</function>\n",
        ),
        (
            "minimax_m2",
            '<invoke name="edit">\n<parameter name="text">a</parameter>\n</invoke>\n<invoke name="read">\n</invoke>',
        ),
        ("hermes", '{"name": "edit", "arguments": {"text": "a"}}\n{"name": "read", "arguments": {}}'),
        ("apertus", '[{"edit": {"text": "a"}}, {"read": {}}]'),
        ("llama", '{"name": "edit", "parameters": {"text": "a"}}; {"name": "read", "parameters": {}}'),
    ],
)  # fmt: skip
def test_two_calls_within_one_pair_of_marks_are_two(form: str, text: str):
    found = parse_calls(format_of(form), text, [TOOL, OTHER])
    assert [(call.name, json.loads(call.arguments)) for call in found] == [("edit", {"text": "a"}), ("read", {})]


M = "]<]minimax[>["
GEMMA = 'call:edit{text:<|"|>  a{b},\n<|"|>,count:3,deep:{x:[1,None,<|"|>y<|"|>]}}call:read{}'
M3 = f'{M}<invoke name="edit">{M}<text> a {M}</text>{M}<deep>{M}<x>{M}<item>1{M}</item>{M}</x>{M}</deep>{M}</invoke>'
PYTHON = "[edit(text='a\\n\\'b\\'', count=3, deep={'x': None}), read()]"


@pytest.mark.parametrize(
    ("parser", "raw", "text", "right"),
    [
        ("pythonic", False, PYTHON, {"text": "a\n'b'", "count": 3, "deep": {"x": None}}),
        (
            "pythonic",
            True,
            "[edit(text='a\n\"b\" \\ (c), d', count=3), read()]",
            {"text": 'a\n"b" \\ (c), d', "count": 3},
        ),
        ("gemma4", False, GEMMA, {"text": "  a{b},\n", "count": 3, "deep": {"x": [1, None, "y"]}}),
        ("function_gemma", False, "call:edit{text:<escape>a, b<escape>,count:3}", {"text": "a, b", "count": 3}),
        ("minicpm5", False, '"edit"><param name="text"><![CDATA[ <b> ]]></param>', {"text": " <b> "}),
        ("minimax_m3", False, M3, {"text": " a ", "deep": {"x": [1]}}),
        ("harmony", False, 'edit\n{"text": "a"}', {"text": "a"}),
    ],
)
def test_forms_of_their_own_are_read_exactly(parser: str, raw: bool, text: str, right: dict[str, Any]):
    found = parse_calls(ToolFormat(parser, "<", ">", raw=raw), text, [TOOL, OTHER])
    assert (found[0].name, json.loads(found[0].arguments)) == ("edit", right)
    assert [call.name for call in found[1:]] in ([], ["read"])


@pytest.mark.parametrize(
    "text",
    ["", "x", "{", '{"name": "no", "arguments": {}}', '{"name": "edit", "arguments": [1]}', "<parameter=text>" * 500],
)
@pytest.mark.parametrize("form", [*TAGGED, "hermes"])
def test_what_is_no_call_of_an_offered_tool_is_refused(form: str, text: str):
    with pytest.raises((ValueError, LookupError)):
        parse_calls(format_of(form), text, [TOOL])
