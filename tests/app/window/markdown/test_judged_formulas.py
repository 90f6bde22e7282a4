"""The comparison of formulas with KaTeX sees what it looks for. KaTeX itself is not needed here."""

import pytest

from tests.formulas import judge

HALF = "<math><mrow><mfrac><mn>1</mn><mn>2</mn></mfrac><mo>\u2260</mo><msup><mi>x</mi><mn>2</mn></msup></mrow></math>"


@pytest.mark.parametrize(
    ("latex", "verdict"),
    [
        (r"\dfrac12 \ne x^2", "right"),
        (r"\dfrac12 x^2", "incomplete"),
        (r"\dfrac12 \ne x_2", "wrong"),
        (r"\dfrac12 \ne {", "as written"),
    ],
)
def test_a_formula_is_right_only_if_every_character_stands_where_it_should(latex: str, verdict: str) -> None:
    assert judge(latex, True, HALF).verdict == verdict
