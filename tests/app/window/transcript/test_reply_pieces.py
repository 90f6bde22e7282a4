"""A reply is divided into thoughts, text and pieces in the same places however it arrives, at bounded cost."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.reply import Section
from app.window.markdown.source_pieces import BUDGET, LONGEST, ReplyPieces, parse_cost, sections
from tests.app.window.transcript.samples import CODE, PARAGRAPH, REPLY, THOUGHT

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
    "an end alone on its line ends nothing": ("hm\n</think>\n\nyes", [("text", "hm\n</think>\n\nyes", False)]),
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


LONG_CODE = "```python\n" + "\n".join(CODE.splitlines()[1:-1] * 60) + "\n```\n\nDone."
SOURCES = {
    "markdown": (REPLY + "\n\n") * 6,
    "thought": THOUGHT + REPLY * 3,
    "long thought": "<think>\n" + (PARAGRAPH + "\n\n") * 20 + "</think>\n\n" + REPLY,
    "one line": "word " * 6000,
    "no blank": "x" * 20_000,
    "long code": LONG_CODE,
    "a line, then code": "word " * 1500 + "\n\n" + LONG_CODE,
    "late tag": (PARAGRAPH + "\n\n") * 12 + "\n</think>\n\nSo: yes.",
    "open thought": THOUGHT + "Well.\n\n<think>\n" + PARAGRAPH,
    "empty": "",
    "code with tags": "```\n<think>\n```\n\n" + PARAGRAPH,
}


def whole(source: str) -> ReplyPieces:
    pieces = ReplyPieces()
    pieces.follow(source, whole=True)
    while not pieces.complete:
        pieces.follow(source, whole=True)
    return pieces


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("seed", range(3))
def test_pieces_do_not_depend_on_how_the_source_arrived(name: str, seed: int) -> None:
    source, chance, streamed = SOURCES[name], random.Random(seed), ReplyPieces()
    at = 0
    while at < len(source):
        at += chance.choice((1, 3, 20, 700)) if len(source) < 3000 else chance.choice((60, 400, 3000))
        streamed.follow(source[:at], whole=False)
    streamed.follow(source, whole=True)
    while not streamed.complete:
        streamed.follow(source, whole=True)
    assert streamed.pieces == whole(source).pieces
    assert streamed.sections == whole(source).sections


@pytest.mark.parametrize("name", SOURCES)
def test_pieces_cover_every_section_and_none_is_longer_than_can_be_laid_out_at_once(name: str) -> None:
    pieces = whole(SOURCES[name])
    for index, section in enumerate(pieces.sections):
        own = [piece for piece in pieces.pieces if piece.section == index]
        assert (own[0].start, own[-1].end) == (section.start, section.end)
        assert all(a.end == b.start for a, b in itertools.pairwise(own))
        assert all(piece.end - piece.start <= LONGEST for piece in own)


def test_code_that_was_cut_goes_on_as_code() -> None:
    pieces = whole(LONG_CODE).pieces
    within = [piece for piece in pieces[1:] if piece.start < LONG_CODE.rindex("```")]
    assert within and all(piece.carry == "```python\n" for piece in within)
    assert all(LONG_CODE[piece.start - 1] == "\n" for piece in within)


def test_what_was_settled_is_not_looked_at_again() -> None:
    source, pieces = SOURCES["markdown"], ReplyPieces()
    pieces.follow(source[:9000], whole=False)
    before = [piece for piece in pieces.pieces if piece.final]
    pieces.follow(source, whole=False)
    assert len(before) > 2
    assert pieces.pieces[: len(before)] == before


# What once froze the window for seconds: a first line that is no fence although it begins like one, tables, lists.
COSTLY = {
    "a line like a fence": "```" + "a" * 1990 + "`\n" + "x\n" * 6000,
    "a fence with a long name": "```" + "a" * 1900 + "\n" + "x\n" * 6000,
    "a table": "| a | b |\n| - | - |\n" + "| x | y |\n" * 4800,
    "tables": "|a|\n|-|\n|b|\n\n" * 4000,
    "nested lists": "".join("  " * (i % 12) + "- a\n" for i in range(6000)),
    "short lines": "x\n" * 24_000,
    "tags": "<think>\n```\n</think>\n" * 2000,
}


@pytest.mark.slow_for("tables")
@pytest.mark.parametrize("name", COSTLY)
def test_the_work_on_a_costly_source_is_linear_and_bounded_a_frame(name: str) -> None:
    source, pieces, calls = COSTLY[name], ReplyPieces(), 0
    most = BUDGET + 4 * LONGEST * 21  # a call may exceed its budget by one piece
    while not calls or not pieces.complete:
        before, calls = pieces.cost, calls + 1
        pieces.follow(source, whole=True)
        assert pieces.cost - before <= most
    assert pieces.cost <= 5 * parse_cost(source)
    assert all(len(piece.carry) < 60 for piece in pieces.pieces)
    before = pieces.cost
    pieces.follow(source + "x\n", whole=True)
    assert pieces.cost - before <= 5 * parse_cost("x\n" * LONGEST)
