"""Thought and answer are told apart by token ids, for each family of models, wherever rounds and breaks fall."""

from pathlib import Path

import pytest

from engine.events import Round
from engine.reply_channels import LONGEST_HEADER, ReplyFormat
from engine.reply_text import ReplyText
from models.template_switches import USUAL_EFFORTS
from models.tokenizer import FolderTokenizer
from tests.toys.reply_formats import FAMILIES, MORE_FAMILIES, ThinkingFamily, write_tokenizer

ALL = (*FAMILIES, *MORE_FAMILIES)
QUESTION = [{"role": "user", "content": "why <think> is <|channel|>analysis<|message|> [THINK] <longcat_think> it so"}]


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, FolderTokenizer]:
    root = tmp_path_factory.mktemp("families")
    return {family.name: FolderTokenizer(write_tokenizer(root / family.name, family)) for family in ALL}


def rounds_of(tokenizer: FolderTokenizer, prompt: list[int], rounds: list[list[int]], before: list[int]) -> list[Round]:
    """Returns the rounds of a reply with their texts. before: the part of it that is there already."""
    text = ReplyText(tokenizer.stream(), (), before, tokenizer.channels(prompt))
    found = []
    for i, tokens in enumerate(rounds):
        found += text.push(Round(i, tuple(tokens), (), 0, (1.0,) * len(tokens), (), 1, 0.0))
    return found + text.finish()[0]


def parts(rounds: list[Round]) -> tuple[str, str]:
    """Returns the thought and the answer."""
    pairs = [pair for one in rounds for pair in zip(one.texts, one.channels, strict=True)]
    thought, answer = ("".join(text for text, channel in pairs if channel == name) for name in ("thought", "answer"))
    assert not any(text for text, channel in pairs if channel == "markup")
    return thought, answer


each = pytest.mark.parametrize("family", ALL, ids=lambda family: family.name)


@each
def test_thought_and_answer_are_told_apart_at_every_split_over_rounds(
    tokenizers: dict[str, FolderTokenizer], family: ThinkingFamily
) -> None:
    tokenizer = tokenizers[family.name]
    prompt, ids = tokenizer.chat(QUESTION, **family.switches), tokenizer.pieces(family.reply)
    assert ids[-1] in tokenizer.eos
    splits = [[ids[at : at + size] for at in range(0, len(ids), size)] for size in range(1, 9)]
    splits += [[ids[:at], ids[at:]] for at in range(1, len(ids))]
    for split in splits:
        assert parts(rounds_of(tokenizer, prompt, split, [])) == (family.thought, family.answer)


@each
def test_a_reply_that_goes_on_anywhere_is_told_apart_as_if_it_had_never_stopped(
    tokenizers: dict[str, FolderTokenizer], family: ThinkingFamily
) -> None:
    tokenizer = tokenizers[family.name]
    prompt, ids = tokenizer.chat(QUESTION, **family.switches), tokenizer.pieces(family.reply)
    whole = [one.channels[0] for one in rounds_of(tokenizer, prompt, [[i] for i in ids], [])]
    for at in range(len(ids)):
        rest = rounds_of(tokenizer, prompt, [[i] for i in ids[at:]], ids[:at])
        assert [one.channels[0] for one in rest] == whole[at:]


@each
def test_the_next_question_gets_the_thoughts_that_the_template_wants(
    tokenizers: dict[str, FolderTokenizer], family: ThinkingFamily
) -> None:
    tokenizer = tokenizers[family.name]
    reply = {"role": "assistant", "content": family.answer, "thought": "a thought of before"}
    text = tokenizer.decode(tokenizer.chat([QUESTION[0], reply, QUESTION[0]], **family.switches))
    assert ("a thought of before" in text) == family.keeps
    assert family.answer.strip() in text


