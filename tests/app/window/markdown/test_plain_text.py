"""What is too large to be formatted is shown as plain text, which a line says; the rest is formatted as ever."""

import pytest
from PySide6.QtGui import QTextDocument

from app.window.common.appearance import LIGHT
from app.window.markdown import GrowingDocument, SourcePieces, plain_text
from app.window.markdown.markdown_writer import PLAIN_NOTE
from app.window.markdown.source_pieces import (
    CELL,
    LARGEST_PARAGRAPH,
    LARGEST_REPLY,
    LINE,
    LONGEST,
    Piece,
    piece_text,
    reach,
)
from tests.app.window.markdown.documents import described, rendered

pytestmark = pytest.mark.usefixtures("app")

TABLE = "| name | value |\n| --- | ---: |\n" + "| a cell | 1 |\n" * 300
ITEM = "- one item\n" + "  - a list within\n    - deeper\n" * 200
PARAGRAPH = "All work and no play. " * (LARGEST_PARAGRAPH // 10)


def pieces_of(source: str) -> list[Piece]:
    return SourcePieces().follow(source, len(source), whole=True)


@pytest.mark.parametrize("large", [TABLE, ITEM, PARAGRAPH])
def test_a_block_that_cannot_be_read_in_parts_is_plain_and_says_so_once(large: str) -> None:
    source = f"Some *words*.\n\n{large}\n\nAnd **more**."
    text = rendered(source).toPlainText()
    assert text.count(PLAIN_NOTE) == 1
    assert text.startswith("Some words.") and text.endswith("And more.")
    plain = [piece for piece in pieces_of(source) if piece.plain]
    assert [piece.noted for piece in plain] == [True, *[False] * (len(plain) - 1)]
    assert plain[0].end - plain[0].start > 0 and not pieces_of(source)[-1].plain


def test_a_table_that_fits_stays_a_table_and_long_code_stays_code() -> None:
    for source in (TABLE[:1000], "```python\n" + "x = 1\n" * 5000 + "```\n", "A sentence. " * 1000):
        assert not any(piece.plain for piece in pieces_of(source))
        assert PLAIN_NOTE not in rendered(source).toPlainText()


def test_a_huge_reply_is_plain_from_a_place_on() -> None:
    source = "A *short* line.\n\n" * (LARGEST_REPLY // 15)
    pieces = pieces_of(source)
    first = next(piece for piece in pieces if piece.plain)
    assert LARGEST_REPLY <= first.start <= LARGEST_REPLY + LONGEST and first.noted
    assert all(piece.plain for piece in pieces if piece.start >= first.start)
    assert sum(piece.noted for piece in pieces) == 1


@pytest.mark.parametrize("large", [TABLE, ITEM, PARAGRAPH])
def test_plain_text_is_the_same_whether_it_streamed_or_was_opened(large: str) -> None:
    source = f"Before.\n\n{large}\n \nBehind *it*."
    document, divided = QTextDocument(), SourcePieces()
    growing = GrowingDocument(document, LIGHT, True)
    for end in [*range(1, len(source), 1709), len(source)]:
        growing.grow(source[:end], [])
        divided.follow(source, end)
    assert divided.follow(source, len(source), whole=True) == pieces_of(source)
    assert described(document) == described(rendered(source))


def test_nothing_of_plain_text_is_lost() -> None:
    source = f"{TABLE}\n{PARAGRAPH}\n\n{ITEM}"
    pieces = pieces_of(source)
    assert "".join(source[piece.start : piece.end] for piece in pieces) == source
    plain = [piece_text(source, pieces, i) for i, piece in enumerate(pieces) if piece.plain]
    document = rendered(TABLE)
    assert plain_text(document, 0, document.characterCount()).strip() == TABLE.strip()
    assert all("|" in text or "All work" in text or "- " in text for text in plain)


def test_a_piece_is_as_long_as_it_can_be_laid_out_at_once() -> None:
    assert reach("a" * 50, 0, 50, 20) == 20 and reach("a" * 10, 3, 10, 20) == 7
    for sign, cost in (("\n", 1 + LINE), ("|", 1 + CELL)):
        assert reach(sign * 50, 0, 50, 4 * cost) == 4
        assert reach(sign * 50, 0, 50, 1) == 1
        assert reach("aaa" + sign + "a" * 50, 0, 54, 10) == 10 - (cost - 1)


@pytest.mark.parametrize("length", [LONGEST // 2, 3 * LONGEST, LARGEST_PARAGRAPH + 5 * LONGEST])
def test_a_paragraph_that_was_cut_is_copied_as_one(length: int) -> None:
    source = "All work and no play. " * (length // 22)
    document = rendered(source)
    assert document.blockCount() >= len(pieces_of(source))
    assert plain_text(document, 0, document.characterCount() - 1).strip() == source.strip()
