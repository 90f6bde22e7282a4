"""Formulas that are set: what is understood, where symbols stand, and whose token each of them is."""

import itertools
from types import SimpleNamespace

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QImage, QPainter, QTextDocument

from app.reply import Span
from app.window.common.appearance import LIGHT
from app.window.markdown import GrowingDocument, growing_document, plain_text, token_runs, write
from app.window.markdown.formula_layout import Box, formula_box, formula_lines
from app.window.markdown.formula_object import token_within
from app.window.markdown.formula_parser import formula_tree
from app.window.markdown.formula_text import needs_setting, text_and_places
from app.window.markdown.text_blocks import OBJECT
from app.window.markdown.text_matches import document_matches, match_places
from app.window.markdown.traced_parser import find_formulas

UNDERSTOOD = [
    r"x_{1,2} = \frac{-b \pm \sqrt{b^2-4ac}}{2a}",
    r"\left[\frac{1}{1+\frac{1}{x}}\right] + \bigl( y \bigr)",
    r"\begin{pmatrix} a & \cdots \\ \vdots & d \end{pmatrix}",
    r"|x| = \begin{cases} x & \text{if } x \ge 0 \\ -x & \text{otherwise} \end{cases}",
    r"\begin{aligned} f(x) &= (x+1)^2 \\ &= x^2 + 1 \end{aligned}",
    r"\begin{array}{l|cr} 1 & 2 & 3\end{array}",
    r"\sum_{i=1}^{n} i, \lim_{x\to 0} \frac{\sin x}{x}, \int_0^\infty e^{-x^2}\,dx",
    r"\hat{\theta} = \operatorname{argmax} \mathcal{L}(\theta), \vec{v} \cdot \bar{w}, f''(x)",
    r"\sqrt[3]{x}, \binom{n}{k}, \boxed{x = 1}, \mathbf{A}^{-1}, 10\%, x \tag{1}",
    r"\ce{Hg^2+ ->[I-] HgI2}, \def\f#1{\frac{#1}2} \f{x}, \begin{eqnarray} a &=& b \end{eqnarray}",
    "\U0001d49c b, \U0001f600 c",
]
NOT_UNDERSTOOD = [
    r"x^",
    r"\left( x",
    r"x \right)",
    r"a & b",
    r"\begin{tikzpicture} x \end{tikzpicture}",
    "x\u202ey",
    r"\frac{" * 50 + "x" + "}{y}" * 50,
    r"\sqrt" * 300 + "x",
    r"\text{" * 300,
    r"\def\a{\a}\a",
    r"\def\a#1{#²}\a{x}",
    r"\char'9",
    r"\def\a#1{}\edef\b{\a}x",
    r"\def\a#1{#1#1}\edef\b{\a}x",
    r"\def\a#1{#1#1#1#1#1#1#1#1#1#1}\a{\a{\a{\a{x}}}}",
    r"a^b^c",
    r"\frac{a}",
    r"\def\a{" + "x" * 900 + "}" + r"\a" * 20,
    r"\ce{" + "H2O" * 140 + "}",
    "x" * 3000,
]


def box(source: str, display: bool = True) -> Box:
    found = formula_box(source, 16.0, display)
    assert found is not None
    return found


def mark_place(box: Box, text: str) -> QRectF:
    return next(mark.place for mark in box.marks if mark.text == text)


@pytest.mark.parametrize("source", UNDERSTOOD)
def test_each_symbol_of_a_formula_knows_the_character_that_it_came_from(source: str) -> None:
    for mark in box(source).marks:
        if len(mark.text) == 1 and mark.text.isalnum() and mark.text.isascii():
            assert source[mark.at] == mark.text


@pytest.mark.parametrize("source", NOT_UNDERSTOOD)
def test_what_cannot_be_set_whole_is_not_set(source: str) -> None:
    assert formula_tree(source) is None and formula_box(source, 16.0, True) is None


