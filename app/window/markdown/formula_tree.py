"""LaTeX formulas as trees of what can be set: symbols, scripts, fractions, roots, matrices. Each symbol knows the place
in the formula that it came from.

The commands are those that language models write; a formula with any other one is not understood as a whole, and is
shown as text (`formula_text`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from app.window.markdown.formula_text import LATEX_ERRORS, is_bounded, latex_nodes, macro_text, text_and_places
from app.window.markdown.text_blocks import visible

Kind = Literal["ordinary", "binary", "relation", "open", "close", "punctuation", "large", "function"]
Font = Literal["italic", "upright", "bold"]


@dataclass(frozen=True)
class Symbol:
    """Characters that are set as one. at: their place in the formula."""

    text: str
    at: int
    kind: Kind = "ordinary"
    font: Font = "upright"


@dataclass(frozen=True)
class Space:
    """A space. width: em."""

    width: float


@dataclass(frozen=True)
class Row:
    """Things beside each other."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Fraction:
    """One row over another. bar: whether there is a line between them."""

    above: Row
    below: Row
    bar: bool
    at: int


@dataclass(frozen=True)
class Root:
    """A root. degree: None for a square root."""

    degree: Row | None
    body: Row
    at: int


@dataclass(frozen=True)
class Scripts:
    """A base with a superscript, a subscript or both. limits: whether they stand above and below in a display."""

    base: Node
    above: Row | None
    below: Row | None
    limits: bool


@dataclass(frozen=True)
class Accent:
    """A mark over a body; "line", "underline" and "box" are as wide as the body."""

    body: Row
    mark: str
    at: int


@dataclass(frozen=True)
class Delimited:
    """A body between delimiters as tall as it is. left, right: "" for none."""

    left: str
    body: Node
    right: str
    at: int
    end: int


@dataclass(frozen=True)
class Matrix:
    """Rows of cells. alignment: of the columns in turn, "l", "c" or "r"."""

    rows: tuple[tuple[Row, ...], ...]
    alignment: str


Node = Symbol | Space | Row | Fraction | Root | Scripts | Accent | Delimited | Matrix

