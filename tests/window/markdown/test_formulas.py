"""Formulas that are set: what is understood, where symbols stand, and whose token each of them is."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QImage, QPainter, QTextCursor, QTextDocument

from app.window.common.appearance import LIGHT
from app.window.markdown import Span, plain_text, token_runs, write
from app.window.markdown.formula_layout import Box, formula_box
from app.window.markdown.formula_object import formula_tokens, token_within
from app.window.markdown.formula_tree import formula_tree, needs_setting
from app.window.markdown.text_blocks import OBJECT

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
]
NOT_UNDERSTOOD = [
    r"\foo{x}",
    r"x^",
    r"\left( x",
    r"x \right)",
    r"a & b",
    r"\begin{tikzpicture} x \end{tikzpicture}",
    "x\u202ey",
    r"\frac{" * 20 + "x" + "}{y}" * 20,
    "x" * 3000,
]


def box(source: str, display: bool = True) -> Box:
    found = formula_box(source, 16.0, display)
    assert found is not None
    return found


def shown(box: Box, text: str) -> QRectF:
    return next(mark.place for mark in box.marks if mark.text == text)


@pytest.mark.parametrize("source", UNDERSTOOD)
def test_each_symbol_of_a_formula_knows_the_character_that_it_came_from(source: str) -> None:
    for mark in box(source).marks:
        if len(mark.text) == 1 and mark.text.isalnum() and mark.text.isascii():
            assert source[mark.at] == mark.text


@pytest.mark.parametrize("source", NOT_UNDERSTOOD)
def test_what_cannot_be_set_whole_is_not_set(source: str) -> None:
    assert formula_tree(source) is None and formula_box(source, 16.0, True) is None


def test_only_what_a_line_of_text_cannot_show_needs_to_be_set() -> None:
    assert not needs_setting(r"x^2 + \alpha_i \leq \mathbb{R}^{n+1}")
    assert needs_setting(r"\frac12") and needs_setting("e^{x^{y}}") and needs_setting(r"\sum_{i} i")


def test_parts_stand_where_mathematics_has_them() -> None:
    fraction = box(r"\frac{a}{b}")
    assert shown(fraction, "a").bottom() < shown(fraction, "b").top()
    scripts = box("x_a^b")
    assert shown(scripts, "b").bottom() < shown(scripts, "a").top() and shown(scripts, "a").left() > 0
    limits, beside = box(r"\sum_i x"), box(r"\sum_i x", display=False)
    assert shown(limits, "i").left() < shown(limits, "∑").right() and shown(limits, "i").top() > 0
    assert shown(beside, "i").left() >= shown(beside, "∑").right()
    matrix = box(r"\begin{matrix} a & b \\ c & d \end{matrix}")
    assert (
        shown(matrix, "a").right() < shown(matrix, "b").left()
        and shown(matrix, "a").bottom() <= shown(matrix, "c").top()
    )
    for source in UNDERSTOOD:
        whole = box(source)
        for mark in whole.marks:
            assert -whole.ascent - 2 <= mark.place.top() and mark.place.bottom() <= whole.descent + 2
            assert mark.place.left() >= -1 and mark.place.right() <= whole.width + 2


def written(source: str, spans: list[Span]) -> QTextDocument:
    document = QTextDocument()
    document.setTextWidth(400)
    write(document, source, spans, LIGHT, tinted=True)
    return document


def test_a_formula_in_a_document_belongs_to_all_of_its_tokens_and_is_copied_as_latex() -> None:
    source = r"so $\frac{a}{b}$."
    spans = [Span(0, 9, "accepted", 0), Span(9, 12, "corrected", 1), Span(12, 17, "bonus", 2)]
    document = written(source, spans)
    assert document.toPlainText() == f"so {OBJECT}."
    assert [token for token, *_ in token_runs(document)] == [0, 0, 1, 2, 2]
    assert plain_text(document, 0, document.characterCount() - 1) == source


def test_each_symbol_is_drawn_on_the_tint_of_its_token_and_found_under_the_mouse() -> None:
    source = r"$\frac{a}{b}$"
    spans = [Span(0, 8, "accepted", 0), Span(8, 13, "corrected", 1)]
    document = written(source, spans)
    image = QImage(400, 100, QImage.Format.Format_RGB32)
    image.fill(0xFFFFFFFF)
    painter = QPainter(image)
    document.drawContents(painter)
    painter.end()
    colours = {image.pixelColor(x, y).name() for x in range(60) for y in range(60)}
    assert {LIGHT.tints["accepted"], LIGHT.tints["corrected"]} <= colours
    cursor = QTextCursor(document)
    cursor.setPosition(1)
    line = document.firstBlock().layout().lineAt(0)
    place = QRectF(line.x() + 4, line.y() + 4, line.naturalTextWidth(), line.height())
    assert formula_tokens(cursor.charFormat()) == [0, 1]
    found = [token_within(document, 0, place, QPointF(place.center().x(), y)) for y in range(int(place.bottom()) + 1)]
    assert [token for token in dict.fromkeys(found) if token is not None] == [0, 1]


def test_a_formula_that_is_wider_than_its_page_is_made_smaller() -> None:
    document = written("$$" + "+".join(r"\frac{a}{b}" for _ in range(25)) + "$$", [])
    document.setTextWidth(300)
    assert document.size().width() <= 300
