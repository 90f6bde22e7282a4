"""Tags that are ordinary text are found wherever tokens end, and no text is lost or shown too early."""

import random

import pytest

from engine.reply_tags import TagCutter, TagReader, TextTags

TAGS = TextTags((("<think>", "</think>"), ("<thought>", "</thought>")), (("<answer>", "</answer>"),))
PARTS = ("<think>", "</think>", "<thought>", "</thought>", "<answer>", "</answer>", "<th", "</", "<", "a", " ", "\n")


def channels_of(text: str, sizes: list[int], closing: str = "") -> tuple[str, str, str]:
    """Returns thought, answer and marks of a text that comes in pieces."""
    cutter = TagCutter(TagReader(TAGS, closing))
    tokens, at = [], 0
    for size in sizes:
        tokens.append(cutter.push(text[at : at + size]))
        at += size
    tokens.append(cutter.push(text[at:]))
    cutter.finish()
    assert all(token.left == 0 and token.channel is not None for token in tokens)
    thought, answer = ("".join(one.text for one in tokens if one.channel == name) for name in ("thought", "answer"))
    return thought, answer, "".join(one.text for one in tokens if one.channel == "markup")


def test_tokens_of_any_size_give_what_tokens_of_one_character_give() -> None:
    rng = random.Random(1)
    for _ in range(500):
        parts, closing = rng.choices(PARTS, k=rng.randrange(9)), rng.choice(("", "</think>"))
        text = "".join(parts)
        single = channels_of(text, [1] * len(text), closing)
        assert channels_of(text, [len(part) for part in parts], closing) == single
        # A token with text on both sides of a tag belongs to what follows it, but nothing is lost.
        whole = channels_of(text, [rng.randint(1, 4) for _ in text], closing)
        assert sorted(whole[0] + whole[1]) == sorted(single[0] + single[1])


@pytest.mark.parametrize(
    ("text", "thought", "answer"),
    [
        ("<think>a</think>b", "a", "b"),
        ("<thought>a</think>b</thought>c", "a</think>b", "c"),
        ("<think>a</think> <answer>b</answer>c", "a", " bc"),
        ("<answer>b</answer>", "", "<answer>b</answer>"),
        ("b <think>a</think>", "", "b <think>a</think>"),
        ("<think>a", "a", ""),
        ("<thin", "", "<thin"),
    ],
)
def test_tags_count_where_they_can_stand(text: str, thought: str, answer: str) -> None:
    assert channels_of(text, [1] * len(text)) == (thought, answer, "")


def test_nothing_is_shown_of_what_may_become_a_tag() -> None:
    cutter = TagCutter(TagReader(TAGS))
    tokens = [cutter.push(text) for text in ("<", "thi", "nk>", "a</", "b", "</think", ">")]
    assert [token.text for token in tokens] == ["", "", "", "a</", "b", "", ""]
    cutter = TagCutter(TagReader(TAGS))
    first, second = cutter.push("<th"), cutter.push("x")
    assert (first.text, second.text, first.channel) == ("<th", "x", "answer")
