"""Rendered text looks as it should, and can be read in every colour it may have."""

import pytest
from pygments.token import STANDARD_TYPES
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QTextCharFormat, QTextDocument, QTextTable

from app.window.common.appearance import APPEARANCES, LIGHT, READABLE, Appearance, contrast
from app.window.markdown import GrowingDocument, Reader, code_blocks, plain_text, write
from app.window.markdown.code_colours import code_format
from app.window.markdown.text_blocks import visible
from app.window.markdown.text_formats import GAP, grounds, text_colour
from engine.events import Origin
from tests.app.window.markdown.documents import blocks, characters, each, painted_behind, rendered, runs
from tests.app.window.markdown.sample import SAMPLE

pytestmark = pytest.mark.usefixtures("app")


def style_of(source: str, text: str) -> QTextCharFormat:
    """The format of the run that is `text`."""
    (found,) = [shape for block in blocks(rendered(source)) for said, shape in runs(block) if said == text]
    return found


# --- structure --------------------------------------------------------------------------------


def test_emphasis_is_what_it_says() -> None:
    source = "a **b** *c* ~~d~~ `e` [f](http://example.com)"
    assert style_of(source, "b").fontWeight() > QFont.Weight.Normal
    assert style_of(source, "c").fontItalic()
    assert style_of(source, "d").fontStrikeOut()
    assert style_of(source, "e").fontFamilies()
    assert style_of(source, "f").anchorHref() == "http://example.com"


