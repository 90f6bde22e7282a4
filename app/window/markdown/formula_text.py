"""LaTeX formulas as text that can be read: x^2 becomes x², \\frac{a+b}{c} becomes (a+b)/c."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from typing import Any

from app.window.markdown.traced_parser import LONGEST_FORMULA, Traced

DEEPEST_GROUP = 12  # nested groups
# pylatexenc raises whatever its tables lead to.
LATEX_ERRORS = (ValueError, IndexError, KeyError, TypeError, AttributeError, RecursionError)

_UP = str.maketrans("0123456789+-=()nijkxyabcdemtT", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱʲᵏˣʸᵃᵇᶜᵈᵉᵐᵗᵀ")
_DOWN = str.maketrans("0123456789+-=()aeijkmnoprtuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑᵢⱼₖₘₙₒₚᵣₜᵤᵥₓ")
_SCRIPTS = {"^": _UP, "_": _DOWN}
_FRACTIONS = ("frac", "dfrac", "tfrac", "cfrac")
_SIZES = ("left", "right", "big", "Big", "bigl", "bigr", "Bigl", "Bigr", "displaystyle", "limits", "nolimits")
_ATOM = re.compile(r"\d+|[^\W\d]+|[^\W\d]?\([^()]*\)|\S")

Piece = tuple[str, int]  # text, and the place in the formula that it came from


def readable(source: Traced) -> Traced:
    """Returns the formula as text. A character of plain text keeps its place in the source; what a macro was turned
    into has the place where the macro begins. Returns `source` itself if it is too long, too deep or not understood."""
    text, places = text_and_places(str(source))
    return Traced(text, [source.at[place] for place in places]) if text else source


@lru_cache(maxsize=2048)  # an open formula is shown anew whenever its reply grows
def text_and_places(source: str) -> tuple[str, list[int]]:
    """Returns the text, and the place in the formula of each of its characters; "" if there is none."""
    if not is_bounded(source):
        return "", []
    text: list[str] = []
    at: list[int] = []
    try:
        for piece, place in _read(latex_nodes(source)):
            text.append(piece)
            at += (min(place, len(source) - 1),) * len(piece)
    except LATEX_ERRORS:
        return "", []
    return _squeezed("".join(text), at)


def is_bounded(source: str) -> bool:
    """Whether a formula is short and flat enough to be read."""
    return len(source) <= LONGEST_FORMULA and _depth(source) <= DEEPEST_GROUP


def _depth(source: str) -> int:
    deep = deepest = 0
    for character in source:
        deep += (character == "{") - (character == "}")
        deepest = max(deepest, deep)
    return max(deepest, source.count("\\begin"), source.count("[") // 4)


def _squeezed(text: str, at: list[int]) -> tuple[str, list[int]]:
    """Returns the text with one space where there were several, and none at the ends."""
    kept = [i for i, character in enumerate(text) if character != " " or (i and text[i - 1] not in " \n")]
    shown = Traced("".join(text[i] for i in kept), [at[i] for i in kept]).strip()
    return str(shown), list(shown.at)


@cache
def _converter() -> Any:
    # It takes a while, and few replies have formulas.
    from pylatexenc.latex2text import LatexNodes2Text  # type: ignore[import-untyped]

    return LatexNodes2Text(math_mode="text", strict_latex_spaces=True)


def latex_nodes(source: str) -> Iterable[Any]:
    """Returns pylatexenc's nodes of a formula. Raises LATEX_ERRORS."""
    from pylatexenc.latexwalker import LatexWalker  # type: ignore[import-untyped]

    walker = LatexWalker(source, latex_context=_commands(), tolerant_parsing=True)
    nodes: Iterable[Any] = walker.get_latex_nodes()[0]
    return nodes


@cache
def _commands() -> Any:
    """Returns the commands that pylatexenc knows, and the arguments of some more."""
    from pylatexenc.latexwalker import get_default_latex_context_db
    from pylatexenc.macrospec import std_macro  # type: ignore[import-untyped]

    known = get_default_latex_context_db()
    two = ("binom", "dbinom", "tbinom", "overset", "underset", "stackrel")
    one = ("boxed", "bm", "boldsymbol", "mathscr", "operatorname", "tag")
    macros = [*(std_macro(name, "{{") for name in two), *(std_macro(name, "{") for name in one)]
    known.add_context_category("more mathematics", prepend=True, macros=macros)
    return known


def macro_text(node: Any) -> str:
    """Returns what a node says as plain text, such as the letter for \\alpha. Raises LATEX_ERRORS."""
    return str(_converter().nodelist_to_text([node]))


def _read(nodes: Iterable[Any]) -> Iterator[Piece]:
    """Yields pieces of text. A script applies to the one character or node after its mark."""
    script = ""
    for node in nodes:
        kind = type(node).__name__
        if kind != "LatexCharsNode":
            pieces = list(_node(node, kind))
            yield from _scripted(pieces, script) if script else pieces
            script = ""
            continue
        for offset, character in enumerate(node.chars):
            piece = (character, node.pos + offset)
            if character in _SCRIPTS and not script:
                script = character
            elif script and not character.isspace():
                yield from _scripted([piece], script)
                script = ""
            else:
                yield piece


def _node(node: Any, kind: str) -> Iterator[Piece]:
    if kind == "LatexGroupNode":
        yield from _read(node.nodelist)
        return
    if kind == "LatexMacroNode":
        arguments = [argument for argument in (node.nodeargd.argnlist or ()) if argument] if node.nodeargd else []
        if node.macroname in _FRACTIONS and len(arguments) == 2:
            yield from _grouped(list(_read(arguments[:1])))
            yield "/", node.pos
            yield from _grouped(list(_read(arguments[1:])))
            return
        if node.macroname in _SIZES and not arguments:
            return
    text = macro_text(node)
    yield text, node.pos
    if kind == "LatexMacroNode" and node.macro_post_space and text and not text.endswith(" "):
        yield " ", node.pos


def _grouped(pieces: list[Piece]) -> list[Piece]:
    """Returns the pieces, in brackets where they are more than one thing."""
    text = "".join(piece for piece, _ in pieces)
    if _ATOM.fullmatch(text) or not pieces:
        return pieces
    return [("(", pieces[0][1]), *pieces, (")", pieces[-1][1])]


def _scripted(pieces: list[Piece], script: str) -> list[Piece]:
    shift = _SCRIPTS[script]
    if all(ord(character) in shift for text, _ in pieces for character in text):
        return [(text.translate(shift), place) for text, place in pieces]
    return [(script, pieces[0][1]), *_grouped(pieces)] if pieces else []
