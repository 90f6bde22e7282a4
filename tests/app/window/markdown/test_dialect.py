"""What models write is shown as they mean it where CommonMark reads it otherwise, and no text vanishes."""

# ruff: noqa: RUF001 - the scripts of the world have letters that look like others

import pytest
from PySide6.QtGui import QTextCharFormat, QTextTable

from app.window.markdown.formula_object import formula_source
from app.window.markdown.text_matches import document_matches, match_places
from tests.app.window.markdown.documents import characters, rendered

pytestmark = pytest.mark.usefixtures("app")


def cells(source: str) -> list[list[str]]:
    """The cells of the table that a source begins with."""
    document = rendered(source)
    table = document.frameAt(1)
    assert isinstance(table, QTextTable)
    return [
        [table.cellAt(row, column).firstCursorPosition().block().text() for column in range(table.columns())]
        for row in range(table.rows())
    ]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("| `a|b` | c |", ["a|b", "c"]),
        ("| ``a|`|b`` | c |", ["a|`|b", "c"]),
        ("| `a\\|b` | c |", ["a|b", "c"]),
        ("| a | b | **c** | d |", ["a", "b | c | d"]),
        ("a|b|c", ["a", "b|c"]),
        ("| a |", ["a", ""]),
        ("| $|x|$ | c |", ["|x|", "c"]),
        ("| \\( P(A|B) \\) | c |", ["P(A|B)", "c"]),
        ("| a<br>b<br/>c | d |", ["a\u2028b\u2028c", "d"]),
    ],
)
@pytest.mark.parametrize("around", ["{}", "> {}"])
def test_no_cell_of_a_row_is_lost(row: str, expected: list[str], around: str) -> None:
    source = "\n".join(around.format(line) for line in ("| h | i |", "|---|:-:|", row, "| z |"))
    found = cells(source)
    assert found[1] == expected
    assert found[0] == ["h", "i"] and found[2] == ["z", ""]


@pytest.mark.parametrize(
    ("source", "strong"),
    [
        ("这是**“取出并重置”模式**。", "“取出并重置”模式"),
        ("**结论：**该方法", "结论："),
        ("**Markdown（マークダウン）**は", "Markdown（マークダウン）"),
        ("重要なのは**「確認」**です", "「確認」"),
        ("**중요(필수)**입니다", "중요(필수)"),
        ("**[名](http://a.b)**是", "名"),
        ("**`码`**是", "码"),
        ('他说**是**“对”，变量**中**"x"和"**是**他', "是中是"),
        ("a**“b”**c", ""),
        ("a * b、 * c", ""),
    ],
)
def test_emphasis_ends_beside_punctuation_of_chinese_japanese_and_korean(source: str, strong: str) -> None:
    bold = [one.character for one in characters(rendered(source)) if one.shape.fontWeight() > 400]
    assert "".join(bold) == strong


def test_strikethrough_ends_beside_such_punctuation_too() -> None:
    struck = [one.character for one in characters(rendered("~~删除：~~后 ~~~a")) if one.shape.fontStrikeOut()]
    assert "".join(struck) == "删除："


ALIGNED = QTextCharFormat.VerticalAlignment


@pytest.mark.parametrize(
    ("source", "shown", "small"),
    [
        ("H<sub>2</sub>O", "H2O", {ALIGNED.AlignSubScript: "2"}),
        ("x<sup>*n*</sup>", "xn", {ALIGNED.AlignSuperScript: "n"}),
        ("press <kbd>K</kbd>", "press K", {}),
        ("a<br>b<BR />c", "a\u2028b\u2028c", {}),
        ("a <sub>b", "a <sub>b", {}),
        ("a </sub> b", "a </sub> b", {}),
        ("`<br>` \\<br> <br >", "<br> <br> \u2028", {}),
        ("<details><summary>a</summary> <b>b</b>", "<details><summary>a</summary> <b>b</b>", {}),
        ("<div>\n**a**\n</div>", "<div>\u2028a\u2028</div>", {}),
        ("<!-- a --> <?php b ?>", "<!-- a --> <?php b ?>", {}),
    ],
)
def test_few_tags_of_html_are_understood_and_all_others_are_text(
    source: str, shown: str, small: dict[QTextCharFormat.VerticalAlignment, str]
) -> None:
    document = rendered(source)
    assert document.firstBlock().text() == shown
    for alignment, text in small.items():
        found = [one.character for one in characters(document) if one.shape.verticalAlignment() == alignment]
        assert "".join(found) == text


@pytest.mark.parametrize(
    ("source", "address"),
    [
        ("see https://example.com/a_b_c?d=1&e=2.", "https://example.com/a_b_c?d=1&e=2"),
        ("(http://example.com/a_(b))", "http://example.com/a_(b)"),
        ("见https://example.com/路。", ""),
        ("见 https://example.com/a。", "https://example.com/a"),
        ("`https://example.com` ftp://example.com xhttps://example.com https://", ""),
        ("**https://example.com**", "https://example.com"),
        ("[https://a.example](https://b.example)", "https://b.example"),
        ("https://user@example.com", ""),
        ("www.example.com", ""),
    ],
)
def test_bare_addresses_are_links_that_end_where_github_ends_them(source: str, address: str) -> None:
    found = {one.shape.anchorHref() for one in characters(rendered(source)) if one.shape.isAnchor()}
    assert found - {""} == ({address} if address else set())


def test_a_formula_in_a_quote_has_no_marks_of_the_quote() -> None:
    found = [formula_source(one.shape) for one in characters(rendered("> $$\n> \\frac{a}{b}\n> > c\n> $$\n"))]
    assert found == ["$$\\frac{a}{b}\n > c$$"]


FOUND = (
    "Find me: the **brain research** is [documented](https://example.com/brain) and *very* big.\n"
    "A huge *time*\nsaver; `co**de` R&amp;D.\n\n| a **b** | c |\n|---|---|\n| $x$ | brain |\n"
)


@pytest.mark.parametrize(
    ("term", "starts"),
    [
        ("huge time saver", ["huge"]),
        ("the brain research is", ["the **"]),
        ("documented and VERY", ["documented"]),
        ("brain", ["brain research", "brain |"]),
        ("example.com", []),
        ("co**de", ["co**de"]),
        ("r&d", ["R&amp;D"]),
        ("a b", ["a **b"]),
        ("big. a", ["big."]),
        ("a b c", []),
    ],
)
def test_what_is_looked_for_is_found_where_it_is_shown(term: str, starts: list[str]) -> None:
    for source in (FOUND, FOUND.replace("\n", "\r\n")):
        assert match_places(source, term) == [source.index(start) for start in starts]
    assert len(document_matches(rendered(FOUND), term)) == len(starts)