def test_headings_grow_with_their_rank() -> None:
    sizes = [style_of(f"{'#' * level} a", "a").fontPointSize() for level in (3, 2, 1)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[2] < 2 * sizes[0]


def test_lists_say_their_markers() -> None:
    document = rendered("1. a\n1. b\n   - c\n     - d\n\n7) e\n\n- [x] f\n- [ ] g\n")
    assert [block.text() for block in blocks(document)] == ["1.\ta", "2.\tb", "◦\tc", "▪\td", "7)\te", "☑\tf", "☐\tg"]


def test_items_apart_by_empty_lines_are_shown_apart() -> None:
    tight, loose = rendered("- a\n- b\n"), rendered("- a\n\n- b\n")
    assert tight.firstBlock().blockFormat().bottomMargin() < loose.firstBlock().blockFormat().bottomMargin()


@pytest.mark.parametrize(
    ("source", "above", "below"), [("```\na\n```\n\nb", True, False), ("b\n\n```\na\n```", False, True)]
)
def test_a_code_box_at_an_end_has_room_for_its_edge(source: str, above: bool, below: bool) -> None:
    """Qt leaves out the margins of the first and the last block."""
    document = rendered(source)
    shape = document.rootFrame().frameFormat()
    margins = (shape.topMargin(), shape.bottomMargin())
    assert [margin > document.documentMargin() for margin in margins] == [above, below]


@pytest.mark.parametrize(("columns", "rows", "is_table"), [(50, 8, True), (50, 60, False), (9, 50, True)])
def test_a_table_has_no_more_cells_than_are_laid_out_in_time(columns: int, rows: int, is_table: bool) -> None:
    """A row of one letter has as many cells as the header, so that few characters would make thousands."""
    document = rendered("|" + "a|" * columns + "\n|" + "-|" * columns + "\n" + "x\n" * rows)
    assert any(isinstance(frame, QTextTable) for frame in document.rootFrame().childFrames()) == is_table
    assert document.toPlainText().count("x") == rows


def test_a_code_box_keeps_its_distance_from_a_table_above_it() -> None:
    document = rendered("| a |\n|---|\n| 1 |\n\n```\nx\n```\n")
    last_cell = document.documentLayout().blockBoundingRect(document.frameAt(1).lastCursorPosition().block())
    assert GAP <= code_blocks(document)[0].box.top() - last_cell.bottom() <= 3 * GAP


def test_tables_are_tables_with_their_alignment() -> None:
    document = rendered("| a | b |\n|--:|:-:|\n| `c\\|d` | *e* |\n")
    table = document.frameAt(1)
    assert isinstance(table, QTextTable)
    cells = [[table.cellAt(r, c).firstCursorPosition().block() for c in range(2)] for r in range(2)]
    assert [[cell.text() for cell in row] for row in cells] == [["a", "b"], ["c|d", "e"]]
    assert [cell.blockFormat().alignment() for cell in cells[1]] == [
        Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute,
        Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignAbsolute,
    ]


def test_code_keeps_its_lines_and_can_be_had_exactly() -> None:
    code = "def f():\n\treturn '\u202e\U0001f600'\n\n\n# end"
    document = rendered(f"a\n\n~~~~ python x\n{code}\n~~~~\n\n    indented\n\nb\n")
    assert [(block.code, block.language) for block in code_blocks(document)] == [(code, "python"), ("indented", "")]


def test_code_is_highlighted_once_its_fence_is_closed() -> None:
    def coloured(source: str) -> int:
        return sum(len(block.layout().formats()) for block in blocks(rendered(source)))

    assert coloured("```python\nx = 1\n```\n") > 0
    assert coloured("```python\nx = 1\n") == 0
    assert coloured("```nonsense\nx = 1\n```\n") == 0


def test_colours_of_code_are_counted_as_qt_counts() -> None:
    document = rendered("```python\n'\U0001f600' + 1\n```\n")
    line = list(blocks(document))[1]
    assert (7, 1) in [(one.start, one.length) for one in line.layout().formats()]  # type: ignore[attr-defined]


def test_formulas_that_are_not_set_can_be_read() -> None:
    source = "a $x^2 + \\alpha_i$ b \\(\\frac{a}\\) costs $5\n\n\\[\n\\sqrt{2} \\leq y}\n\\]\n"
    assert rendered(source).toPlainText() == "a x² + αᵢ b \\frac{a} costs $5\n\\sqrt{2} \\leq y}"


def test_formulas_that_are_none_stay_as_they_are() -> None:
    source = "a $" + "{" * 50 + "x" + "}" * 50 + "$ b"
    assert "{" * 50 in rendered(source).toPlainText()


def test_addresses_in_angles_are_links_and_whole() -> None:
    document = rendered("a <https://example.com/b> c <d@example.com> <javascript:e>")
    assert document.toPlainText() == "a https://example.com/b c d@example.com javascript:e"
    links = {one.shape.anchorHref() for one in characters(document) if one.shape.isAnchor()}
    assert links == {"https://example.com/b", "mailto:d@example.com"}


def test_images_are_their_text_and_a_note() -> None:
    assert rendered("![a *cat*](x.png) ![](y.png)").toPlainText() == "a cat (image not loaded) image (image not loaded)"


def test_what_nests_too_deeply_is_shown_as_written_and_said_so() -> None:
    source = "a\n\n" + "> " * 40 + "x\n\nb\n"
    text = rendered(source).toPlainText()
    assert "> " * 40 + "x" in text
    assert "as written" in text


# --- tints ------------------------------------------------------------------------------------


@pytest.mark.parametrize("look", APPEARANCES.values(), ids=list(APPEARANCES))
@pytest.mark.parametrize("origin", ["accepted", "corrected", "bonus"])
def test_each_kind_of_token_has_its_tint_and_its_second_cue(look: Appearance, origin: Origin) -> None:
    document = rendered("a " * 20, each("a " * 20, origin=origin), look)
    image = painted_behind(document, look)
    hues = {image.pixelColor(x, y).name() for x in range(10, 60) for y in range(4, 24)}
    line = {look.hues[origin].lower()} if origin != "accepted" else set()
    assert hues == {look.background.lower(), look.tints[origin].lower(), *line}


def test_without_tints_tokens_are_still_told() -> None:
    found = list(characters(rendered("a **b**", each("a **b**"), LIGHT, tinted=False)))
    assert [(one.token, one.origin) for one in found] == [(0, None), (1, None), (4, None)]


def test_text_of_no_round_has_no_tint() -> None:
    image = painted_behind(rendered("a " * 20, each("a " * 20, origin=None)), LIGHT)
    assert {image.pixelColor(x, y).name() for x in range(60) for y in range(24)} == {LIGHT.background.lower()}


@pytest.mark.parametrize("look", APPEARANCES.values(), ids=list(APPEARANCES))
def test_every_colour_can_be_read_on_every_ground(look: Appearance) -> None:
    for ground in (look.code, *look.tints.values()):
        for kind in STANDARD_TYPES:
            colour = code_format(kind, look).foreground().color().name()
            assert colour == "#000000" or contrast(colour, ground) >= READABLE, kind  # black where it has none
    for ground in grounds(look):
        for colour in (look.text, text_colour(look.faint, look), text_colour(look.accent, look)):
            assert contrast(colour, ground) >= READABLE


@pytest.mark.parametrize("look", APPEARANCES.values(), ids=list(APPEARANCES))
def test_the_sample_has_only_colours_that_can_be_read(look: Appearance) -> None:
    document = rendered(SAMPLE, each(SAMPLE), look)
    for one in characters(document):
        ground = look.tints[one.origin] if one.origin else look.code
        assert contrast(one.shape.foreground().color().name(), ground) >= READABLE


# --- what is painted behind -------------------------------------------------------------------


def test_boxes_bars_and_rules_are_painted() -> None:
    document = rendered("> a\n\n```\nb\n```\n\n---\n")
    image = painted_behind(document, LIGHT)
    (block,) = code_blocks(document)
    assert image.pixelColor(block.box.center().toPoint()) == QColor(LIGHT.code)
    quote = document.documentLayout().blockBoundingRect(document.firstBlock())
    assert image.pixelColor(round(document.documentMargin()) + 1, round(quote.center().y())) != QColor(LIGHT.background)
    rule = document.documentLayout().blockBoundingRect(document.lastBlock())
    assert image.pixelColor(150, round(rule.center().y())) == QColor(LIGHT.hairline)


@pytest.mark.parametrize("source", ["```\nb\n```\n", "a\n\n```\nb", "> ```\n> b\n> ```\n"])
def test_a_code_box_at_the_end_has_its_lower_edge(source: str) -> None:
    document = rendered(source)
    document.setTextWidth(300)
    (block,) = code_blocks(document)
    assert block.box.bottom() <= document.size().height()


# --- copying ----------------------------------------------------------------------------------


def test_copied_text_can_be_pasted_anywhere() -> None:
    source = "# A\n\nb  \nc\n\n1. d\n   - e\n\n```py\nf\n\ng\n```\n\n| h | i |\n|---|---|\n| j | k |\n\n"
    source += "- [x] l\n\n---\n\nm\n"
    document = rendered(source)
    expected = "A\n\nb\nc\n\n1. d\n  - e\n\nf\n\ng\n\nh\ti\nj\tk\n\n- [x] l\n\n---\n\nm"
    assert plain_text(document, 0, document.characterCount()) == expected


def test_a_part_of_a_block_copies_as_that_part() -> None:
    document = rendered("\U0001f600 one two")
    assert plain_text(document, 3, 6) == "one"


def test_raw_text_copies_as_it_is_and_notes_are_left_out() -> None:
    raw = QTextDocument()
    GrowingDocument(raw, LIGHT, True, raw=True).grow(SAMPLE + "longer " * 600, [])
    assert plain_text(raw, 0, raw.characterCount()) == SAMPLE + "longer " * 600
    assert all(len(block.text()) < 1000 or block.text().endswith(" ") for block in blocks(raw))
    deep = rendered("> " * 40 + "x\n\nb\n")
    assert plain_text(deep, 0, deep.characterCount()) == "> " * 40 + "x\n\nb"


def test_copying_takes_plain_text_alone() -> None:
    reader = Reader()
    write(reader.document(), "**a** [b](http://example.com)", [], LIGHT, True)
    reader.selectAll()
    assert reader.createMimeDataFromSelection().formats() == ["text/plain"]


@pytest.mark.parametrize("style", ["{}", "**{}**", "`{}`", "- {}"])
def test_copies_carry_what_the_model_wrote(style: str) -> None:
    written = "a\u202eb\u2066\U0001f600c\u180b\x1b PDF\u200c\u0647\u0627 \U000e0001d"
    document = rendered(style.format(written))
    assert plain_text(document, 0, document.characterCount()).removeprefix("- ") == written
    assert "\u202e" not in document.toPlainText()


# --- signs ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x00\x1b\x7f", "\u2400\u241b\u2421"),
        ("a\u202eb\u2066c", "a\ufffdb\ufffdc"),
        ("a\u200bb\u200c\u200b\u200c\u200bc", "a\u200bb\u200c\u200b\ufffd\ufffdc"),
        ("\ud800", "\ufffd"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\u200d\U0001f469"),
        ("\u0646\u06cc\u200c\u062e", "\u0646\u06cc\u200c\u062e"),
        ("a\u200db", "a\ufffdb"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("1\ufe0f\u20e3", "1\ufe0f\u20e3"),
        ("\u2764\ufe0f\ufe0f", "\u2764\ufe0f\ufffd"),
        ("e\u0301", "e\u0301"),
        ("e" + "\u0301" * 10, "e" + "\u0301" * 8 + "\ufffd\ufffd"),
        ("PDF\u200c\u0647\u0627 2024\u200c\u0627\u0645", "PDF\u200c\u0647\u0627 2024\u200c\u0627\u0645"),
        ("\u0cb0\u0cc8\u0cb2\u0ccd\u200c \u0ca8\u0cbf", "\u0cb0\u0cc8\u0cb2\u0ccd\u200c \u0ca8\u0cbf"),
        ("\u0d05\u0d35\u0d28\u0d4d\u200d", "\u0d05\u0d35\u0d28\u0d4d\u200d"),
        ("Donau\u00addampf \u05d0\u200f! \u061c\u2060a\ufeff", "Donau\u00addampf \u05d0\u200f! \u061c\u2060a\ufeff"),
        ("\u845b\U000e0100", "\u845b\U000e0100"),
        ("a\U000e0100", "a\ufffd"),
        ("\U0001f3f4\U000e0067\U000e0062\U000e007f", "\U0001f3f4\U000e0067\U000e0062\U000e007f"),
        ("\U0001f600\U000e0067\U000e0062\U000e007f", "\U0001f600\ufffd\ufffd\ufffd"),
        ("\u1820\u180b a\u180b", "\u1820\u180b a\ufffd"),
        ("na\u00efve \u4e2d\u6587 \u03bb \u2192", "na\u00efve \u4e2d\u6587 \u03bb \u2192"),
    ],
)
def test_what_hides_is_shown_and_what_scripts_need_is_left(text: str, expected: str) -> None:
    assert visible(text) == expected