# One formula of each kind of command, and what it says as plain text.
AS_TEXT = [
    (r"\dfrac{a+b}{2} = \tfrac12", "(a + b)/2 = 1/2"),
    (r"n \equiv 1 \pmod{3} \implies n \bmod 3 \ne 2", "n ≡ 1 (mod 3) ⟹ n mod 3 ≠ 2"),
    (r"\sec x, \gcd(a,b), \operatorname*{argmax}_\theta f", "sec x, gcd(a, b), argmax_θ f"),
    (r"\left. x \right|_0, \left( a \middle| b \right], \Bigg[ c \bigr)", "x|₀, (a|b], [c)"),
    (r"\not\subset, \not=, \boxed{27}, \cancel{xy}", "⊄, ≠, 27, x\u0338y\u0338"),
    (r"\hat x, \overrightarrow{AB}, \overline{z}", "x\u0302, A\u20d7B\u20d7, z\u0305"),
    (r"\binom{n}{k} = {n \choose k}", "(n choose k) = (n choose k)"),
    (r"\mathbb{R}, \mathcal{L}, 60^\circ, f''(x), β²", "\u211d, \u2112, 60°, f\u2032\u2032(x), β²"),
    (r"\text{if $x$ is \textbf{od\'d}}", "if x is odd\u0301"),
    (r"\begin{vmatrix} a & b \\[2pt] c & d \end{vmatrix}", "|a, b; c, d|"),
    (r"\begin{cases} 1 & x>0 \\ 0 & \text{else} \end{cases}", "{1, x > 0; 0, else"),
    (r"\begin{align} a &= b \tag{1} \\ &= c \end{align}", "a = b (1)\n= c"),
    (r"\xrightarrow[b]{a}, \overset{!}{=}, \underbrace{a+b}_{n}", "→_bᵃ, =^!, (a + b)ₙ"),
    (r"\sum_{\substack{i<n \\ j}} x, \lim\limits_x y", "∑_(i < n; j) x, limₓ y"),
    (r"\ce{2H2O -> 2H2 + O2}, \ce{SO4^2-}", "2 H₂O → 2 H₂ + O₂, SO₄²⁻"),
    (r"\newcommand{\half}[1]{\frac{#1}{2}} \def\d{\,d} \half{x}\d y", "x/2 dy"),
    (r"\$5 + 10\%, \color{red}{x}, a\phantom{b}c, \tag{3}", "$5 + 10%, x, a c, (3)"),
    (r"\Set{x | x > 0}, \bra{\psi}, a \\ b", "{ x | x > 0 }, ⟨ψ|, a\nb"),
    (r"x + \unknown[1]{y} z", r"x + \unknown[1]{y}z"),
]


@pytest.mark.parametrize(("source", "text"), AS_TEXT)
def test_a_formula_says_the_same_as_text_with_commands_that_are_not_known_as_they_were_written(
    source: str, text: str
) -> None:
    assert text_and_places(source)[0] == text
    assert formula_box(source, 16.0, True) is not None


@pytest.mark.parametrize(
    ("source", "formulas"),
    [
        ("so $x$, \\(y\\) and $$z$$", ["x", "y", "z"]),
        ("$5 and $10, $ 5 and $ 10, \\$5", []),
        ("$USER/$HOST data$time <- as.Date(data$date)", []),
        ("$ x $, $ \\frac{a}{b} $, the $n$th, $x$\u7684", [" x ", " \\frac{a}{b} ", "n", "x"]),
        ("$$\na\n\n+ b\n$$\n\\[c\\]", ["\na\n\n+ b\n", "c"]),
        ("\\begin{align}a\\end{align}", ["\\begin{align}a\\end{align}"]),
        ("`$x$` $y$\n```\n$z$\n```\n", ["y"]),
        ("$$ open\n\nend", []),
    ],
)
def test_formulas_are_found_and_prices_and_variables_are_left(source: str, formulas: list[str]) -> None:
    found, _ = find_formulas(source)
    assert [source[span.first : span.last] for span in found] == formulas


def test_a_fence_of_mathematics_is_a_formula_once_it_is_closed() -> None:
    assert document_of("```math\n\\frac{a}{b}\n```\n", []).toPlainText() == OBJECT
    assert OBJECT not in document_of("```math\n\\frac{a}{b}\n", []).toPlainText()


def test_only_what_a_line_of_text_cannot_show_needs_to_be_set() -> None:
    assert not needs_setting(r"x^2 + \alpha_i \leq \mathbb{R}^{n+1}")
    assert needs_setting(r"\frac12") and needs_setting("e^{x^{y}}") and needs_setting(r"\sum_{i} i")
    assert not needs_setting(r"\operatorname{argmax}_i i")
    assert needs_setting(r"\operatorname*{argmax}_i i") and needs_setting(r"\operatornamewithlimits{argmax}_i i")


