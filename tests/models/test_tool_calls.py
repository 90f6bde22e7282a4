"""Calls of tools in each family's own format: offered, written again, parsed at every split, and kept from harm."""

import json
from typing import Any

import pytest

from app.inference.tool_call_reader import call_reader
from engine.events import Finished, Round
from engine.reply_text import ReplyText
from models.tokenizer import FolderTokenizer
from models.tool_formats import HARMONY
from tests.toys.reply_formats import write_tokenizer
from tests.toys.tool_families import CALLS, FAMILIES, RESULT, TOOLS, ToolFamily

QUESTION = [{"role": "user", "content": "what about <tool_call> and [TOOL_CALLS]"}]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FolderTokenizer]:
    root = tmp_path_factory.mktemp("families")
    return {one.name: FolderTokenizer(write_tokenizer(root / one.name, one.model)) for one in FAMILIES}


def parts_of(tokenizer: FolderTokenizer, prompt: list[int], rounds: list[list[int]]) -> tuple[str, str, list[Any]]:
    """Returns thought, answer and calls of a reply that came in these rounds."""
    text, calls = ReplyText(tokenizer.stream(), (), (), tokenizer.channels(prompt)), call_reader(tokenizer, TOOLS)
    whole, found = {"thought": "", "answer": "", "call": "", "markup": ""}, []
    ready: list[Round] = []
    for i, tokens in enumerate(rounds):
        ready += text.push(Round(i, tuple(tokens), (), 0, (1.0,) * len(tokens), (), 1, 0.0))
    rest, tail = text.finish()
    for one in ready + rest:
        told, ended = calls.push(one)
        found += ended
        for channel in whole:
            whole[channel] += told.text_in(channel)  # type: ignore[arg-type]
    ended_by = "eos" if rounds[-1] and rounds[-1][-1] in tokenizer.eos else "length"
    last, ended = calls.finish(Finished(ended_by, 0, 0.0, tail))  # type: ignore[arg-type]
    assert not whole["call"] and not whole["markup"]
    return (
        whole["thought"],
        whole["answer"] + last.text,
        [(one.name, json.loads(one.arguments)) for one in found + ended],
    )


each = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@pytest.mark.slow_for("minicpm5", "hermes", "kimi-k2", "qwen3-coder")
@each
def test_calls_are_found_at_every_split_over_rounds(tokenizers: dict[str, FolderTokenizer], family: ToolFamily) -> None:
    tokenizer = tokenizers[family.name]
    assert tokenizer.tools is not None and tokenizer.tools.parser == family.parser
    prompt, ids = tokenizer.chat(QUESTION, tools=TOOLS), tokenizer.pieces(family.model.reply)
    assert ids[-1] in tokenizer.eos
    splits = [[ids[at : at + size] for at in range(0, len(ids), size)] for size in (1, 2, 3, 5, 8, len(ids))]
    splits += [[ids[:at], ids[at:]] for at in range(1, len(ids))]
    expected = (family.model.thought, family.model.answer, CALLS[: family.calls])
    for split in splits:
        assert parts_of(tokenizer, prompt, split) == expected


@each
def test_calls_are_found_at_every_division_of_the_text_into_tokens(
    tokenizers: dict[str, FolderTokenizer], family: ToolFamily
) -> None:
    """Byte by byte, but for tokens that are never split. Not of what the words of a header or label say, whose tokens
    are known."""
    tokenizer = tokenizers[family.name]
    if family.parser == HARMONY:
        return
    ids: list[int] = []
    for token in tokenizer.pieces(family.model.reply[family.model.reply.index("I look.") :]):
        ids += [token] if token in tokenizer.added.values() else _bytes(tokenizer, token)
    answer = "I look." + family.model.answer.partition("I look.")[2]
    found = parts_of(tokenizer, tokenizer.chat(QUESTION, tools=TOOLS), [[one] for one in ids])
    assert found == ("", answer, CALLS[: family.calls])


