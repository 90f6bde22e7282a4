"""A document that grew is the document written at once."""

import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from PySide6.QtGui import QTextDocument

from app.window.common.appearance import LIGHT
from app.window.markdown import GrowingDocument, SourcePieces, growing_document, source_pieces
from app.window.markdown.markdown_writer import MarkdownWriter
from tests.app.window.markdown.documents import blocks, described, each, rendered
from tests.app.window.markdown.texts import NOISE, documents

pytestmark = pytest.mark.usefixtures("app")


def grown(source: str, cuts: list[int], raw: bool = False) -> QTextDocument:
    """`source`, told up to each of `cuts`, then whole."""
    *_, document = growth(source, cuts, raw)
    return document


def growth(source: str, cuts: list[int], raw: bool = False) -> Iterator[QTextDocument]:
    """The one document, each time that it has grown."""
    document = QTextDocument()
    growing = GrowingDocument(document, LIGHT, True, raw)
    spans = each(source)
    for cut in sorted({*(cut % (len(source) + 1) for cut in cuts), len(source)}):
        growing.grow(source[:cut], spans[:cut])
        yield document


CUTS = st.lists(st.integers(0, 10_000), max_size=25)


@settings(max_examples=6, deadline=None)
@given(documents(), CUTS)
def test_growing_gives_what_writing_at_once_gives(source: str, cuts: list[int]) -> None:
    assert described(grown(source, cuts)) == described(rendered(source, each(source)))


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(NOISE, CUTS)
@example("~~~\n\n a\n", [4, 6, 7])
@example("```python\n0 = 0\n00 = 00\n```\n\n> 00 00\n\n> 0\n\n", [27, 28, 30, 35])
@example("~~~\n \n\ta", [4, 5, 6, 7])
@example("a\n$$\nb\n- c\n$$\nd\n", [1, 7, 11, 14])
@example("- a\n-", [5])
@example("| a |\n", [1, 2, 3, 4, 5])
@example("```\r\na\r\n```\r\n\r\nb", list(range(20)))
def test_growing_noise_gives_what_writing_at_once_gives(source: str, cuts: list[int]) -> None:
    ends = sorted({*(cut % (len(source) + 1) for cut in cuts), len(source)})
    for end, document in zip(ends, growth(source, cuts), strict=True):
        assert described(document) == described(rendered(source[:end], each(source[:end])))


LONG = st.lists(
    st.tuples(
        st.sampled_from(["word ", "# ", "=", "1. ", "a", "\U0001f600 ", "中文", "end. ", "line\n", "-", "a|b "]),
        st.integers(1, 700),
    ),
    min_size=1,
    max_size=6,
).map(lambda runs: "".join(text * times for text, times in runs))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(LONG, CUTS, st.booleans())
@example("a" * 2000 + " " + "b" * 5000, [1999, 2000, 2001, 4001], True)
@example("word " * 1000, list(range(1, 5000, 400)), False)
@example("word " * 345 + "line\n" * 180 + "-", [2100, 2624], False)
@example("word " * 400, [1600, 1605], True)
@example("word " + "# " * 998 + "a|b " * 500 + "word ", [], False)
def test_long_lines_are_cut_at_the_same_places_however_they_grow(source: str, cuts: list[int], raw: bool) -> None:
    spans = each(source)
    at_once = QTextDocument()
    GrowingDocument(at_once, LIGHT, True, raw).grow(source, spans)
    assert described(grown(source, cuts, raw)) == described(at_once)


def test_growing_costs_no_more_in_a_long_document(monkeypatch: pytest.MonkeyPatch) -> None:
    document, source = QTextDocument(), "some *words* in a paragraph\n\n" * 2000
    growing, parsed = GrowingDocument(document, LIGHT, True), list[int]()
    growing.grow(source, [])
    cost, revision = growing._pieces.cost, document.revision()
    monkeypatch.setattr(
        growing_document, "MarkdownWriter", lambda text, *rest: parsed.append(len(text)) or MarkdownWriter(text, *rest)
    )
    for _ in range(7):
        source += "some *words* in a paragraph\n\n"
        growing.grow(source, [])
    assert 0 < sum(parsed) + growing._pieces.cost - cost < 7 * len(source) // 10
    assert sum(block.revision() > revision for block in blocks(document)) <= 8


def test_an_open_fence_grows_without_being_written_again() -> None:
    document = QTextDocument()
    growing = GrowingDocument(document, LIGHT, True)
    source = "```python\n" + "x = 1\n" * 300
    growing.grow(source, [])
    revision, line = document.revision(), document.findBlockByNumber(100).revision()
    growing.grow(source + "y = ", [])
    assert document.revision() > revision
    assert document.findBlockByNumber(100).revision() == line
    assert document.lastBlock().text() == "y = "


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(st.one_of(documents(), NOISE), st.integers(20, 120))
@example("a\n$$\nb\n- c\n$$\nd\n", 8)
@example("- a\n- b\n\n- c\n", 4)
@example("- a\n- b\n\n| a |\n|---|\n| b |\n", 20)
def test_pieces_render_as_the_whole_does(source: str, length: int) -> None:
    assume("]:" not in source and not re.search(r"\d[.)]", source))  # the exceptions that source_pieces names
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source_pieces, "PIECE", length)
        patch.setattr(source_pieces, "LONGEST", 2 * length)
        assume(not any(piece.cut for piece in SourcePieces().follow(source, len(source))))
        in_pieces = described(rendered(source, each(source)))
    assert in_pieces == described(rendered(source, each(source)))
