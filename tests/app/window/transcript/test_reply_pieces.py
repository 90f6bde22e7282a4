"""A reply is divided into pieces of its thoughts and answers in the same places however it arrives, at bounded cost."""

import itertools
import random

import pytest

from app.reply import Section
from app.window.markdown.source_pieces import BUDGET, LONGEST, ReplyPieces, parse_cost
from tests.app.window.transcript.samples import CODE, PARAGRAPH, REPLY, THOUGHT

LONG_CODE = "```python\n" + "\n".join(CODE.splitlines()[1:-1] * 60) + "\n```\n\nDone."
SOURCES = {
    "markdown": (REPLY + "\n\n") * 6,
    "thought": THOUGHT + REPLY * 3,
    "long thought": (PARAGRAPH + "\n\n") * 20 + REPLY,
    "one line": "word " * 6000,
    "no blank": "x" * 20_000,
    "long code": LONG_CODE,
    "a line, then code": "word " * 1500 + "\n\n" + LONG_CODE,
    "late tag": (PARAGRAPH + "\n\n") * 12 + "\n</think>\n\nSo: yes.",
    "open thought": THOUGHT + "Well.\n\n" + PARAGRAPH,
    "empty": "",
    "code with tags": "```\n<think>\n```\n\n" + PARAGRAPH,
}


# Where each part of a source ends that has several, thoughts and answers in turn.
ENDS = {
    "thought": [len(THOUGHT)],
    "long thought": [len(PARAGRAPH + "\n\n") * 20],
    "open thought": [len(THOUGHT), len(THOUGHT + "Well.\n\n")],
}


def sections_of(name: str, length: int) -> list[Section]:
    """Returns the sections of a source of which so many characters have come."""
    starts = [0, *(end for end in ENDS.get(name, ()) if end < length)]
    ends = [*starts[1:], length]
    kinds = itertools.cycle(("think", "text") if name in ENDS else ("text",))
    return [
        Section("think" if kind == "think" else "text", start, end, end == length)
        for kind, start, end in zip(kinds, starts, ends, strict=False)
        if length
    ]


def follow(pieces: ReplyPieces, name: str, source: str, whole: bool = False) -> None:
    pieces.follow(source, sections_of(name, len(source)), whole)


def whole(name: str) -> ReplyPieces:
    pieces = ReplyPieces()
    follow(pieces, name, SOURCES[name], whole=True)
    while not pieces.complete:
        follow(pieces, name, SOURCES[name], whole=True)
    return pieces


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("seed", range(3))
def test_pieces_do_not_depend_on_how_the_source_arrived(name: str, seed: int) -> None:
    source, chance, streamed = SOURCES[name], random.Random(seed), ReplyPieces()
    at = 0
    while at < len(source):
        at += chance.choice((1, 3, 20, 700)) if len(source) < 3000 else chance.choice((60, 400, 3000))
        follow(streamed, name, source[:at])
    follow(streamed, name, source, whole=True)
    while not streamed.complete:
        follow(streamed, name, source, whole=True)
    assert streamed.pieces == whole(name).pieces


@pytest.mark.parametrize("name", SOURCES)
def test_pieces_cover_every_section_and_none_is_longer_than_can_be_laid_out_at_once(name: str) -> None:
    pieces = whole(name)
    for index, section in enumerate(pieces.sections):
        own = [piece for piece in pieces.pieces if piece.section == index]
        assert (own[0].start, own[-1].end) == (section.start, section.end)
        assert all(a.end == b.start for a, b in itertools.pairwise(own))
        assert all(piece.end - piece.start <= LONGEST for piece in own)


def test_code_that_was_cut_goes_on_as_code() -> None:
    pieces = whole("long code").pieces
    within = [piece for piece in pieces[1:] if piece.start < LONG_CODE.rindex("```")]
    assert within and all(piece.carry == "```python\n" for piece in within)
    assert all(LONG_CODE[piece.start - 1] == "\n" for piece in within)


def test_what_was_settled_is_not_looked_at_again() -> None:
    source, pieces = SOURCES["markdown"], ReplyPieces()
    follow(pieces, "markdown", source[:9000])
    before = [piece for piece in pieces.pieces if piece.final]
    follow(pieces, "markdown", source)
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
        follow(pieces, name, source, whole=True)
        assert pieces.cost - before <= most
    assert pieces.cost <= 5 * parse_cost(source)
    assert all(len(piece.carry) < 60 for piece in pieces.pieces)
    before = pieces.cost
    follow(pieces, name, source + "x\n", whole=True)
    assert pieces.cost - before <= 5 * parse_cost("x\n" * LONGEST)
