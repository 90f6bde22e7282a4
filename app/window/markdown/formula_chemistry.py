"""Chemical formulas and units as mhchem writes them (\\ce, \\pu), turned into ordinary LaTeX. The common forms are
known: numbers below, charges above, arrows, bonds, states and isotopes."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.window.markdown.formula_tokens import Token, tokenize

_ARROWS = {
    "<=>>": r"\xrightleftharpoons",
    "<<=>": r"\xrightleftharpoons",
    "<=>": r"\xrightleftharpoons",
    "<-->": r"\xrightleftarrows",
    "<->": r"\xleftrightarrow",
    "->": r"\xrightarrow",
    "<-": r"\xleftarrow",
    "→": r"\xrightarrow",
    "⇌": r"\xrightleftharpoons",
    "↔": r"\xleftrightarrow",
}
_PART = re.compile(
    "(?P<arrow>" + "|".join(map(re.escape, _ARROWS)) + r")"
    r"|(?P<gas>\([\^v]\)|(?<=\s)[\^v](?=\s|$))"
    r"|(?P<script>[\^_](?:\{[^{}]*\}|[-+\d.]+[-+]?|\\?[A-Za-z]+|.))"
    r"|(?P<state>\((?:aq|s|l|g|cr|ads)\))"
    r"|(?P<number>\d+(?:[./]\d+)?)"
    r"|(?P<charge>[-+\u2212](?=[\s)\]},]|$|\((?:aq|s|l|g)\)))"
    r"|(?P<atom>[A-Z][a-z]?|[a-z]+)"
    r"|(?P<raw>\$[^$]*\$|\\[A-Za-z]+|\\.|\{|\})"
    r"|(?P<blank>\s+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_IN_BRACKETS = re.compile(r"\[((?:[^\[\]{}]|\{[^{}]*\})*)\]")
_TAKES_SUBSCRIPT = frozenset(("atom", "closed", "script", "sub"))  # kinds of parts after which a number is a subscript


def chemistry(argument: Sequence[Token]) -> list[Token]:
    """Returns the argument of \\ce as ordinary tokens, within braces."""
    source, places = _text_and_places(argument)
    made: list[Token] = [*tokenize(r"{\mathrm{", places[0] if places else 0)]
    before, used, at = "", "", 0  # used: the marks of the scripts that the last atom has
    while at < len(source):
        match = _PART.match(source, at)
        assert match is not None
        kind = str(match.lastgroup)
        piece, end = _piece(source, match, kind, before)
        if piece[:1] in ("^", "_"):
            again = piece[0] in used or (kind == "number" and used == "^")
            used = piece[0] if again else used + piece[0]
            piece = "{}" + piece if again else piece
        else:
            used = ""
        made += _at(piece, source, match.start(), places)
        if kind == "number":
            kind = "sub" if before in _TAKES_SUBSCRIPT else "count"
        before = "closed" if match[0] in (")", "]", "}", "\\}") or kind == "state" else kind
        before = "opened" if match[0] in ("(", "[") else before
        at = end
    return [*made, *tokenize("}}", made[-1].at)]


def _piece(source: str, match: re.Match[str], kind: str, before: str) -> tuple[str, int]:
    """Returns the LaTeX of one part, and where the next begins."""
    text, end = match[0], match.end()
    if kind == "arrow":
        return _arrow(source, text, end)
    if kind == "script":
        inner = text[1:].strip("{}")
        return f"{text[0]}{{{inner.replace('.', chr(0x2219)) if text[0] == '^' else inner}}}", end
    if kind == "gas":
        return (r"\uparrow" if "^" in text else r"\downarrow"), end
    if kind == "number":
        if before in _TAKES_SUBSCRIPT:
            below = re.split("[./]", text)[0]
            return f"_{{{below}}}", match.start() + len(below)
        return (text if before == "opened" else _fraction(text)) + ("" if before else r"\,"), end
    if kind == "charge" and before in _TAKES_SUBSCRIPT:
        return f"^{{{text}}}", end
    if kind == "other" and text in "-=#" and before in _TAKES_SUBSCRIPT:
        return {"-": r"\mathord{-}", "=": r"\mathord{=}", "#": r"\mathord{\equiv}"}[text], end
    if kind == "other" and text in "*.":
        return r"\cdot ", end
    if kind == "raw" and text[0] == "$":
        return f"\\mathnormal{{{text[1:-1]}}}", end
    return (" " if kind == "blank" else text), end


def _fraction(text: str) -> str:
    above, slash, below = text.partition("/")
    return rf"\tfrac{{{above}}}{{{below}}}" if slash else text


def _arrow(source: str, arrow: str, end: int) -> tuple[str, int]:
    """Returns an arrow with what stands in brackets behind it, above and below."""
    texts: list[str] = []
    while len(texts) < 2 and (found := _IN_BRACKETS.match(source, end)):
        texts.append(found[1])
        end = found.end()
    above, below = (f"\\ce{{{text}}}" if text.strip() else "" for text in [*texts, "", ""][:2])
    return f"{_ARROWS[arrow]}[{below}]{{{above}}}", end


def unit(argument: Sequence[Token]) -> list[Token]:
    """Returns the argument of \\pu as ordinary tokens, within braces."""
    source, places = _text_and_places(argument)
    start = places[0] if places else 0
    made = re.sub(r"(\d)[eE]([-+]?\d+)", r"\1\\cdot 10^{\2}", re.sub(r"\s+", r"\\,", source.strip()))
    made = re.sub(r"(?<=[A-Za-z])(-?\d+)", r"^{\1}", re.sub(r"\^(-?\d+)", r"^{\1}", made))
    return tokenize(rf"{{\mathrm{{{made.replace('*', chr(92) + 'cdot ')}}}}}", start)


def _text_and_places(argument: Sequence[Token]) -> tuple[str, list[int]]:
    """Returns the text of tokens, and the place of each of its characters."""
    text, places = "", list[int]()
    for i, token in enumerate(argument):
        follows = argument[i + 1].text if i + 1 < len(argument) else ""
        piece = token.text + (" " if len(token.text) > 2 and token.text[0] == "\\" and follows[:1].isalpha() else "")
        text += piece
        places += [token.at + (j if j < len(token.text) else 0) for j in range(len(piece))]
    return text, places


def _at(piece: str, source: str, start: int, places: Sequence[int]) -> list[Token]:
    """Returns the tokens of a piece; those that stand in the source keep their order there."""
    made: list[Token] = []
    place = start
    for token in tokenize(piece):
        found = source.find(token.text, place, start + len(piece) + 2)
        if found >= 0 and token.text not in "{}":
            place = found + 1
        made.append(Token(token.text, places[min(found if found >= 0 else start, len(places) - 1)]))
    return made