def _bytes(tokenizer: FolderTokenizer, token: int) -> list[int]:
    """The tokens of the single bytes of a token of the byte-level toys."""
    text = tokenizer._fast.id_to_token(token)
    return [tokenizer._fast.token_to_id(sign) for sign in text]


@pytest.mark.slow_for("hermes", "minicpm5", "qwen3-coder")
@each
def test_what_ends_within_a_call_or_is_none_is_text(tokenizers: dict[str, FolderTokenizer], family: ToolFamily) -> None:
    """Cut after every third token."""
    tokenizer = tokenizers[family.name]
    prompt, ids = tokenizer.chat(QUESTION, tools=TOOLS), tokenizer.pieces(family.model.reply)
    for at in range(1, len(ids) - 1, 3):
        _, text, calls = parts_of(tokenizer, prompt, [[one] for one in ids[:at]])
        assert calls == CALLS[: len(calls)]
        written = tokenizer._fast.decode(ids[:at], skip_special_tokens=False)
        if not calls and family.written[:20] in written and family.parser != HARMONY:
            assert written[written.index(family.written[:20]) :].rstrip("\ufffd") in text
    wrong = tokenizer.pieces(family.model.reply.replace("weather", "unknown"))
    _, text, calls = parts_of(tokenizer, prompt, [wrong])
    assert ("unknown", CALLS[0][1]) not in calls and ("3" in text)


@each
def test_calls_and_results_of_before_go_back_through_the_template(
    tokenizers: dict[str, FolderTokenizer], family: ToolFamily
) -> None:
    tokenizer = tokenizers[family.name]
    calls = [
        {"id": f"a{i}b2c3d4e", "name": name, "arguments": json.dumps(given)} for i, (name, given) in enumerate(CALLS)
    ]
    turns = [
        *QUESTION,
        {"role": "assistant", "content": "I look.", "calls": calls[: family.calls]},
        {"role": "tool", "content": RESULT, "call_id": "a0b2c3d4e", "name": "weather"},
    ]
    ids = tokenizer.chat(turns, tools=TOOLS)
    text = tokenizer._fast.decode(ids, skip_special_tokens=False)
    assert family.written in text and RESULT in text
    assert tokenizer.chat(turns) != ids


HOSTILE = [
    "", "\n", "{", '{"name": "weather"}', '{"name": ["weather"], "arguments": {}}',
    '{"name": "weather", "arguments": [1]}',
    '{"name": "weather", "arguments": {"a": NaN}}', '{"name": "weather", "arguments": {"a": "\\ud800"}}',
    '{"name": "weather", "arguments": {"a": ' + "[" * 5000 + "]" * 5000 + "}}", '{"name": "w", "arguments": "{"}',
    "call:w{" * 2000, "call:w{" + "{" * 3000, '<function name="w">' * 2000, "w" + "<arg_key>" * 4000, "w[ARGS]" * 3000,
    "<function=w>" + "<parameter=a>" * 3000 + "</function>", "w<arg_key>a</arg_key><arg_value>{1, 2}</arg_value>",
    "[w(" + "a=[" * 500 + ")]", "w<arg_key>a</arg_key><arg_value>9**9**9</arg_value>", "w\n1e999",
]  # fmt: skip


@pytest.mark.slow_for("minicpm5")
@each
def test_hostile_calls_end_nothing(tokenizers: dict[str, FolderTokenizer], family: ToolFamily) -> None:
    tokenizer = tokenizers[family.name]
    for text in HOSTILE:
        for call in tokenizer.calls(text, TOOLS):
            assert call.name in ("weather", "w") and isinstance(json.loads(call.arguments), dict)
            call.arguments.encode()
    assert tokenizer.pieces("still there")


def test_a_parser_that_takes_too_long_finds_nothing(
    tokenizers: dict[str, FolderTokenizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """mlx-lm's parser of this family takes the square of what it is given."""
    monkeypatch.setattr("models.tokenizer.PARSE_S", 0.1)
    tokenizer = tokenizers["minicpm5"]
    assert tokenizer.calls('<function name="w">' * 20_000, TOOLS) == []
    assert tokenizer.pieces("still there")
