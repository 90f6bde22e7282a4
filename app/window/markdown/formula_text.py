"""Formulas as plain text, from their trees: for lines that Unicode can show, for copies, for search and for screen
readers. x^2 becomes x², \\frac{a+b}{c} becomes (a + b)/c."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

from app.window.markdown import formula_tree as tree
from app.window.markdown.formula_parser import formula_tree
from app.window.markdown.traced_parser import Traced

_UP = str.maketrans(
    "0123456789+\u2212=()nijkxyabcdemtT\u2218\u00b0" + tree.PRIME,
    "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁼⁽⁾ⁿⁱʲᵏˣʸᵃᵇᶜᵈᵉᵐᵗᵀ\u00b0\u00b0" + tree.PRIME,
)
_DOWN = str.maketrans("0123456789+\u2212=()aeijkmnoprtuvx", "₀₁₂₃₄₅₆₇₈₉₊₋₌₍₎ₐₑᵢⱼₖₘₙₒₚᵣₜᵤᵥₓ")
_SCRIPTS = {"^": _UP, "_": _DOWN}
_ATOM = re.compile(r"\d+|[^\W\d]+|[^\W\d]?\([^()]*\)|\S")
# Marks that Unicode combines with letters, by the marks of accents.
_OVER = {
    "\u02c6": "\u0302",
    "\u02dc": "\u0303",
    "\u02d9": "\u0307",
    "\u00a8": "\u0308",
    "\u02c7": "\u030c",
    "\u20d7": "\u20d7",
    "\u00b4": "\u0301",
    "\u02cb": "\u0300",
    "\u02d8": "\u0306",
    "\u02da": "\u030a",
    "\u02c9": "\u0304",
    "→": "\u20d7",
}
_OVER |= {"hat": "\u0302", "tilde": "\u0303", "check": "\u030c", "line": "\u0305", "cancel": "\u0338"}
_OVER |= {"bcancel": "\u20e5", "xcancel": "\u0338", "strike": "\u0336"}
_UNDER = {"line": "\u0332", "tilde": "\u0330"}

PlacedText = tuple[str, int]  # and the place in the formula that it came from


def readable(source: Traced) -> Traced:
    """Returns the formula as text, each character with the place in the source of what it stands for. Returns `source`
    itself if it has no tree."""
    text, places = text_and_places(str(source))
    return Traced(text, [source.at[place] for place in places]) if text else source


@lru_cache(maxsize=2048)
def text_and_places(source: str) -> tuple[str, list[int]]:
    """Returns the text, and the place in the formula of each of its characters; "" if it has no tree."""
    root = formula_tree(source)
    if root is None:
        return "", []
    text: list[str] = []
    at: list[int] = []
    for piece, place in _text(root):
        text.append(piece)
        at += (min(max(place, 0), len(source) - 1),) * len(piece)
    return _squeezed("".join(text), at)


@lru_cache(maxsize=1024)
def needs_setting(source: str) -> bool:
    """Whether a formula says less as a line of text: it has fractions, roots, matrices, limits, fonts, or scripts that
    Unicode does not have."""
    root = formula_tree(source)
    return root is not None and not _is_line(root)


def is_set(source: str, display: bool) -> bool:
    """Whether a formula is set. The others are shown as text. display: on a line of its own."""
    return needs_setting(source) or (display and formula_tree(source) is not None)


def _is_line(node: tree.Node) -> bool:
    match node:
        case tree.Symbol():
            return node.font in ("italic", "upright")
        case tree.Space():
            return True
        case tree.Row(items):
            return all(map(_is_line, items))
        case tree.Classed(body, _, limits):
            return limits == "beside" and _is_line(body)
        case tree.Delimited(_, bodies):
            return all(map(_is_line, bodies))
        case tree.Scripts(base, above, below, limits):
            rows = (("^", above), ("_", below))
            return (
                limits == "beside" and _is_line(base) and all(row is None or _shifts(row, mark) for mark, row in rows)
            )
    return False


def _shifts(row: tree.Row, mark: str) -> bool:
    """Whether Unicode has all of a script."""
    return _is_line(row) and _shifted(_row(row), mark) is not None


def _squeezed(text: str, at: list[int]) -> tuple[str, list[int]]:
    """Returns the text with one space where there were several, and none at the ends."""
    kept = [i for i, character in enumerate(text) if character != " " or (i and text[i - 1] not in " \n")]
    shown = Traced("".join(text[i] for i in kept), [at[i] for i in kept]).strip()
    return str(shown), list(shown.at)


def _text(node: tree.Node | None) -> list[PlacedText]:
    """Returns the text of a part."""
    return [] if node is None else _WRITERS[type(node)](node)


def _symbol(symbol: tree.Symbol) -> list[PlacedText]:
    if len(symbol.text) > 1 and symbol.font == "typewriter":  # a command that is shown as it was written
        return [(character, symbol.at + i) for i, character in enumerate(symbol.text)]
    return [(symbol.text, symbol.at)]


def _space(space: tree.Space) -> list[PlacedText]:
    return [(" ", -1)] if space.width > 0.1 else []


def _row(row: tree.Row) -> list[PlacedText]:
    made: list[PlacedText] = []
    gap = 0.0
    for before, _, item in tree.spaced(row):
        pieces = _text(item)
        gap = max(gap, before)
        if pieces:
            place = pieces[0][1]
            made += [(" ", place)] if gap else []
            made += [(text, place if at < 0 else at) for text, at in pieces]
            gap = 0.0
    return made


def _fraction(fraction: tree.Fraction) -> list[PlacedText]:
    above, below = _grouped(_row(fraction.above)), _grouped(_row(fraction.below))
    return [*above, ("/" if fraction.bar else " choose ", fraction.at), *below]


def _root(root: tree.Root) -> list[PlacedText]:
    degree = [] if root.degree is None else _script(_row(root.degree), "^")
    return [*[piece for piece in degree if piece[0] != "^"], ("√", root.at), *_grouped(_row(root.body))]


def _scripts(scripts: tree.Scripts) -> list[PlacedText]:
    base = _text(scripts.base)
    if isinstance(scripts.base, tree.Row | tree.Accent):
        base = _grouped(base)
    return [*base, *_script(_text(scripts.below), "_"), *_script(_text(scripts.above), "^")]


def _accent(accent: tree.Accent) -> list[PlacedText]:
    body = _row(accent.body)
    mark = (_UNDER if accent.under else _OVER).get(accent.mark, "")
    if not mark or (len(body) > 1 and accent.mark not in tree.WIDE_MARKS):
        return body
    return [(unicodedata.normalize("NFC", text + mark) if text.strip() else text, at) for text, at in body]


def _arrow(arrow: tree.Arrow) -> list[PlacedText]:
    above, below = _text(arrow.above), _text(arrow.below)
    return [(arrow.text, arrow.at), *_script(below, "_"), *_script(above, "^")]


def _delimited(delimited: tree.Delimited) -> list[PlacedText]:
    made = [delimited.delimiters[0]]
    for body, delimiter in zip(delimited.bodies, delimited.delimiters[1:], strict=True):
        made += [*_text(body), delimiter]
    return made


def _matrix(matrix: tree.Matrix) -> list[PlacedText]:
    aligned = matrix.columns in ("aligned", "lines")
    made: list[PlacedText] = []
    for number, row in enumerate(matrix.rows):
        made += [("\n" if aligned else "; ", matrix.at)] if number else []
        for column, cell in enumerate(row):
            made += [(" " if aligned else ", ", matrix.at)] if column else []
            made += _row(cell)
    return made


_WRITERS: dict[type, Callable[..., list[PlacedText]]] = {
    tree.Symbol: _symbol,
    tree.Space: _space,
    tree.Row: _row,
    tree.Classed: lambda node: _row(node.body),
    tree.Styled: lambda node: _row(node.body),
    tree.Phantom: lambda node: _row(node.body) if node.ink else [(" ", -1)] if node.width else [],
    tree.Rule: lambda node: [("▮", node.at)] if node.width and node.height else [],
    tree.Fraction: _fraction,
    tree.Root: _root,
    tree.Scripts: _scripts,
    tree.Accent: _accent,
    tree.Arrow: _arrow,
    tree.Delimiter: lambda node: [(node.text, node.at)],
    tree.Delimited: _delimited,
    tree.Matrix: _matrix,
}


def _grouped(pieces: list[PlacedText]) -> list[PlacedText]:
    """Returns the pieces, in brackets where they are more than one thing."""
    text = "".join(piece for piece, _ in pieces)
    if _ATOM.fullmatch(text) or not pieces:
        return pieces
    return [("(", pieces[0][1]), *pieces, (")", pieces[-1][1])]


def _script(pieces: Sequence[PlacedText], mark: str) -> list[PlacedText]:
    shifted = _shifted(pieces, mark)
    if shifted is not None:
        return shifted
    return [(mark, pieces[0][1]), *_grouped(list(pieces))]


def _shifted(pieces: Sequence[PlacedText], mark: str) -> list[PlacedText] | None:
    """Returns a script in Unicode's raised or lowered characters; None if it does not have them all."""
    shift, dense = _SCRIPTS[mark], [piece for piece in pieces if piece[0] != " "]
    if all(ord(character) in shift for text, _ in dense for character in text):
        return [(text.translate(shift), place) for text, place in dense]
    return None
