"""Text of every script looks as if no token had cut it, and keeps its side and its characters."""

# ruff: noqa: RUF001 - the scripts of the world have letters that look like others

from dataclasses import replace
from itertools import cycle

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QAbstractTextDocumentLayout,
    QColor,
    QImage,
    QPainter,
    QTextDocument,
    QTextLine,
    QTextTable,
)

from app.reply import Span
from app.window.common.appearance import DARK, LIGHT, Appearance
from app.window.markdown import plain_text
from app.window.markdown.text_formats import MARKER
from engine.events import Origin
from tests.app.window.markdown.documents import blocks, painted_behind, rendered

pytestmark = pytest.mark.usefixtures("app")

WIDTH = 320  # px
SCRIPTS = {
    "Hindi": "नमस्ते, **दुनिया** के लोग",
    "Bengali": "স্বাগতম বন্ধুরা",
    "Tamil": "வணக்கம் நண்பர்களே",
    "Kannada": "ನಮಸ್ಕಾರ ರೈಲ್\u200c ನಿಲ್ದಾಣ",
    "Malayalam": "അവന്\u200d വന്നു",
    "Sinhala": "ආයුබෝවන් ශ්\u200dරී",
    "Khmer": "សួស្តី\u200bពិភពលោក",
    "Burmese": "မင်္ဂလာပါ ကမ္ဘာ",
    "Thai": "สวัสดี ชาวโลก ที่นี่",
    "Arabic": "السلام **عليكم** ورحمة (2024) الله",
    "Persian": "می\u200cخواهم کتاب\u200cها را PDF\u200cها",
    "Urdu": "آپ کیسے ہیں؟",
    "Hebrew": "שָׁלוֹם עולם OpenAI היא חברה",
    "Latin": "e\u0301a\u0308 fi ffl Vie\u0323\u0302t Na\u0303o",
    "Emoji": "👩\u200d👩\u200d👧 👍🏽 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f 🇨🇭",
}


def cut(source: str) -> list[Span]:
    """Tokens of one character, as the bytes of a rare script are, each with another tint than the one before."""
    origins: list[Origin] = ["accepted", "corrected", "bonus"]
    return [Span(i, i + 1, origin, i) for i, origin in zip(range(len(source)), cycle(origins), strict=False)]


def pixels(document: QTextDocument, look: Appearance) -> QImage:
    """The document with what lies behind its text, as it is on screen."""
    image = painted_behind(document, look, WIDTH)
    painter = QPainter(image)
    document.documentLayout().draw(painter, QAbstractTextDocumentLayout.PaintContext())
    painter.end()
    return image


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("source", SCRIPTS.values(), ids=list(SCRIPTS))
def test_no_border_of_a_token_changes_a_glyph(source: str, look: Appearance) -> None:
    ground = dict.fromkeys(look.tints, look.background)
    unseen = replace(look, tints=ground, hues={**look.hues, **ground})
    text = f"{source}\n\n1. {source}\n\n> {source}\n"
    assert pixels(rendered(text, cut(text), unseen), unseen) == pixels(rendered(text, (), unseen), unseen)


@pytest.mark.parametrize("source", ["abc def", "שלום עולם טוב", "abc שלום 12 עולם def"])
def test_tints_cover_the_letters_of_their_token_and_nothing_else(source: str) -> None:
    """Seen on one line: what is not the ground between the first and the last column is the width of the text."""
    every = [Span(0, len(source), "accepted", 0)]
    whole = columns(source, every)
    assert whole == set(range(min(whole), max(whole) + 1))
    words = [Span(at, at + len(word), "accepted", 1) for word in source.split() for at in [source.index(word)]]
    parts = [columns(source, [span]) for span in words]
    gaps = [Span(at, at + 1, "accepted", 1) for at, character in enumerate(source) if character == " "]
    parts += [columns(source, [span]) for span in gaps]
    assert set().union(*parts) == whole
    assert sum(map(len, parts)) <= len(whole) + len(parts)  # of which neighbours may share one


def columns(source: str, spans: list[Span]) -> set[int]:
    """The columns of pixels that are tinted."""
    image = painted_behind(rendered(source, spans), LIGHT, WIDTH)
    y, tint = image.height() // 2, QColor(LIGHT.tints["accepted"])
    return {x for x in range(WIDTH) if image.pixelColor(x, y) == tint}


# --- the side that text runs from -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "mirrored"),
    [
        ("שלום world", True),
        ("OpenAI היא חברה שמפתחת", True),
        ("`fs.readFile` هي دالة", True),
        ("$a+b$ هي دالة", True),
        ("The word שלום is Hebrew", False),
        ("`שלום`", False),
        ("# مرحبا", True),
        ("2024", False),
    ],
)
def test_a_block_runs_in_the_direction_of_its_letters(source: str, mirrored: bool) -> None:
    shape = rendered(source).firstBlock().blockFormat()
    assert (shape.layoutDirection() == Qt.LayoutDirection.RightToLeft) == mirrored


@pytest.mark.parametrize("source", ["1. البند (مهم)\n2. OpenAI\n   - فرعي\n   - 2024\n", "- [ ] مهمة\n", "> 1. אחת\n"])
def test_items_from_right_to_left_have_their_markers_and_all_letters_within_the_page(source: str) -> None:
    document = rendered(source)
    document.setTextWidth(WIDTH)
    document.documentLayout().documentSize()
    for block in blocks(document):
        assert block.blockFormat().layoutDirection() == Qt.LayoutDirection.RightToLeft
        line = block.layout().lineAt(0)
        text = line.naturalTextRect().translated(document.documentLayout().blockBoundingRect(block).topLeft())
        assert text.right() <= WIDTH and text.left() > 160
        marker = int(block.blockFormat().property(MARKER))
        first, after = (glyphs_of(line, place) for place in (0, marker))
        assert after[1] + 4 < first[0]  # the text begins left of its marker, apart from it


def glyphs_of(line: QTextLine, place: int) -> tuple[float, float]:
    """The left and right of a character."""
    box = line.glyphRuns(place, 1)[0].boundingRect()
    return box.left(), box.right()


def test_columns_and_bars_stand_at_the_right_of_text_from_right_to_left() -> None:
    document = rendered("| الاسم | القيمة |\n|---|---|\n| واحد | 1 |\n")
    table = document.frameAt(1)
    assert isinstance(table, QTextTable)
    assert [table.cellAt(0, c).firstCursorPosition().block().text() for c in range(2)] == ["القيمة", "الاسم"]
    assert plain_text(document, 0, document.characterCount()) == "الاسم\tالقيمة\nواحد\t1"
    quote = rendered("> اقتباس\n")
    image = pixels(quote, LIGHT)
    y = image.height() // 2
    assert image.pixelColor(WIDTH - 4 - 2, y) != QColor(LIGHT.background)
    assert image.pixelColor(4 + 1, y) == QColor(LIGHT.background)
