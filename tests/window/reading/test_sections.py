"""What a model thinks is told from what it says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.window.reading import Section, sections

CASES = {
    "plain text is one section": ("hello", [("text", "hello", False)]),
    "nothing is no section": ("", []),
    "thinking, then text": ("<think>\nhm\n</think>\n\nyes", [("think", "\nhm\n", False), ("text", "\n\nyes", False)]),
    "thinking that goes on": ("<think>\nhm", [("think", "\nhm", True)]),
    "thinking just begun": ("<think>", [("think", "", True)]),
    "the long tag": ("<thinking>a</thinking>b", [("think", "a", False), ("text", "b", False)]),
    "tags of any case": ("<THINK>a</Think>b", [("think", "a", False), ("text", "b", False)]),
    "twice": (
        "<think>a</think>b\n<think>c</think>d",
        [("think", "a", False), ("text", "b\n", False), ("think", "c", False), ("text", "d", False)],
    ),
    "within a line it is text": ("say <think> aloud", [("text", "say <think> aloud", False)]),
    "in a fence it is code": ("```\n<think>\n```\nx", [("text", "```\n<think>\n```\nx", False)]),
    "in a fence of tildes": ("~~~\n<think>\n", [("text", "~~~\n<think>\n", False)]),
    "an end in a fence ends nothing": (
        "<think>\n```\n</think>\n```\na</think>b",
        [("think", "\n```\n</think>\n```\na", False), ("text", "b", False)],
    ),
    "an end alone on its line ends what the template began": (
        "hm\n</think>\n\nyes",
        [("think", "hm\n", False), ("text", "\n\nyes", False)],
    ),
    "an end within a line is text": ("the tag </think> ends it", [("text", "the tag </think> ends it", False)]),
    "empty thinking is left out": ("<think>\n\n</think>\n\nyes", [("text", "\n\nyes", False)]),
}


@pytest.mark.parametrize("name", CASES)
def test_sections_are_found(name: str) -> None:
    source, expected = CASES[name]
    assert [(part.kind, source[part.start : part.end], part.open) for part in sections(source)] == expected


PARTS = st.lists(st.sampled_from(["<think>", "</think>", "<thinking>", "```", "\n", "a", " ", "~~~", "`"]), max_size=30)


@given(PARTS.map("".join))
def test_sections_are_in_order_and_lose_no_text(source: str) -> None:
    found: list[Section] = sections(source)
    places = [place for part in found for place in (part.start, part.end)]
    assert places == sorted(places)
    assert all(0 <= place <= len(source) for place in places)
    lost = set(range(len(source))).difference(*(range(part.start, part.end) for part in found))
    left = "".join(source[place] for place in sorted(lost))
    for tag in ("<think>", "</think>", "<thinking>"):
        left = left.replace(tag, "")
    assert not left.strip()