# Written as escapes where a sign looks like another one: minus, multiplied by, asterisk, union, or, set minus, similar.
MINUS, PRIME = "\u2212", "\u2032"
_BINARY = frozenset("+*\u2212±∓\u00d7÷·⋅\u2217∘∙\u222a∩∧\u2228⊕⊗⊙\u2216")
_RELATIONS = frozenset("=<>:~≤≥≠≈≡≃≅∝∈∉∋⊂⊆⊃⊇→←↔⇒⇐⇔↦⟶⟵⟹⟺≪≫∥⊥⊢⊨≺≻≐≜↑↓\u223c\u2223\u2236")
_LARGE = frozenset("∑∏∐⋂⨁⨂⋀∫∬∭∮\u22c3\u22c1")
_SIDE = frozenset("∫∬∭∮")  # whose limits stand beside them
_FUNCTIONS = frozenset(
    (
        *("sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh"),
        *("log", "ln", "lg", "exp", "lim", "limsup", "liminf", "max", "min", "sup", "inf"),
        *("arg", "det", "dim", "ker", "gcd", "deg", "hom", "Pr"),
    )
)
_LIMITS = frozenset(("lim", "limsup", "liminf", "max", "min", "sup", "inf", "det", "gcd", "Pr"))
_SPACES = {",": 0.17, ":": 0.22, ">": 0.22, ";": 0.28, "!": -0.17, " ": 0.25, "quad": 1.0, "qquad": 2.0, "enspace": 0.5}
_NOTHING = frozenset(
    (
        *("displaystyle", "textstyle", "scriptstyle", "limits", "nolimits"),
        *("nonumber", "notag", "mathstrut", "hline", "allowbreak"),
    )
)
_SIZED = frozenset(f"{size}{side}" for size in ("big", "Big", "bigg", "Bigg") for side in ("", "l", "r", "m"))
_FRACTIONS = frozenset(("frac", "dfrac", "tfrac", "cfrac"))
_BINOMIALS = frozenset(("binom", "dbinom", "tbinom"))
_UPRIGHT = frozenset(
    (
        *("text", "textrm", "textnormal", "textit", "textsf", "texttt", "mbox"),
        *("mathrm", "mathsf", "mathtt", "operatorname"),
    )
)
_BOLD = frozenset(("mathbf", "boldsymbol", "bm", "textbf"))
_ALPHABETS = frozenset(("mathbb", "mathcal", "mathfrak", "mathscr"))
_ACCENTS = {
    "hat": "\u02c6",
    "widehat": "\u02c6",
    "tilde": "\u02dc",
    "widetilde": "\u02dc",
    "dot": "˙",
    "ddot": "¨",
    "check": "ˇ",
    "vec": "→",
    "bar": "line",
    "overline": "line",
    "underline": "underline",
    "boxed": "box",
}
_DELIMITERS = {"langle": "⟨", "rangle": "⟩", "lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "{": "{"}
_DELIMITERS |= {"}": "}", "|": "‖", "vert": "|", "Vert": "‖", "lvert": "|", "rvert": "|", "lVert": "‖", "rVert": "‖"}
_OPENING, _CLOSING = frozenset("([{⟨⌊⌈"), frozenset(")]}⟩⌋⌉")
_MATRICES = {
    "matrix": ("", ""),
    "smallmatrix": ("", ""),
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": ("{", "}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("‖", "‖"),
    "cases": ("{", ""),
}
_ALIGNED = frozenset(name + star for name in ("align", "aligned", "alignat", "split") for star in ("", "*"))
_CENTRED = frozenset(("gather", "gathered", "gather*", "equation", "equation*"))


class _UnknownCommandError(ValueError):
    """The formula has a command that cannot be set."""


@lru_cache(maxsize=1024)
def formula_tree(source: str) -> Row | None:
    """Returns the tree of a formula; None if it is too long, too deep, not understood or has characters that are not
    what they seem."""
    if not is_bounded(source) or visible(source) != source:
        return None
    try:
        row = _row(latex_nodes(source), "italic")
    except LATEX_ERRORS:  # _UnknownCommandError is a ValueError
        return None
    return row if row.items else None


@lru_cache(maxsize=1024)
def needs_setting(source: str) -> bool:
    """Whether a formula says less as a line of text: it has fractions, roots, matrices, limits, or scripts that
    Unicode does not have."""
    tree = formula_tree(source)
    return tree is not None and (_is_tall(tree) or any(mark in text_and_places(source)[0] for mark in "^_"))


def is_set(source: str, display: bool) -> bool:
    """Whether a formula is set. The others are shown as text. display: on a line of its own."""
    return needs_setting(source) or (display and formula_tree(source) is not None)


def _is_tall(node: Node) -> bool:
    match node:
        case Row(items):
            return any(map(_is_tall, items))
        case Scripts(base, above, below, limits):
            return limits or any(_is_tall(part) for part in (base, above, below) if part is not None)
        case Delimited(_, body):
            return _is_tall(body)
        case Symbol() | Space():
            return False
    return True


# --- from pylatexenc's nodes ----------------------------------------------------------------------

Atom = tuple[Any, int]  # one character or a node of another kind, and its place


def _atoms(nodes: Iterable[Any]) -> list[Atom]:
    """Returns the nodes, with text as its single characters."""
    found: list[Atom] = []
    for node in nodes:
        match type(node).__name__:
            case "LatexCharsNode":
                found += ((character, node.pos + i) for i, character in enumerate(node.chars))
            case "LatexSpecialsNode":
                found += ((character, node.pos) for character in _special(node.specials_chars))
            case "LatexCommentNode":
                pass
            case _:
                found.append((node, node.pos))
    return found


def _special(characters: str) -> str:
    return " " if characters == "~" else characters


def _row(nodes: Iterable[Any], font: Font) -> Row:
    reader = _RowReader(_atoms(nodes), font)
    row = reader.read()
    if reader.left:
        raise _UnknownCommandError("a delimiter that nothing opens")
    return row


class _RowReader:
    """Reads atoms one after the other."""

    def __init__(self, atoms: Sequence[Atom], font: Font) -> None:
        self._atoms, self._font, self._next = atoms, font, 0

    @property
    def left(self) -> int:
        """How many atoms were not read."""
        return len(self._atoms) - self._next

    def read(self) -> Row:
        """Reads as far as the end, or the \\right that closes."""
        items: list[Node] = []
        while self.left and _name(self._atoms[self._next][0]) != "right":
            atom, at = self._atoms[self._next]
            self._next += 1
            if isinstance(atom, str) and atom in "^_'":
                base = items.pop() if items else Space(0)
                items.append(self._scripts(base, atom, at))
            elif _name(atom) == "left":
                items.append(self._delimited(at))
            elif _name(atom) in _SIZED:
                text, place = self._delimiter()
                items += [Symbol(text, place, _kind(text))] if text else []
            elif not isinstance(atom, str) or not atom.isspace():
                items += _items(atom, at, self._font)
        return Row(tuple(items))

    def _scripts(self, base: Node, mark: str, at: int) -> Scripts:
        """Returns a base with the script that `mark` begins; one that has the other script already takes it too."""
        above: Row | None
        below: Row | None
        above = below = None
        match base:
            case Scripts(inner, over, under, _) if mark != "_" or under is None:
                base, above, below = inner, over, under
        if mark == "'":
            above = Row((*(above.items if above else ()), Symbol(PRIME, at)))
        elif mark == "^":
            above = Row((*(above.items if above else ()), *self._argument().items))
        else:
            below = self._argument()
        return Scripts(base, above, below, _has_limits(base))

    def _argument(self) -> Row:
        """Reads the one thing that a script is."""
        while self.left and str(self._atoms[self._next][0]).isspace():
            self._next += 1
        if not self.left:
            raise _UnknownCommandError("a script without anything in it")
        atom, at = self._atoms[self._next]
        self._next += 1
        return Row(tuple(_items(atom, at, self._font)))

    def _delimited(self, at: int) -> Delimited:
        left, _ = self._delimiter()
        body = self.read()
        if not self.left:
            raise _UnknownCommandError("\\left without \\right")
        end = self._atoms[self._next][1]
        self._next += 1
        right, _ = self._delimiter()
        return Delimited(left, body, right, at, end)

    def _delimiter(self) -> tuple[str, int]:
        """Reads a delimiter; "" for a period."""
        while self.left and str(self._atoms[self._next][0]).isspace():
            self._next += 1
        atom, at = self._atoms[self._next]
        self._next += 1
        text = atom if isinstance(atom, str) else _DELIMITERS.get(_name(atom), "")
        if not text or (len(text) == 1 and text not in "()[]{}|‖⟨⟩⌊⌋⌈⌉/.<>"):
            raise _UnknownCommandError("an unknown delimiter")
        return {".": "", "<": "⟨", ">": "⟩"}.get(text, text), at


def _name(atom: Any) -> str:
    """Returns the name of a command, "" for anything else."""
    return str(getattr(atom, "macroname", ""))


def _items(atom: Any, at: int, font: Font) -> list[Node]:
    """Returns what one atom is."""
    if isinstance(atom, str):
        return [_symbol(atom, at, font)]
    match type(atom).__name__:
        case "LatexGroupNode":
            return [_row(atom.nodelist, font)]
        case "LatexMacroNode":
            return _macro(atom, font)
        case "LatexEnvironmentNode":
            return [_environment(atom, font)]
    raise _UnknownCommandError(type(atom).__name__)


def _symbol(text: str, at: int, font: Font) -> Symbol:
    text = MINUS if text == "-" else text
    if text == "&":
        raise _UnknownCommandError("a column outside a matrix")
    upright = "\u0391" <= text <= "\u03a9"  # Greek capitals
    slanted = font == "italic" and text.isalpha() and not upright
    return Symbol(text, at, _kind(text), "italic" if slanted else "bold" if font == "bold" else "upright")


def _kind(text: str) -> Kind:
    if text in _BINARY:
        return "binary"
    if text in _RELATIONS:
        return "relation"
    if text in _OPENING:
        return "open"
    if text in _CLOSING:
        return "close"
    if text in _LARGE:
        return "large"
    return "punctuation" if text in ",;" else "ordinary"


def _has_limits(base: Node) -> bool:
    if not isinstance(base, Symbol):
        return False
    return (base.kind == "large" and base.text not in _SIDE) or (base.kind == "function" and base.text in _LIMITS)


def _arguments(node: Any) -> list[Any]:
    return list(node.nodeargd.argnlist or ()) if node.nodeargd else []


def _macro(node: Any, font: Font) -> list[Node]:
    name, at, given = node.macroname, node.pos, [argument for argument in _arguments(node) if argument]
    if name in _SPACES:
        return [Space(_SPACES[name])]
    if name in _NOTHING:
        return []
    if name in (*_FRACTIONS, *_BINOMIALS) and len(given) == 2:
        fraction = Fraction(_row(given[:1], font), _row(given[1:], font), name in _FRACTIONS, at)
        return [fraction if fraction.bar else Delimited("(", fraction, ")", at, at)]
    if name == "tag" and given:
        return [Space(2.0), Symbol("(", at), *_words(given[-1], "text"), Symbol(")", at)]
    if name == "sqrt" and given:
        degree = _row(given[0].nodelist, font) if len(given) == 2 else None
        return [Root(degree, _row(given[-1:], font), at)]
    if name in _ACCENTS and given:
        return [Accent(_row(given[:1], font), _ACCENTS[name], at)]
    if name in (*_UPRIGHT, *_ALPHABETS) and given:
        return _words(given[-1], name)
    if name in _BOLD and given:
        return [_row(given[:1], "bold")]
    if name in ("overset", "stackrel", "underset") and len(given) == 2:
        script, base = _row(given[:1], font), _row(given[1:], font)
        under = name == "underset"
        return [Scripts(base, None if under else script, script if under else None, limits=True)]
    if name in _FUNCTIONS:
        return [Symbol(name, at, "function")]
    return [_named_symbol(node, font)]


def _named_symbol(node: Any, font: Font) -> Symbol:
    """Returns the symbol that a command without arguments stands for. Raises _UnknownCommandError."""
    name = node.macroname
    text = name if name in ("%", "#", "&", "_", "$") else _DELIMITERS.get(name) or macro_text(node).strip()
    if not text or len(text) > 4 or visible(text) != text or any(_arguments(node)):
        raise _UnknownCommandError(name)
    return Symbol(text, node.pos) if text == "&" else _symbol(text, node.pos, font)


def _words(argument: Any, name: str) -> list[Node]:
    """Returns upright text, spaces included, or letters of another alphabet."""
    inner = argument.nodelist if type(argument).__name__ == "LatexGroupNode" else [argument]
    if name in _ALPHABETS:
        pieces: Iterable[Atom] = [(text, at) for atom, at in _atoms(inner) for text in _lettered(atom, name)]
    else:
        pieces = _atoms(inner)
    found: list[Node] = []
    for atom, at in pieces:
        if isinstance(atom, str):
            found.append(Space(0.25) if atom.isspace() else Symbol(atom, at))
        else:
            found += _items(atom, at, "upright")
    word = "".join(item.text for item in found if isinstance(item, Symbol))
    if name == "operatorname":
        return [Symbol(word, argument.pos, "function")]
    return [Row(tuple(found))]


def _lettered(atom: Any, name: str) -> str:
    if not isinstance(atom, str):
        raise _UnknownCommandError(name)
    nodes = list(latex_nodes(f"\\{name}{{{atom}}}"))
    return macro_text(nodes[0]) or atom


def _environment(node: Any, font: Font) -> Node:
    name = node.environmentname
    nodes = list(node.nodelist)
    alignment = "c"
    if name == "array":
        alignment = _columns(node)
    elif name in _ALIGNED:
        alignment = "rl"
    elif name == "cases":
        alignment = "l"
    elif name not in _MATRICES and name not in _CENTRED:
        raise _UnknownCommandError(name)
    matrix = Matrix(tuple(_rows(nodes, font)), alignment)
    left, right = _MATRICES.get(name, ("", ""))
    end = node.pos + node.len - 1
    return Delimited(left, matrix, right, node.pos, end) if left or right else matrix


def _columns(node: Any) -> str:
    """Returns the alignment of an array's columns."""
    given = [argument for argument in _arguments(node) if argument]
    text = "".join(getattr(child, "chars", "") for child in given[-1].nodelist) if given else ""
    return "".join(letter for letter in text if letter in "lcr") or "c"


def _rows(nodes: Iterable[Any], font: Font) -> list[tuple[Row, ...]]:
    """Returns the cells of an environment, row by row."""
    rows: list[list[list[Atom]]] = [[[]]]
    for atom, at in _atoms(nodes):
        if isinstance(atom, str) and atom == "&":
            rows[-1].append([])
        elif _name(atom) == "\\":
            rows.append([[]])
        else:
            rows[-1][-1].append((atom, at))
    if len(rows) > 1 and not any(str(atom).strip() for cell in rows[-1] for atom, _ in cell):
        rows.pop()
    made = []
    for row in rows:
        readers = [_RowReader(cell, font) for cell in row]
        made.append(tuple(reader.read() for reader in readers))
        if any(reader.left for reader in readers):
            raise _UnknownCommandError("a delimiter that nothing opens")
    return made