def test_parts_stand_where_mathematics_has_them() -> None:
    fraction = box(r"\frac{a}{b}")
    assert mark_place(fraction, "a").bottom() < mark_place(fraction, "b").top()
    scripts = box("x_a^b")
    assert mark_place(scripts, "b").bottom() < mark_place(scripts, "a").top() and mark_place(scripts, "a").left() > 0
    limits, beside = box(r"\sum_i x"), box(r"\sum_i x", display=False)
    assert mark_place(limits, "i").left() < mark_place(limits, "∑").right() and mark_place(limits, "i").top() > 0
    assert mark_place(beside, "i").left() >= mark_place(beside, "∑").right()
    matrix = box(r"\begin{matrix} a & b \\ c & d \end{matrix}")
    assert (
        mark_place(matrix, "a").right() < mark_place(matrix, "b").left()
        and mark_place(matrix, "a").bottom() <= mark_place(matrix, "c").top()
    )
    for source in UNDERSTOOD:
        whole = box(source)
        for mark in whole.marks:
            assert -whole.ascent - 2 <= mark.place.top() and mark.place.bottom() <= whole.descent + 2
            assert mark.place.left() >= -1 and mark.place.right() <= whole.width + 2


def document_of(source: str, spans: list[Span]) -> QTextDocument:
    document = QTextDocument()
    document.setTextWidth(400)
    write(document, source, spans, LIGHT, tinted=True)
    return document


def test_a_formula_in_a_document_belongs_to_all_of_its_tokens_and_is_copied_as_latex() -> None:
    source = r"so $\frac{a}{b}$."
    spans = [Span(0, 9, "accepted", 0), Span(9, 12, "corrected", 1), Span(12, 17, "bonus", 2)]
    document = document_of(source, spans)
    assert document.toPlainText() == f"so {OBJECT}."
    assert [token for token, *_ in token_runs(document)] == [0, 0, 1, 2, 2]
    assert plain_text(document, 0, document.characterCount() - 1) == source


