"""A reply is cut into pieces in the same places however it arrives."""

from __future__ import annotations

import itertools
import random

import pytest

from app.window.transcript.pieces import LONGEST, Pieces
from tests.window.transcript.samples import CODE, PARAGRAPH, REPLY, THOUGHT

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


def whole(source: str) -> Pieces:
    pieces = Pieces()
    pieces.follow(source, whole=True)
    return pieces


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("seed", range(3))
def test_pieces_do_not_depend_on_how_the_source_arrived(name: str, seed: int) -> None:
    source, chance, streamed = SOURCES[name], random.Random(seed), Pieces()
    at = 0
    while at < len(source):
        at += chance.choice((1, 3, 20, 700)) if len(source) < 3000 else chance.choice((60, 400, 3000))
        streamed.follow(source[:at], whole=False)
    streamed.follow(source, whole=True)
    assert streamed.pieces == whole(source).pieces
    assert streamed.sections == whole(source).sections


@pytest.mark.parametrize("name", SOURCES)
def test_pieces_cover_every_section_without_gap_or_overlap(name: str) -> None:
    pieces = whole(SOURCES[name])
    for index, section in enumerate(pieces.sections):
        own = [piece for piece in pieces.pieces if piece.section == index]
        assert (own[0].start, own[-1].end) == (section.start, section.end)
        assert all(a.end == b.start for a, b in itertools.pairwise(own))
        assert all(piece.kind == section.kind for piece in own)


@pytest.mark.parametrize("name", SOURCES)
def test_no_piece_is_longer_than_can_be_laid_out_at_once(name: str) -> None:
    assert all(piece.end - piece.start <= LONGEST for piece in whole(SOURCES[name]).pieces)


def test_code_that_was_cut_goes_on_as_code() -> None:
    pieces = whole(LONG_CODE).pieces
    within = [piece for piece in pieces[1:] if piece.start < LONG_CODE.rindex("```")]
    assert within and all(piece.carry == "```python\n" for piece in within)
    assert all(LONG_CODE[piece.start - 1] == "\n" for piece in within)


def test_what_was_settled_is_not_looked_at_again() -> None:
    source, pieces = SOURCES["markdown"], Pieces()
    pieces.follow(source[:9000], whole=False)
    before = [piece for piece in pieces.pieces if piece.final]
    pieces.follow(source, whole=False)
    assert len(before) > 2
    assert pieces.pieces[: len(before)] == before
