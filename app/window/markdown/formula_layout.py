"""The layout of a formula: where its symbols and lines stand, by the rules of The TeXbook's appendix G, simplified.

Lengths are px, in coordinates whose origin is the left end of the baseline; y grows downwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QFont, QFontMetricsF, QPainterPath

from app.window.markdown import formula_tree as tree
from app.window.markdown.formula_parser import formula_tree
from app.window.markdown.formula_strokes import DRAWN_DELIMITERS, LINE, delimiter_path, stroke, strokes, wide_mark

FAMILIES = ["STIX Two Text", "Times New Roman", "DejaVu Serif"]  # the first that is there
MONOSPACED = ["Menlo", "DejaVu Sans Mono", "Courier New"]
SANS = ["Helvetica", "DejaVu Sans", "Arial"]
SCALES = (1.0, 0.72, 0.56)  # of text, scripts, and scripts of scripts
AXIS = 0.26  # em, from the baseline to the middle of a fraction
LEADING, INDENT = 0.4, 2.0  # em, between the lines of a formula that is broken, and before all but the first
_LARGE = (1.6, 1.2)  # of large operators in a display, and elsewhere


class Mark(NamedTuple):
    """Something to draw. place: its own box. text: drawn in `font` from (place.left, baseline); or else `path`, filled.
    at: the place in the formula that it came from."""

    at: int
    place: QRectF
    text: str = ""
    baseline: float = 0.0
    font: QFont | None = None
    path: QPainterPath | None = None

    def moved(self, x: float, y: float) -> Mark:
        path = None if self.path is None else self.path.translated(x, y)
        return self._replace(place=self.place.translated(x, y), baseline=self.baseline + y, path=path)


@dataclass(frozen=True)
class Box:
    """A part of a formula. ascent and descent are from the baseline, both positive where it is within the box."""

    width: float = 0.0
    ascent: float = 0.0
    descent: float = 0.0
    marks: tuple[Mark, ...] = ()

    def moved(self, x: float, y: float) -> tuple[Mark, ...]:
        return tuple(mark.moved(x, y) for mark in self.marks)


class Spaced(NamedTuple):
    """A part of a row. space: px before it. depth: how many brackets are open around it. listed: whether it stands
    behind a comma."""

    space: float
    box: Box
    kind: tree.Kind
    depth: int
    listed: bool


def beside(boxes: Sequence[Box]) -> Box:
    """Returns boxes one after the other on one baseline."""
    marks: list[Mark] = []
    width = 0.0
    for box in boxes:
        marks += box.moved(width, 0)
        width += box.width
    ascent, descent = max((b.ascent for b in boxes), default=0.0), max((b.descent for b in boxes), default=0.0)
    return Box(width, ascent, descent, tuple(marks))


def stacked(rows: Sequence[tuple[Box, float, float]]) -> Box:
    """Returns boxes in one, each moved by (x, y) from the common baseline."""
    return Box(
        max(x + box.width for box, x, _ in rows),
        max(box.ascent - y for box, _, y in rows),
        max(box.descent + y for box, _, y in rows),
        tuple(mark for box, x, y in rows for mark in box.moved(x, y)),
    )


@lru_cache(maxsize=512)
def formula_box(source: str, size_px: float, display: bool) -> Box | None:
    """Returns the layout of a formula for text of this size; None if it cannot be set. display: on a line of its
    own."""
    root = formula_tree(source)
    return None if root is None else FormulaLayout(size_px, 0, display).node(root)


@lru_cache(maxsize=512)
def formula_lines(source: str, size_px: float, display: bool, width: float) -> Box | None:
    """Returns the layout of a formula on lines of at most `width` px, as far as it can be broken; None if it cannot be
    set. It reaches no further below the baseline than on one line.

    A line ends before a relation or a binary operator, as displays do in The TeXbook, chapter 18: before one outside
    all brackets if that is enough, then within brackets, and after a comma.
    """
    root, one = formula_tree(source), formula_box(source, size_px, display)
    if root is None or one is None:
        return None
    lines = FormulaLayout(size_px, 0, display).lines(root, width)
    return stacked([(lines, 0.0, one.descent - lines.descent)])


class FormulaLayout:
    """Lays out parts of a formula. level: of scripts, 0 for text. display: fractions and limits take their room."""

    def __init__(self, size_px: float, level: int, display: bool) -> None:
        self._size_px, self._level, self._display = size_px, min(level, len(SCALES) - 1), display
        self._em = size_px * SCALES[self._level]

    @cached_property
    def _script(self) -> FormulaLayout:
        return FormulaLayout(self._size_px, self._level + 1, False)

    @cached_property
    def _text(self) -> FormulaLayout:
        return FormulaLayout(self._size_px, self._level, False)

    def node(self, node: tree.Node) -> Box:
        """Returns the layout of a part."""
        writers: dict[type, Callable[..., Box]] = {
            tree.Space: self._space,
            tree.Row: self._row,
            tree.Classed: self._classed,
            tree.Styled: lambda styled: self._at_level(styled.level).node(styled.body),
            tree.Symbol: self._symbol,
            tree.Phantom: self._phantom,
            tree.Rule: self._rule,
            tree.Fraction: self._fraction,
            tree.Root: self._root,
            tree.Scripts: self._scripts,
            tree.Accent: self._accent,
            tree.Arrow: self._arrow,
            tree.Delimiter: self._fixed_delimiter,
            tree.Delimited: self._delimited,
            tree.Matrix: self._matrix,
        }
        return writers[type(node)](node)

    def _at_level(self, level: tree.Level) -> FormulaLayout:
        levels = {"display": (0, True), "text": (0, False), "script": (1, False), "scriptscript": (2, False)}
        number, display = levels[level]
        return FormulaLayout(self._size_px, number if number else self._level, display)

    # --- rows and symbols ---------------------------------------------------------------------------

    def _row(self, row: tree.Row) -> Box:
        return beside([box for item in self._spaced(row) for box in (Box(item.space), item.box)])

    def _spaced(self, row: tree.Row) -> list[Spaced]:
        """Returns the layouts of the items of a row, with the spaces between them."""
        found: list[Spaced] = []
        depth = 0
        listed = False
        for em, kind, item in tree.spaced(row):
            depth -= kind == "close"
            found.append(Spaced(em * self._em if self._level == 0 else 0.0, self.node(item), kind, depth, listed))
            depth += kind == "open"
            listed = kind == "punctuation" or (listed and isinstance(item, tree.Space))
        return found

    def lines(self, row: tree.Row, width: float) -> Box:
        """Returns a row on lines of at most `width` px; a part that cannot be broken may be wider."""
        match row.items:
            case (tree.Matrix(columns="aligned") as matrix,):
                return self._matrix(matrix, width)
        indent = INDENT * self._em
        placed: list[tuple[Box, float, float]] = []
        y = 0.0
        for number, parts in enumerate(_broken(self._spaced(row), width - indent, indent)):
            line = beside(_boxes(parts))
            y += line.ascent + LEADING * self._em if number else 0.0
            placed.append((line, indent if number else 0.0, y))
            y += line.descent
        return stacked(placed)

    def _space(self, space: tree.Space) -> Box:
        return Box(space.width * self._em)

    def _classed(self, classed: tree.Classed) -> Box:
        box = self.node(classed.body)
        return self._on_axis(box) if classed.kind == "large" and len(classed.body.items) == 1 else box

    def _symbol(self, symbol: tree.Symbol) -> Box:
        if symbol.kind == "large":
            return self._on_axis(self._glyph(symbol, _LARGE[not self._display]))
        return self._glyph(symbol, 1.0)

    def _glyph(self, symbol: tree.Symbol, scale: float) -> Box:
        """Returns a symbol in its font."""
        font, width, top, bottom = _measured(symbol.text, symbol.font, round(self._em * scale, 2))
        ascent, descent = max(-top, 0.5 * self._em), max(bottom, 0.0)
        place = QRectF(0, -ascent, width, ascent + descent)
        return Box(width, ascent, descent, (Mark(symbol.at, place, symbol.text, 0.0, font),))

    def _on_axis(self, box: Box) -> Box:
        """Returns a box whose middle is on the axis."""
        down = (box.ascent - box.descent) / 2 - AXIS * self._em
        return stacked([(box, 0.0, down)])

    # --- fractions, roots, accents ------------------------------------------------------------------

    def _fraction(self, fraction: tree.Fraction) -> Box:
        parts = self._text if self._display else self._script
        above, below = parts.node(fraction.above), parts.node(fraction.below)
        side, gap, line = 0.12 * self._em, 0.16 * self._em, LINE * self._em
        width = max(above.width, below.width) + 2 * side
        axis = -AXIS * self._em
        rows = [
            (above, (width - above.width) / 2, axis - gap - above.descent),
            (below, (width - below.width) / 2, axis + gap + below.ascent),
        ]
        if fraction.bar:
            rows.append((_line(fraction.at, width, line), 0.0, axis))
        made = stacked(rows)
        return Box(width + side, made.ascent, made.descent, made.marks)

    def _root(self, root: tree.Root) -> Box:
        body = self.node(root.body)
        line, gap, sign = LINE * self._em, 0.14 * self._em, 0.6 * self._em
        top, bottom = -body.ascent - gap, body.descent + 0.05 * self._em
        low, tall = bottom - 0.45 * (bottom - top), bottom - top
        points = [(0.0, low), (0.22, low - 0.06 * tall), (0.48, bottom), (1.0, top)]
        path = stroke([QPointF(x * sign, y) for x, y in points], line)
        end = sign + body.width + 0.08 * self._em
        path.addRect(QRectF(sign - line / 2, top - line / 2, end - sign + line / 2, line))
        mark = Mark(root.at, QRectF(0, top, sign, tall), path=path)
        box = Box(end + 0.06 * self._em, -top + line, bottom, (mark, *body.moved(sign, 0)))
        if root.degree is None:
            return box
        degree = FormulaLayout(self._size_px, 2, False).node(root.degree)
        over = max(0.0, degree.width - 0.3 * self._em)
        return stacked([(degree, 0.0, low - 0.18 * self._em - degree.descent), (box, over, 0.0)])

    def _accent(self, accent: tree.Accent) -> Box:
        body = self.node(accent.body)
        if accent.mark == "box":
            return self._framed(accent.at, body)
        if accent.mark in tree.WIDE_MARKS:
            return self._wide_accent(accent, body)
        size = 0.8 * self._em if accent.mark == "\u20d7" else self._em
        text = "→" if accent.mark == "\u20d7" else accent.mark
        font, width, top, bottom = _measured(text, "upright", round(size * (0.72 if text == "→" else 1.0), 2))
        x, y = (body.width - width) / 2, -body.ascent - 0.06 * self._em - bottom
        mark = Mark(accent.at, QRectF(x, y + top, width, bottom - top), text, y, font)
        return Box(body.width, -y - top, body.descent, (*body.marks, mark))

    def _wide_accent(self, accent: tree.Accent, body: Box) -> Box:
        """Returns a body with a mark over, under or through it that is as wide as it is."""
        gap, height = 0.1 * self._em, (0.0 if accent.mark == "line" else 0.25) * self._em
        if accent.mark in ("cancel", "bcancel", "xcancel", "strike"):
            place = QRectF(0, -body.ascent, body.width, body.ascent + body.descent)
        elif accent.under:
            place = QRectF(0, body.descent + gap, body.width, height)
        else:
            place = QRectF(0, -body.ascent - gap - height, body.width, height)
        path = strokes(wide_mark(accent.mark, place, accent.under), LINE * self._em)
        drawn = Mark(accent.at, place.adjusted(0, -2, 0, 2), path=path)
        ascent, descent = max(body.ascent, -place.top() + LINE), max(body.descent, place.bottom() + LINE)
        return Box(body.width, ascent, descent, (*body.marks, drawn))

    def _arrow(self, arrow: tree.Arrow) -> Box:
        """Returns an arrow that is as long as what stands above and below it."""
        above, below = self._script.node(arrow.above), self._script.node(arrow.below or tree.Row(()))
        side, axis = 0.3 * self._em, -AXIS * self._em
        width = max(above.width, below.width, 1.2 * self._em) + 2 * side
        place = QRectF(0.1 * self._em, axis - 0.14 * self._em, width - 0.2 * self._em, 0.28 * self._em)
        mark = Mark(arrow.at, place, path=strokes(wide_mark(arrow.text, place, False), LINE * self._em))
        line = Box(width, -place.top(), max(0.0, place.bottom()), (mark,))
        rows = [(line, 0.0, 0.0)]
        if above.marks:
            rows.append((above, (width - above.width) / 2, place.top() - 0.06 * self._em - above.descent))
        if below.marks:
            rows.append((below, (width - below.width) / 2, place.bottom() + 0.06 * self._em + below.ascent))
        return stacked(rows)

    def _phantom(self, phantom: tree.Phantom) -> Box:
        body = self.node(phantom.body)
        shift = {"left": -body.width, "centre": -body.width / 2}.get(phantom.side, 0.0)
        marks = (body.moved(0.0 if phantom.width else shift, 0.0)) if phantom.ink else ()
        ascent, descent = (body.ascent, body.descent) if phantom.height else (0.0, 0.0)
        return Box(body.width if phantom.width else 0.0, ascent, descent, marks)

    def _rule(self, rule: tree.Rule) -> Box:
        width, height, bottom = (length * self._em for length in (rule.width, rule.height, rule.raise_by))
        place = QRectF(0, -bottom - height, max(0.0, width), max(0.0, height))
        drawn = (_filled(rule.at, place, place),) if width > 0 and height > 0 else ()
        return Box(width, max(0.0, height + bottom), max(0.0, -bottom), drawn)

    def _framed(self, at: int, body: Box) -> Box:
        line, gap = LINE * self._em, 0.25 * self._em
        box = Box(body.width + 2 * gap, body.ascent + gap, body.descent + gap, body.moved(gap, 0))
        outer = QRectF(0, -box.ascent, box.width, box.ascent + box.descent)
        path = QPainterPath()
        path.addRect(outer)
        path.addRect(outer.adjusted(line, line, -line, -line))
        frame = Mark(at, QRectF(0, -box.ascent, gap, box.ascent + box.descent), path=path)
        return Box(box.width, box.ascent, box.descent, (frame, *box.marks))

    # --- scripts ------------------------------------------------------------------------------------

    def _scripts(self, scripts: tree.Scripts) -> Box:
        base = self.node(scripts.base)
        if scripts.below is None and scripts.above is not None and tree.is_prime(scripts.above):
            return beside([base, self.node(scripts.above)])  # which the font has raised already
        above = None if scripts.above is None else self._script.node(scripts.above)
        below = None if scripts.below is None else self._script.node(scripts.below)
        if scripts.limits == "always" or (scripts.limits == "display" and self._display):
            return self._limits(base, above, below)
        up = max(0.38 * self._em, base.ascent - 0.3 * self._em)
        down = max(0.18 * self._em, base.descent + 0.08 * self._em)
        if above is not None and below is not None:
            up = max(up, 0.12 * self._em + above.descent + below.ascent - down)
        rows = [(base, 0.0, 0.0)]
        if above is not None:
            rows.append((above, base.width + 0.04 * self._em, -up))
        if below is not None:
            rows.append((below, base.width, down))
        made = stacked(rows)
        return Box(made.width + 0.05 * self._em, made.ascent, made.descent, made.marks)

    def _limits(self, base: Box, above: Box | None, below: Box | None) -> Box:
        gap = 0.12 * self._em
        width = max(box.width for box in (base, above, below) if box is not None)
        rows = [(base, (width - base.width) / 2, 0.0)]
        if above is not None:
            rows.append((above, (width - above.width) / 2, -base.ascent - gap - above.descent))
        if below is not None:
            rows.append((below, (width - below.width) / 2, base.descent + gap + below.ascent))
        made = stacked(rows)
        return Box(width, made.ascent, made.descent, made.marks)

    # --- delimiters and matrices --------------------------------------------------------------------

    def _delimited(self, delimited: tree.Delimited) -> Box:
        bodies = [self.node(body) for body in delimited.bodies]
        axis = AXIS * self._em
        half = max([0.5 * self._em, *(max(body.ascent - axis, body.descent + axis) for body in bodies)])
        first, *others = (self._delimiter(text, half, at) for text, at in delimited.delimiters)
        return beside([first, *(box for pair in zip(bodies, others, strict=True) for box in pair)])

    def _fixed_delimiter(self, delimiter: tree.Delimiter) -> Box:
        return self._delimiter(delimiter.text, 0.5 * delimiter.size * self._em, delimiter.at)

    def _delimiter(self, text: str, half: float, at: int) -> Box:
        """Returns a delimiter that reaches so far above and below the axis."""
        if not text:
            return Box(0.1 * self._em)
        if half < 0.62 * self._em:
            return self._glyph(tree.Symbol(text, at), 1.0)
        if text not in DRAWN_DELIMITERS:
            return self._on_axis(self._glyph(tree.Symbol(text, at), min(4.0, 2 * half / self._em)))
        width, axis = (0.3 if text in "|‖" else 0.48) * self._em, -AXIS * self._em
        path = delimiter_path(text, QRectF(0.12 * self._em, axis - half, width - 0.24 * self._em, 2 * half), self._em)
        mark = Mark(at, QRectF(0, axis - half, width, 2 * half), path=path)
        return Box(width, half - axis, half + axis, (mark,))

    def _matrix(self, matrix: tree.Matrix, width: float | None = None) -> Box:
        """width: what the second of its columns is broken to fit into; None for as wide as it is."""
        layout = self._at_level(matrix.level)
        cells = [[layout.node(cell) for cell in row] for row in matrix.rows]
        if width is not None:
            free = width - max((row[0].width for row in cells), default=0.0) - 0.28 * self._em
            for boxes, parts in zip(cells, matrix.rows, strict=True):
                boxes[1:2] = [layout.lines(part, free) for part in parts[1:2]]
        columns = max(map(len, cells), default=1)
        widths = [max((row[c].width for row in cells if c < len(row)), default=0.0) for c in range(columns)]
        gaps = {"wide": (0.9, 0.9), "tight": (0.3, 0.3), "lines": (0.0, 0.0), "aligned": (0.28, 1.5)}[matrix.columns]
        lefts = [sum(widths[:c]) + sum(gaps[1 - i % 2] for i in range(1, c + 1)) * self._em for c in range(columns)]
        rows: list[tuple[Box, float, float]] = [(Box(), 0.0, 0.0)]
        tops: list[float] = []
        y = 0.0
        for number, row in enumerate(cells):
            tops.append(y + 0.12 * self._em)
            y += max(0.75 * self._em, *(box.ascent for box in row)) + (0.25 * self._em if number else 0.0)
            for c, box in enumerate(row):
                free = widths[c] - box.width
                x_place = {"l": 0.0, "c": free / 2, "r": free}[matrix.alignment[c % len(matrix.alignment)]]
                rows.append((box, lefts[c] + x_place, y))
            y += max(0.22 * self._em, *(box.descent for box in row))
        rows += self._ruled(matrix, [*tops, y + 0.12 * self._em], [*lefts, lefts[-1] + widths[-1]])
        return self._on_axis(stacked(rows))

    def _ruled(
        self, matrix: tree.Matrix, tops: Sequence[float], lefts: Sequence[float]
    ) -> list[tuple[Box, float, float]]:
        """Returns the lines between the rows and columns of a matrix. tops, lefts: of each, and where the last ends."""
        thick, height, side = max(1.0, LINE * self._em), tops[-1] - tops[0], 0.3 * self._em
        made: list[tuple[Box, float, float]] = []
        for row in matrix.horizontal:
            line = _line(matrix.at, lefts[-1], thick)
            made.append((line, 0.0, tops[min(row, len(tops) - 1)]))
        for column in matrix.vertical:
            mark = _filled(matrix.at, QRectF(-1, -height, thick + 2, height), QRectF(0, -height, thick, height))
            index = min(column, len(lefts) - 1)
            x = lefts[index] + (side if index == len(lefts) - 1 else -0.45 * self._em if index else -side)
            made.append((Box(thick, height, 0.0, (mark,)), x, tops[-1]))
        return made


# Where a line may end, in the order in which it is tried: before these parts.
_BREAKS: tuple[Callable[[Spaced], bool], ...] = (
    lambda part: part.kind == "relation" and part.depth <= 0,
    lambda part: part.kind == "binary" and part.depth <= 0,
    lambda part: part.kind in ("relation", "binary"),
    lambda part: part.listed,
)


def _broken(parts: Sequence[Spaced], width: float, first: float = 0.0, level: int = 0) -> list[Sequence[Spaced]]:
    """Returns the parts in lines of at most `width` px, of which the first may be wider by `first`. level: the first of
    _BREAKS that is tried."""
    if level == len(_BREAKS) or _width(parts) <= width + first:
        return [parts]
    places = [i for i, part in enumerate(parts) if i and _BREAKS[level](part)]
    lines: list[Sequence[Spaced]] = []
    begin = last = 0
    for place in (*places, len(parts)):
        wide = _width(parts[begin:place]) > width + (0 if begin else first)
        if last > begin and wide and _width(parts[last:place]) <= width:  # wider ones go on here, to be broken below
            lines += _broken(parts[begin:last], width, 0 if begin else first, level + 1)
            begin = last
        last = place
    return [*lines, *_broken(parts[begin:], width, 0 if begin else first, level + 1)]


def _boxes(line: Sequence[Spaced]) -> list[Box]:
    """Returns a line's boxes and the spaces between them."""
    return [box for i, part in enumerate(line) for box in (Box(part.space if i else 0.0), part.box)]


