"""Parses LaTeX formulas into trees (`formula_tree`): what each command and its arguments are. A command that is not
known is shown as it was written; a formula that LaTeX would refuse, as one with an argument missing, has no tree."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from app.window.markdown import formula_commands as commands
from app.window.markdown.formula_chemistry import chemistry, unit
from app.window.markdown.formula_commands import meanings
from app.window.markdown.formula_grammar import FormulaParser, Handler, between, em_of
from app.window.markdown.formula_spans import LONGEST_FORMULA
from app.window.markdown.formula_tokens import FormulaError, Token, tokenize
from app.window.markdown.formula_tree import (
    Accent,
    Arrow,
    Classed,
    Delimited,
    Delimiter,
    Fraction,
    Level,
    Limits,
    Matrix,
    Node,
    Phantom,
    Root,
    Row,
    Rule,
    Scripts,
    Space,
    Styled,
    Symbol,
)
from app.window.markdown.text_blocks import visible


@lru_cache(maxsize=1024)
def formula_tree(source: str) -> Row | None:
    """Returns the tree of a formula; None if it is too long, too deep, not LaTeX, or has characters that are not what
    they seem."""
    if len(source) > LONGEST_FORMULA or visible(source) != source:
        return None
    try:
        row = FormulaParser(source, _HANDLERS).formula()
    except FormulaError:
        return None
    return row if row.items else None


# --- commands with arguments -----------------------------------------------------------------------


def words(parser: FormulaParser, token: Token) -> list[Node]:
    name = token.text[1:]
    row = parser.text(commands.TEXTS[name])
    return [Accent(row, "box", token.at)] if name == "fbox" else [row]


def font(parser: FormulaParser, token: Token) -> list[Node]:
    before, alphabet = parser.font, parser.alphabet
    name = token.text[1:]
    parser.font, parser.alphabet = commands.FONTS.get(name), commands.ALPHABETS.get(name, "")
    row = parser.argument()
    parser.font, parser.alphabet = before, alphabet
    return [row]


def old_font(parser: FormulaParser, token: Token) -> list[Node]:
    script = token.text == "\\cal"
    parser.font = None if script else commands.OLD_FONTS[token.text[1:]]
    parser.alphabet = "SCRIPT" if script else ""
    return []


def dots(parser: FormulaParser, token: Token) -> list[Node]:
    """Dots on the axis between operators and relations, on the baseline elsewhere."""
    follows = meanings("math").get(parser.tokens.peek_after_blanks().text)
    centred = follows is not None and follows.kind in ("binary", "relation", "large")
    return [Symbol("⋯" if centred else "…", token.at, "inner")]


def space(parser: FormulaParser, token: Token) -> list[Node]:
    return [Space(commands.SPACES[token.text[1:]])]


def nothing(parser: FormulaParser, token: Token) -> list[Node]:
    return []


def skip(parser: FormulaParser, token: Token) -> list[Node]:
    parser.tokens.star()
    return [Space(parser.length())]


def fraction(parser: FormulaParser, token: Token) -> list[Node]:
    name = token.text[1:]
    made: Node = Fraction(parser.argument(), parser.argument(), name in commands.FRACTIONS, token.at)
    if name in commands.BINOMIALS:
        made = between("()", made, token.at)
    level = commands.FRACTIONS.get(name) or commands.BINOMIALS.get(name)
    return [Styled(Row((made,)), level)] if level else [made]


def general_fraction(parser: FormulaParser, token: Token) -> list[Node]:
    left, right = (parser.tokens.raw_argument() for _ in range(2))
    bar, level = parser.tokens.raw_argument(), parser.tokens.raw_argument()
    made: Node = Fraction(parser.argument(), parser.argument(), not bar or em_of(bar) > 0, token.at)
    ends = [text if len(text) == 1 else _delimiter_text(text) for text in (left or ".", right or ".")]
    if ends != [".", "."]:
        made = Delimited(((ends[0].strip("."), token.at), (ends[1].strip("."), token.at)), (made,))
    levels: dict[str, Level] = {"0": "display", "1": "text", "2": "script", "3": "scriptscript"}
    return [Styled(Row((made,)), levels[level])] if level in levels else [made]


def root(parser: FormulaParser, token: Token) -> list[Node]:
    degree = parser.optional()
    return [Root(degree, parser.argument(), token.at)]


def accent(parser: FormulaParser, token: Token) -> list[Node]:
    name = token.text[1:]
    under = name in commands.UNDER_ACCENTS
    mark = (commands.UNDER_ACCENTS if under else commands.ACCENTS)[name]
    return [Accent(parser.argument(), mark, token.at, under)]


def operator(parser: FormulaParser, token: Token) -> list[Node]:
    """\\operatorname; with a star, or as \\operatornamewithlimits, its limits stand above and below."""
    limits = parser.tokens.star() or token.text == "\\operatornamewithlimits"
    before, parser.font = parser.font, "upright"
    row = parser.argument()
    parser.font = before
    return [Classed(row, "function", "display" if limits else "beside")]


def function(parser: FormulaParser, token: Token) -> list[Node]:
    return [Symbol(token.text[1:], token.at, "function")]


def set_class(parser: FormulaParser, token: Token) -> list[Node]:
    limits: Limits = "display" if token.text == "\\mathop" else "beside"
    return [Classed(parser.argument(), commands.CLASSES[token.text[1:]], limits)]


def stacked(parser: FormulaParser, token: Token) -> list[Node]:
    script, base = parser.argument(), parser.argument()
    under = token.text == "\\underset"
    stack = Scripts(base, None if under else script, script if under else None, "always")
    return [Classed(Row((stack,)), "relation") if token.text == "\\stackrel" else stack]


def sided(parser: FormulaParser, token: Token) -> list[Node]:
    """\\sideset: the scripts at the left, those at the right, and an operator."""
    left, right = parser.argument(), parser.argument()
    return [*left.items, *parser.argument().items, *right.items]


def arrow(parser: FormulaParser, token: Token) -> list[Node]:
    below = parser.optional()
    return [Arrow(commands.ARROWS[token.text[1:]], parser.argument(), below, token.at)]


def phantom(parser: FormulaParser, token: Token) -> list[Node]:
    ink, width, height, side = commands.PHANTOMS[token.text[1:]]
    if token.text == "\\smash":
        parser.optional()
    return [Phantom(parser.argument(), ink, width, height, side)]


def rule(parser: FormulaParser, token: Token) -> list[Node]:
    raised = 0.0
    if parser.tokens.peek_after_blanks().text == "[":
        parser.tokens.pop()
        raised = parser.length()
        parser.tokens.expect("]")
    return [Rule(parser.length(), parser.length(), raised, token.at)]


def drawing(parser: FormulaParser, token: Token) -> list[Node]:
    """A command of which only the last argument is shown: colours belong to tokens here."""
    for _ in range(commands.DRAWING[token.text[1:]]):
        parser.tokens.raw_argument()
    if token.text in ("\\color", "\\label"):
        return []
    in_text = token.text in ("\\raisebox", "\\colorbox", "\\fcolorbox")
    row = parser.text() if in_text else parser.argument()
    return [Accent(row, "box", token.at)] if token.text == "\\fcolorbox" else [row]


def not_(parser: FormulaParser, token: Token) -> list[Node]:
    """\\not strikes the next symbol through."""
    parser.tokens.peek_after_blanks()
    row = parser.argument()
    match row.items:
        case (Symbol(text, at, kind, font), *rest):
            struck = Symbol(unicodedata.normalize("NFC", text + "\u0338"), at, kind, font)
            return [struck, *rest]
    return [Accent(row, "cancel", token.at)]


def tag(parser: FormulaParser, token: Token) -> list[Node]:
    star = parser.tokens.star()
    text = parser.text()
    around = [] if star else [Symbol("(", token.at), Symbol(")", token.at)]
    if parser.tag:
        raise FormulaError("two tags")
    parser.tag = [*around[:1], text, *around[1:]]
    return []


def chemical(parser: FormulaParser, token: Token) -> list[Node]:
    argument = parser.tokens.raw_tokens()
    parser.tokens.push_all(chemistry(argument) if token.text == "\\ce" else unit(argument))
    return [parser.group()]


def define(parser: FormulaParser, token: Token) -> list[Node]:
    parser.tokens.define(token.text[1:])
    return []


def character_code(parser: FormulaParser, token: Token) -> list[Node]:
    """\\char: a code in decimal, octal or hexadecimal digits, or a character behind a backtick."""
    mark = parser.tokens.peek().text
    if mark == "`":
        parser.tokens.pop()
        return [Symbol(parser.tokens.pop().text.removeprefix("\\"), token.at)]
    base = {"'": 8, '"': 16}.get(mark, 10)
    if base != 10:
        parser.tokens.pop()
    text, digits = "", frozenset("0123456789abcdefABCDEF"[: base if base < 16 else None])
    while parser.tokens.peek().text in digits:
        text += parser.tokens.pop().text
    if not text:
        raise FormulaError("a number is missing")
    return [Symbol(visible(chr(min(int(text, base), 0x10FFFF))), token.at)]


def url(parser: FormulaParser, token: Token) -> list[Node]:
    """\\url: an address, shown letter by letter."""
    return [Row(tuple(Symbol(t.text, t.at, font="typewriter") for t in parser.tokens.raw_tokens()))]


def verbatim(parser: FormulaParser, token: Token) -> list[Node]:
    characters = parser.tokens.verbatim(token.at + len(token.text))
    return [Symbol(text, at, font="typewriter") if text != " " else Space(0.5) for text, at in characters]


def braket(parser: FormulaParser, token: Token) -> list[Node]:
    """\\Braket, \\Set and \\set, within which bars are delimiters."""
    argument = parser.tokens.raw_tokens()
    if token.text == "\\set":
        opener, bar, closer = r"\{\,", r"\mid", r"\,\}"
    else:
        opener, closer = (r"\left\langle", r"\right\rangle") if token.text == "\\Braket" else (r"\left\{", r"\right\}")
        bar = r"\;\middle|\;"
    made = tokenize("{" + opener, token.at)
    depth = 0
    for part in argument:
        depth += (part.text == "{") - (part.text == "}")
        made += tokenize(bar, part.at) if part.text == "|" and not depth else [part]
    parser.tokens.push_all([*made, *tokenize(closer + "}", token.at)])
    return [parser.group()]


def first_choice(parser: FormulaParser, token: Token) -> list[Node]:
    """\\mathchoice: what stands in a display."""
    rows = [parser.argument() for _ in range(4)]
    return [rows[0]]


# --- delimiters ------------------------------------------------------------------------------------


def sized(parser: FormulaParser, token: Token) -> list[Node]:
    name = token.text[1:]
    side = name[-1] if name[-1] in "lrm" else ""
    text, at = _delimiter(parser)
    return [Delimiter(text, commands.SIZES[name.removesuffix(side)], commands.SIDES[side], at)] if text else []


def delimited(parser: FormulaParser, token: Token) -> list[Node]:
    """\\left ... \\right, with any number of \\middle."""
    delimiters = [_delimiter(parser)]
    bodies: list[Node] = []
    while True:
        bodies.append(parser.row(frozenset(("\\right", "\\middle"))))
        last = parser.tokens.pop().text == "\\right"
        delimiters.append(_delimiter(parser))
        if last:
            return [Delimited(tuple(delimiters), tuple(bodies))]


def _delimiter(parser: FormulaParser) -> tuple[str, int]:
    """Reads a delimiter; "" for a period."""
    parser.tokens.peek_after_blanks()
    token = parser.tokens.pop()
    if token.text == "{":
        token = parser.tokens.pop()
        parser.tokens.expect("}")
    text = _delimiter_text(token.text)
    return ("" if text == "." else text), token.at


# --- environments ----------------------------------------------------------------------------------


def environment(parser: FormulaParser, token: Token) -> list[Node]:
    written = parser.tokens.raw_argument()
    name = written.removesuffix("*")
    if name not in commands.ENVIRONMENTS:
        raise FormulaError(f"an unknown environment {name}")
    alignment, vertical = _column_places(parser, name)
    before, parser.font = parser.font, None
    rows, horizontal = _rows(parser)
    parser.font = before
    if parser.tokens.raw_argument() != written:
        raise FormulaError("an environment that does not end")
    matrix = Matrix(rows, alignment or "c", token.at, vertical=vertical, horizontal=horizontal)
    return [_environment(name, token.at, matrix, parser.tokens.last.at)]


def _column_places(parser: FormulaParser, name: str) -> tuple[str, tuple[int, ...]]:
    """Reads the arguments of an environment: its columns and the lines between them."""
    if name in ("array", "darray", "subarray"):
        return _columns(parser.tokens.raw_argument())
    if name in ("alignat", "alignedat"):
        parser.tokens.raw_argument()
    given = None
    if name in ("aligned", "gathered") or name in commands.MATRICES:
        first = parser.tokens.peek_after_blanks()
        given = parser.optional() if first.text == "[" and parser.tokens.closes_soon() else None
    letters = [item.text for item in given.items if isinstance(item, Symbol)] if given else []
    return "".join(letter for letter in letters if letter in "lcr") or "c", ()


def _rows(parser: FormulaParser) -> tuple[tuple[tuple[Row, ...], ...], tuple[int, ...]]:
    """Reads cells up to \\end, and the rows with a line before them."""
    ends = frozenset(("&", "\\\\", "\\end"))
    rows: list[tuple[Row, ...]] = []
    cells: list[Row] = []
    lines: list[int] = []
    outer, parser.tag = parser.tag, []
    while True:
        while not cells and parser.tokens.peek_after_blanks().text in ("\\hline", "\\hdashline"):
            parser.tokens.pop()
            lines.append(len(rows))
        cells.append(parser.row(ends))
        end = parser.tokens.pop().text
        if end == "&":
            continue
        if parser.tag:
            cells[-1] = Row((*cells[-1].items, Space(2.0), *parser.tag))
            parser.tag = []
        if end == "\\\\" or any(cell.items for cell in cells):
            rows.append(tuple(cells))
        if end == "\\end":
            break
        cells = []
        parser.line_gap()
    parser.tag = outer
    return tuple(rows), tuple(lines)


def _environment(name: str, at: int, matrix: Matrix, end: int) -> Node:
    """Returns the rows of an environment as it sets them."""
    if name in commands.ALIGNED:
        return replace(matrix, alignment="rl", columns="aligned", level="display")
    if name in commands.CENTRED:
        return replace(matrix, level="display")
    if name in commands.CASES:
        matrix = replace(matrix, alignment="l", level="display" if name[0] == "d" else "text")
        pair = commands.CASES[name]
    else:
        small = name in ("smallmatrix", "subarray")
        matrix = replace(
            matrix,
            columns="tight" if small else "wide",
            level="script" if small else "display" if name == "darray" else "text",
        )
        pair = commands.MATRICES[name]
    if not pair:
        return matrix
    return Delimited(((pair[0].strip("."), at), (pair[1].strip("."), end)), (matrix,))


def _columns(text: str) -> tuple[str, tuple[int, ...]]:
    """Returns the alignment of an array's columns, and those with a line before them."""
    text = re.sub(r"[@!pmb*]\{[^}]*\}", "", text)
    letters = [letter for letter in text if letter in "lcr"]
    lines = [len([a for a in text[:i] if a in "lcr"]) for i, letter in enumerate(text) if letter in "|:"]
    return "".join(letters), tuple(dict.fromkeys(lines))