def test_each_symbol_is_drawn_on_the_tint_of_its_token_and_found_under_the_mouse() -> None:
    source = r"$\frac{a}{b}$"
    spans = [Span(0, 8, "accepted", 0), Span(8, 13, "corrected", 1)]
    document = document_of(source, spans)
    image = QImage(400, 100, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    document.drawContents(painter)
    painter.end()
    colours = {image.pixelColor(x, y).name() for x in range(400) for y in range(100)}
    assert {LIGHT.tints["accepted"], LIGHT.tints["corrected"]} <= colours
    line = document.firstBlock().layout().lineAt(0)
    place = QRectF(line.x() + 4, line.y() + 4, line.naturalTextWidth(), line.height())
    assert [token for token, *_ in token_runs(document)] == [0, 1]
    found = [token_within(document, 0, place, QPointF(place.center().x(), y)) for y in range(int(place.bottom()) + 1)]
    assert [token for token in dict.fromkeys(found) if token is not None] == [0, 1]


def image_of(document: QTextDocument) -> QImage:
    image = QImage(400, 200, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    document.drawContents(painter)
    painter.end()
    return image


SCREEN_READER = SimpleNamespace(isActive=lambda: True)
SPOKEN_SOURCE = "So $\\frac{a}{b}$ and 2:\n\n$$\\frac{1}{2}$$\n\nend"


def test_a_screen_reader_reads_a_formula_as_text_that_nobody_sees_copies_or_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plain = document_of(SPOKEN_SOURCE, [])
    monkeypatch.setattr(growing_document, "QAccessible", SCREEN_READER)
    document = document_of(SPOKEN_SOURCE, [])
    assert document.toPlainText() == f"So {OBJECT}a/b\u2060 and 2:\n{OBJECT}1/2\u2060\nend"
    assert image_of(document) == image_of(plain)
    assert plain_text(document, 0, document.characterCount() - 1) == SPOKEN_SOURCE
    assert matched_texts(document, "2") == matched_texts(plain, "2") == ["2", OBJECT]
    assert len(match_places(SPOKEN_SOURCE, "2")) == 2


def test_a_growing_reply_with_formulas_is_read_aloud_as_one_that_was_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing_document, "QAccessible", SCREEN_READER)
    document, whole = QTextDocument(), QTextDocument()
    growing = GrowingDocument(document, LIGHT, True)
    for end in range(1, len(SPOKEN_SOURCE) + 1):
        growing.grow(SPOKEN_SOURCE[:end], [Span(i, i + 1, "accepted", i) for i in range(end)])
    GrowingDocument(whole, LIGHT, True).grow(SPOKEN_SOURCE, [Span(i, i + 1, "accepted", i) for i in range(end)])
    assert document.toPlainText() == whole.toPlainText() and token_runs(document) == token_runs(whole)


LONG_SUM = "f(x) = " + " + ".join(rf"\frac{{a_{{{i}}}}}{{b_{{{i}}}}}" for i in range(1, 30)) + r" \approx \sqrt{x}"
LONG_LIST = ", ".join(r"\frac{1}{n}" * 2 for _ in range(20))
LONG_STEPS = r"\begin{aligned} y &= " + LONG_SUM.partition("= ")[2] + r" \\ &= z \end{aligned}"


@pytest.mark.parametrize("source", [LONG_SUM, LONG_STEPS, "(" + LONG_SUM + ")", LONG_LIST])
def test_a_wide_formula_is_broken_onto_lines_that_fit_with_every_symbol_once(source: str) -> None:
    one, lines = box(source), formula_lines(source, 16.0, True, 300.0)
    assert lines is not None and one.width > 400 and lines.width <= 300
    assert [(mark.at, mark.text) for mark in lines.marks] == [(mark.at, mark.text) for mark in one.marks]
    assert lines.ascent + lines.descent > 2 * (one.ascent + one.descent)
    assert lines.descent <= one.descent + 1e-6  # for which the font of its character was chosen
    symbols = [mark.place for mark in lines.marks if mark.text]
    assert not any(a.adjusted(1, 1, -1, -1).intersects(b) for a, b in itertools.combinations(symbols, 2))


def test_an_alignment_without_rows_has_lines_of_no_width() -> None:
    lines = formula_lines(r"\begin{align}\end{align}", 16.0, True, 300.0)
    assert lines is not None and lines.width == 0


def test_a_line_of_a_formula_ends_outside_brackets_and_before_a_relation_if_it_can() -> None:
    source = "a = (b + c + d + e) = (f + g + h + i) + j"
    lines = formula_lines(source, 16.0, True, 200.0)
    assert lines is not None
    tops = {}
    for mark in lines.marks:
        tops.setdefault(round(mark.baseline), []).append(mark.text)
    assert ["".join(line) for line in tops.values()] == ["a=(b+c+d+e)", "=(f+g+h+i)+j"]


def test_a_formula_is_made_smaller_before_it_is_broken_and_then_each_symbol_is_found_on_its_line() -> None:
    source = "$$" + "+".join("abcdefghij") + "$$"
    document = document_of(source, [Span(i, i + 1, "accepted", i) for i in range(len(source))])
    document.setTextWidth(10_000)
    wide = document.firstBlock().layout().lineAt(0).naturalTextWidth()
    heights = {}
    for share in (1.2, 0.9, 0.5):
        document.setTextWidth(wide * share + 2 * document.documentMargin())
        heights[share] = document.size().height()
        assert document.size().width() <= document.textWidth()
    assert heights[0.9] <= heights[1.2] < heights[0.5]
    line = document.firstBlock().layout().lineAt(0)
    left = document.firstBlock().blockFormat().leftMargin()
    place = QRectF(left + line.x() + 4, line.y() + 4, line.naturalTextWidth(), line.height())
    points = [QPointF(x, y) for y in range(int(place.bottom())) for x in range(int(place.right()))]
    found = {token_within(document, 0, place, point) for point in points} - {None}
    assert found == set(range(2, len(source) - 2))


def matched_texts(document: QTextDocument, term: str) -> list[str]:
    return [cursor.selectedText() for cursor in document_matches(document, term)]


@pytest.mark.parametrize(
    ("term", "shown"),
    [
        ("frac", [OBJECT, OBJECT]),  # its LaTeX
        ("ALPHA", [OBJECT]),
        ("\u03b1", [OBJECT, "\u03b1"]),  # what is seen, in the formula that is set and in the one that is shown as text
        ("x", ["x", "x", "x"]),
        ("$$", [OBJECT]),
        ("nowhere", []),
        (".", ["."]),
    ],
)
def test_find_looks_into_formulas_and_counts_in_the_source_what_is_marked_in_the_document(
    term: str, shown: list[str]
) -> None:
    source = "Take x:\n\n$$\\frac{\\alpha}{b}$$\n\nso \\(\\frac{a}{b}\\), $x^2 + \\alpha$ or $5 and $6 x."
    assert matched_texts(document_of(source, []), term) == shown
    assert len(match_places(source, term)) == len(shown)
    assert match_places(source, "frac", raw=True) == [source.index("frac"), source.rindex("frac")]