def _width(line: Sequence[Spaced]) -> float:
    return sum(box.width for box in _boxes(line))


@lru_cache(maxsize=4096)
def _measured(text: str, font: tree.Font, size_px: float) -> tuple[QFont, float, float, float]:
    """Returns the font of a symbol, its advance, and the top and bottom of its ink."""
    made = QFont({"typewriter": MONOSPACED, "sans": SANS}.get(font, FAMILIES))
    made.setPixelSize(max(1, round(size_px)))
    made.setItalic("italic" in font)
    made.setBold("bold" in font)
    metrics = QFontMetricsF(made)
    outline = QPainterPath()
    outline.addText(0, 0, made, text)  # QFontMetricsF.tightBoundingRect reaches down to the baseline on some platforms
    ink = outline.boundingRect()
    width = max(metrics.horizontalAdvance(text), ink.right() if "italic" in font else 0.0)
    return made, width, ink.top(), ink.bottom()


def _line(at: int, width: float, thickness: float) -> Box:
    """Returns a horizontal line on the baseline."""
    thickness = max(1.0, thickness)
    drawn = _filled(at, QRectF(0, -2, width, 4), QRectF(0, -thickness / 2, width, thickness))
    return Box(width, thickness, thickness, (drawn,))


def _filled(at: int, place: QRectF, rectangle: QRectF) -> Mark:
    """Returns a mark that fills a rectangle."""
    path = QPainterPath()
    path.addRect(rectangle)
    return Mark(at, place, path=path)