def _delimiter_text(written: str) -> str:
    meaning = meanings("math").get(written)
    text = meaning.text if meaning else written
    text = {"<": "⟨", ">": "⟩", "\u2223": "|", "∥": "‖", "\u2216": "\\"}.get(text, text)
    if text not in commands.DELIMITERS:
        raise FormulaError("an unknown delimiter")
    return text


_KINDS: tuple[tuple[Iterable[str], Handler], ...] = (  # names of commands, and how these are read
    (commands.TEXTS, words),
    ((*commands.FONTS, *commands.ALPHABETS), font),
    ((*commands.OLD_FONTS, "cal"), old_font),
    (commands.SPACES, space),
    (commands.NOTHING, nothing),
    (("hspace", "kern", "mkern", "hskip", "mskip"), skip),
    ((*commands.FRACTIONS, *commands.BINOMIALS), fraction),
    ((*commands.ACCENTS, *commands.UNDER_ACCENTS), accent),
    (("operatorname", "operatornamewithlimits"), operator),
    (commands.FUNCTIONS | commands.LIMIT_FUNCTIONS, function),
    (commands.CLASSES, set_class),
    (("overset", "underset", "stackrel"), stacked),
    (commands.ARROWS, arrow),
    (commands.PHANTOMS, phantom),
    (commands.DRAWING, drawing),
    ((size + side for size in commands.SIZES for side in commands.SIDES), sized),
    (commands.DEFINITIONS, define),
    (("ce", "pu"), chemical),
    (("Braket", "Set", "set"), braket),
)
_HANDLERS = {name: handler for names, handler in _KINDS for name in names} | {
    "begin": environment,
    "char": character_code,
    "dots": dots,
    "genfrac": general_fraction,
    "left": delimited,
    "mathchoice": first_choice,
    "not": not_,
    "rule": rule,
    "sideset": sided,
    "sqrt": root,
    "tag": tag,
    "url": url,
    "verb": verbatim,
}