def test_switched_off_the_whole_reply_is_answer(tokenizers: dict[str, FolderTokenizer]) -> None:
    for name in ("qwen3", "qwen3.5", "longcat"):
        tokenizer = tokenizers[name]
        prompt = tokenizer.chat(QUESTION, thinking=False)
        assert prompt != tokenizer.chat(QUESTION)
        assert parts(rounds_of(tokenizer, prompt, [tokenizer.pieces("blue")], [])) == ("", "blue")
    gemma = tokenizers["gemma4"]  # whose template thinks only if it is told to
    assert parts(rounds_of(gemma, gemma.chat(QUESTION), [gemma.pieces("blue")], [])) == ("", "blue")


@pytest.mark.parametrize("name", ["qwen3", "mistral"])
def test_a_tag_that_the_user_wrote_opens_no_thought(tokenizers: dict[str, FolderTokenizer], name: str) -> None:
    tokenizer = tokenizers[name]
    assert parts(rounds_of(tokenizer, tokenizer.chat(QUESTION), [tokenizer.pieces("blue")], [])) == ("", "blue")


def test_the_switches_of_each_template_are_found(tokenizers: dict[str, FolderTokenizer]) -> None:
    found = {name: (one.switches.thinking, one.switches.efforts) for name, one in tokenizers.items()}
    found = {family.name: found[family.name] for family in FAMILIES}
    thinking = ("enable_thinking", ())
    assert found == {
        "qwen3": thinking,
        "qwen3.5": thinking,
        "r1": ("", ()),
        "gpt-oss": ("", USUAL_EFFORTS),
        "gemma4": thinking,
        "mistral": ("", ("none", "high")),
        "longcat": thinking,
    }


def test_a_switch_that_the_template_lacks_changes_nothing(tokenizers: dict[str, FolderTokenizer]) -> None:
    tokenizer = tokenizers["r1"]
    assert tokenizer.chat(QUESTION, thinking=False, effort="high") == tokenizer.chat(QUESTION)
    assert "Reasoning: low" in tokenizers["gpt-oss"].decode(tokenizers["gpt-oss"].chat(QUESTION, effort="low"))


@pytest.mark.parametrize(
    ("reply", "thought", "answer"),
    [
        ("<think>hm</think>b", "hm", "b"),
        ("\n<think>\na < b</thin\n</think>\n\nb", "\na < b</thin\n", "\n\n\nb"),
        ("a <think>b</think>", "", "a <think>b</think>"),
        ("<thin", "", "<thin"),
        ("<think>hm</thi", "hm</thi", ""),
    ],
)
def test_a_model_without_such_tokens_writes_its_tags_as_text(
    toy_folder: Path, reply: str, thought: str, answer: str
) -> None:
    tokenizer = FolderTokenizer(toy_folder)
    prompt, ids = tokenizer.chat(QUESTION), tokenizer.pieces(reply)
    for size in range(1, 9):
        split = [ids[at : at + size] for at in range(0, len(ids), size)]
        assert parts(rounds_of(tokenizer, prompt, split, [])) == (thought, answer)


def test_a_header_without_an_end_does_not_hide_the_reply() -> None:
    parser = ReplyFormat(headers=frozenset({9}), named=frozenset({9}), contents=frozenset({8})).after([])
    parser.push(9)
    channels = [parser.push(1) for _ in range(LONGEST_HEADER + 2)]
    assert channels[:LONGEST_HEADER] == ["markup"] * LONGEST_HEADER
    assert channels[LONGEST_HEADER:] == ["answer", "answer"]


def test_stop_strings_end_the_answer_and_not_the_thought(tokenizers: dict[str, FolderTokenizer]) -> None:
    tokenizer = tokenizers["qwen3"]
    ids = tokenizer.pieces("<think>END a</think>bEND c")
    text = ReplyText(tokenizer.stream(), ("END",), (), tokenizer.channels(tokenizer.chat(QUESTION)))
    rounds = text.push(Round(0, tuple(ids), (), 0, (1.0,) * len(ids), (), 1, 0.0))
    assert text.stopped
    assert parts(rounds) == ("END a", "b")
