"""LaTeX formulas as trees of what is set: symbols, scripts, fractions, roots, matrices. Each symbol knows the place in
the formula that it came from. `formula_parser` makes the trees, `formula_layout` and `formula_text` read them."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["ordinary", "binary", "relation", "open", "close", "punctuation", "large", "function", "inner"]
Font = Literal["italic", "upright", "bold", "bold italic", "typewriter", "sans"]
Level = Literal["display", "text", "script", "scriptscript"]
Limits = Literal["beside", "display", "always"]  # stand above and below never, in displays, or always


class Node:
    """A part of a formula."""


@dataclass(frozen=True)
class Symbol(Node):
    """Characters that are set as one. at: their place in the formula."""

    text: str
    at: int
    kind: Kind = "ordinary"
    font: Font = "upright"


@dataclass(frozen=True)
class Space(Node):
    """A space. width: em."""

    width: float


@dataclass(frozen=True)
class Row(Node):
    """Things beside each other."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Classed(Node):
    """A body that is spaced as one of another kind, such as the name of an operator."""

    body: Row
    kind: Kind
    limits: Limits = "beside"


@dataclass(frozen=True)
class Styled(Node):
    """A body that is set as in a display, in text or in scripts, wherever it stands."""

    body: Row
    level: Level


@dataclass(frozen=True)
class Phantom(Node):
    """A body of which only some is there: its ink, its width, its height. side: where a body without a width sticks
    out, "left", "right" or "centre"."""

    body: Row
    ink: bool
    width: bool
    height: bool
    side: str = "right"


@dataclass(frozen=True)
class Rule(Node):
    """A filled rectangle. width, height, raise_by: em."""

    width: float
    height: float
    raise_by: float
    at: int


@dataclass(frozen=True)
class Fraction(Node):
    """One row over another. bar: whether there is a line between them."""

    above: Row
    below: Row
    bar: bool
    at: int


@dataclass(frozen=True)
class Root(Node):
    """A root. degree: None for a square root."""

    degree: Row | None
    body: Row
    at: int


@dataclass(frozen=True)
class Scripts(Node):
    """A base with a superscript, a subscript or both."""

    base: Node
    above: Row | None
    below: Row | None
    limits: Limits


@dataclass(frozen=True)
class Accent(Node):
    """A mark over, under, around or through a body: a character, or a name in WIDE_MARKS, which is as wide as the
    body."""

    body: Row
    mark: str
    at: int
    under: bool = False


@dataclass(frozen=True)
class Arrow(Node):
    """An arrow as long as what stands above and below it."""

    text: str
    above: Row
    below: Row | None
    at: int


@dataclass(frozen=True)
class Delimiter(Node):
    """A delimiter of a fixed height. size: em."""

    text: str
    size: float
    kind: Kind
    at: int


@dataclass(frozen=True)
class Delimited(Node):
    """Bodies between delimiters as tall as they are. delimiters: (text, place), "" for none; one more than bodies."""

    delimiters: tuple[tuple[str, int], ...]
    bodies: tuple[Node, ...]


@dataclass(frozen=True)
class Matrix(Node):
    """Rows of cells. alignment: of the columns in turn, "l", "c" or "r". columns: how they stand, "wide" apart as in a
    table, "aligned" in pairs, "tight", or as "lines" of one cell. level: of the cells. vertical, horizontal: columns
    and rows with a line before them."""

    rows: tuple[tuple[Row, ...], ...]
    alignment: str
    at: int
    columns: Literal["wide", "aligned", "tight", "lines"] = "wide"
    level: Level = "text"
    vertical: tuple[int, ...] = ()
    horizontal: tuple[int, ...] = ()


PRIME = "\u2032"
WIDE_MARKS = frozenset(
    (
        *("line", "brace", "bracket", "group", "box", "cancel", "bcancel", "xcancel", "strike", "angle"),
        *("hat", "tilde", "check", "→", "←", "↔", "⇀", "↼", "⇒"),
    )
)
THICK, MEDIUM, THIN = 0.28, 0.22, 0.17  # em, around relations, binary operators and functions


def is_prime(row: Row) -> bool:
    """Whether a superscript is nothing but primes."""
    return all(isinstance(item, Symbol) and item.text == PRIME for item in row.items)


def kind_of(node: Node) -> Kind:
    """Returns how a part is spaced."""
    match node:
        case Symbol() | Classed() | Delimiter():
            return node.kind
        case Scripts():
            return kind_of(node.base)
        case Arrow():
            return "relation"
        case Accent(body) | Styled(body) | Phantom(body, True) if len(body.items) == 1:
            return kind_of(body.items[0])
        case Delimited() | Fraction():
            return "inner"
    return "ordinary"


def gap(before: Kind, after: Kind) -> float:
    """Returns the em between neighbours."""
    if "relation" in (before, after):
        edge = before == "open" or after in ("close", "punctuation")
        return 0.0 if before == after or edge else THICK
    if "binary" in (before, after):
        return MEDIUM
    if before == "punctuation" or (before in ("function", "large") and after not in ("open", "close", "punctuation")):
        return THIN
    return THIN if after in ("function", "large") and before in ("ordinary", "close", "inner") else 0.0


def spaced(row: Row) -> list[tuple[float, Kind, Node]]:
    """Returns the items of a row, each with the em before it and its kind. A binary operator that nothing stands before
    is a sign."""
    found: list[tuple[float, Kind, Node]] = []
    before: Kind = "open"
    for item in row.items:
        if isinstance(item, Space):
            found.append((0.0, "ordinary", item))
            continue
        kind = kind_of(item)
        if kind == "binary" and before in ("binary", "relation", "open", "punctuation", "function", "large"):
            kind = "ordinary"
        found.append((gap(before, kind) if found else 0.0, kind, item))
        before = kind
    return found
