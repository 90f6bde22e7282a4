"""Parses LaTeX formulas into trees (`formula_tree`). KaTeX does it, in Qt's JavaScript engine, so that a formula means
here what it means to KaTeX; `resources/formulas/formula_parser.js` says how places are kept. A command that is not
known is shown as it was written; a formula that KaTeX refuses, as one with an argument missing, has no tree."""

import json
import os
import re
import tomllib
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from importlib import resources
from typing import Any

from PySide6.QtCore import QLoggingCategory

from app.window.markdown import formula_tree as tree
from app.window.markdown.formula_spans import LONGEST_FORMULA
from app.window.markdown.text_blocks import visible

KatexNode = dict[str, Any]  # as in KaTeX's src/types/nodes.ts, with "at" and "end"

DEEPEST = 40  # levels of parts within parts
LONGEST_CHEMISTRY = 400  # characters of a formula with \\ce: mhchem takes up to 0.17 ms for each
_CHEMISTRY = re.compile(r"\\(?:ce|pu)\b")
# Environments that KaTeX does not have, as others that are set alike; of the same length, so that places stay.
_ENVIRONMENTS = {"multline": "gather", "eqnarray": "align"}
_ENVIRONMENT = re.compile(rf"(\\(?:begin|end)\{{)({'|'.join(_ENVIRONMENTS)})(\*?\}})")
_EM = {"em": 1.0, "ex": 0.43, "mu": 1 / 18, "pt": 0.1, "cm": 2.85, "mm": 0.285, "in": 7.2, "pc": 1.2, "px": 0.075}
_SIZES = (0.0, 1.26, 1.8, 2.4, 3.0)  # em, of \big to \Bigg
_BAR = "\u2223"  # which KaTeX writes for |
_DELIMITERS = {"<": "⟨", ">": "⟩", _BAR: "|", "\u2225": "‖", "\u2216": "\\", ".": ""}
_STROKE = "\u0338"
_KINDS: dict[str, tree.Kind] = {
    "mord": "ordinary",
    "mbin": "binary",
    "mrel": "relation",
    "mopen": "open",
    "mclose": "close",
    "mpunct": "punctuation",
    "minner": "inner",
    "mop": "large",
}
_MATH_FONTS: dict[str, tree.Font] = {
    "mathrm": "upright",
    "mathbf": "bold",
    "mathit": "italic",
    "mathnormal": "italic",
    "mathsf": "sans",
    "mathsfit": "sans",
    "mathtt": "typewriter",
    "boldsymbol": "bold italic",
}
_TEXT_FONTS: dict[str, tree.Font] = {
    "\\textbf": "bold",
    "\\textit": "italic",
    "\\emph": "italic",
    "\\textsf": "sans",
    "\\texttt": "typewriter",
}
_ALPHABETS = {  # by their names in Unicode
    "mathbb": "DOUBLE-STRUCK",
    "mathcal": "SCRIPT",
    "mathscr": "SCRIPT",
    "mathfrak": "FRAKTUR",
}


@lru_cache(maxsize=1024)
def formula_tree(source: str) -> tree.Row | None:
    """Returns the tree of a formula; None if it is too long, too deep, not LaTeX, or has characters that are not what
    they seem. Needs a Qt application."""
    longest = LONGEST_CHEMISTRY if _CHEMISTRY.search(source) else LONGEST_FORMULA
    if len(source) > longest or visible(source) != source:
        return None
    written = katex().parse(_ENVIRONMENT.sub(_known_environment, source))
    try:
        row = _TreeReader(source).row(json.loads(written)) if written else tree.Row(())
    except RecursionError:
        return None
    return row if row.items else None


def _known_environment(found: re.Match[str]) -> str:
    begin, name, end = found.groups()
    return begin + (_ENVIRONMENTS[name] + end).ljust(len(name + end))


class Katex:
    """KaTeX's parser in Qt's JavaScript engine. Its programs take 0.1 s to load, which can be done one by one."""

    def __init__(self) -> None:
        from PySide6.QtQml import QJSEngine  # which few replies need

        # The interpreter is as quick here, and an app for macOS needs no entitlement for it.
        os.environ["QV4_FORCE_INTERPRETER"] = "1"
        QLoggingCategory.setFilterRules("qt.qml.usedbeforedeclared=false")  # of which KaTeX has many
        self._engine = QJSEngine()
        self._programs = ["formula_parser.js", "mhchem.js", "katex.js"]
        self._parser = self._engine.globalObject()

    def load_next(self) -> bool:
        """Loads a program, if one is left; returns whether more are."""
        if self._programs:
            name = self._programs.pop()
            program = (resources.files("resources") / "formulas" / name).read_text(encoding="utf-8")
            loaded: Any = self._engine.evaluate(program, name)  # whose type PySide's stubs do not know
            if loaded.isError():
                raise RuntimeError(f"{name}: {loaded.toString()}")
            self._parser = loaded
        return bool(self._programs)

    def parse(self, latex: str) -> str:
        """Returns KaTeX's tree of a formula in JSON; "" where KaTeX refuses it."""
        while self.load_next():
            pass
        return str(self._parser.call([self._engine.toScriptValue(latex)]).toString())


@cache
def katex() -> Katex:
    """Returns the one parser of this process. Needs a Qt application, and belongs to the thread that asks first."""
    return Katex()


@cache
def _marks(kind: str) -> dict[str, str]:
    text = (resources.files("resources") / "formulas" / "marks.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)[kind]
    return found


def _listed(node: KatexNode | list[KatexNode] | None) -> list[KatexNode]:
    """Returns the parts of a body, without a group around them."""
    if isinstance(node, dict):
        parts: list[KatexNode] = node["body"] if node["type"] == "ordgroup" else [node]
        return parts
    return node or []


def _em(length: dict[str, Any] | None) -> float:
    return max(-20.0, min(20.0, length["number"] * _EM.get(length["unit"], 0.1))) if length else 0.0


def _delimiter(text: str | None) -> str:
    """Returns a delimiter; "" for none."""
    return _DELIMITERS.get(text or ".", text or "")


class _TreeReader:
    """Turns KaTeX's tree of a formula into ours. What KaTeX gives no place, such as a prime, has that of what is before
    it. Raises RecursionError for what is too deep."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._places = [i for i, c in enumerate(source) for _ in range(1 + (c > "\uffff"))]  # of UTF-16
        self._font: tree.Font | None = None  # None: letters are slanted, digits are not
        self._alphabet = ""  # of MATHEMATICAL letters in Unicode's names
        self._depth = 0
        self._last = 0

    def row(self, body: KatexNode | list[KatexNode] | None) -> tree.Row:
        """Returns a row; one of lines if it has line breaks."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise RecursionError
        lines: list[list[tree.Node]] = [[]]
        expected = ""  # of a command that is not known: "{" its arguments, "]" the end of one
        for node in _listed(body):
            if node["type"] == "cr":
                lines.append([])
                continue
            parts = self.node(node)
            if expected == "{" and node["type"] == "ordgroup":
                parts = [self.as_written("{"), *parts, self.as_written("}")]
            elif expected != "]" or node.get("text") == "]":
                begins = node["type"] == "unknown" or expected == "]"
                expected = "{" if begins else "]" if expected and node.get("text") == "[" else ""
            lines[-1] = _struck(lines[-1], parts)
        self._depth -= 1
        if len(lines) > 1 and not lines[-1]:
            lines.pop()
        rows = tuple((tree.Row(tuple(line)),) for line in lines)
        return (
            rows[0][0] if len(rows) == 1 else tree.Row((tree.Matrix(rows, "c", 0, columns="lines", level="display"),))
        )

    def node(self, node: KatexNode) -> list[tree.Node]:
        """Returns what a node of KaTeX's tree stands for."""
        if 0 <= node["at"] < len(self._places):
            self._last = self._places[node["at"]]
        return _READERS[node["type"]](self, node)

    def _inside(self, body: KatexNode | list[KatexNode], font: tree.Font | None, alphabet: str = "") -> tree.Row:
        """Returns a row in another font."""
        before = self._font, self._alphabet
        self._font, self._alphabet = font, alphabet
        row = self.row(body)
        self._font, self._alphabet = before
        return row

    def as_written(self, text: str) -> tree.Symbol:
        return tree.Symbol(text, self._last, font="typewriter")

    # --- symbols ------------------------------------------------------------------------------------

    def symbol(self, node: KatexNode) -> list[tree.Node]:
        text = "|" if node["text"] == _BAR else node["text"]
        if node["mode"] == "text":
            return [tree.Symbol(text, self._last, font=self._font or "upright")]
        letter = node["type"] == "mathord" and text[:1].isalpha()
        return [self._in_font(text, _KINDS.get(f"m{node.get('family')}", "ordinary"), letter)]

    def _in_font(self, text: str, kind: tree.Kind, letter: bool) -> tree.Symbol:
        if self._alphabet:
            return tree.Symbol(_lettered(text, self._alphabet), self._last, kind)
        font: tree.Font = "italic" if letter and text[0] < "\U0001d400" else "upright"
        if self._font is not None and (kind == "ordinary" or self._font == "bold italic"):
            font = self._font
            if font == "bold italic" and not letter:
                font = "bold"
            if font == "italic" and not text.isalpha():
                font = "upright"
        return tree.Symbol(text, self._last, kind, font)

    def spacing(self, node: KatexNode) -> list[tree.Node]:
        return [] if node["text"] in ("\\nobreak", "\\allowbreak") else [tree.Space(0.25)]

    def verbatim(self, node: KatexNode) -> list[tree.Node]:
        first = self._last + len("\\verb*" if node["star"] else "\\verb") + 1
        symbols = [tree.Symbol(text, first + i, font="typewriter") for i, text in enumerate(node["body"])]
        return [tree.Space(0.5) if symbol.text == " " else symbol for symbol in symbols]

    def operator(self, node: KatexNode) -> list[tree.Node]:
        """A large operator, the name of a function, or a body in place of these."""
        if "body" in node:
            row = self.row(node["body"])
            return [row if "suppressBaseShift" in node else tree.Classed(row, "large", _limits(node))]
        if node["symbol"]:
            return [tree.Symbol(node["name"], self._last, "large")]
        return [tree.Symbol(node["name"][1:], self._last, "function")]

    def operator_name(self, node: KatexNode) -> list[tree.Node]:
        return [tree.Classed(self._inside(node["body"], "upright"), "function", _limits(node))]

    # --- groups -------------------------------------------------------------------------------------

    def group(self, node: KatexNode) -> list[tree.Node]:
        return [self.row(node)]

    def inline(self, node: KatexNode) -> list[tree.Node]:
        return list(self.row(node[_SHOWN[node["type"]]]).items)

    def math_font(self, node: KatexNode) -> list[tree.Node]:
        name = node["font"]
        return [self._inside(node["body"], _MATH_FONTS.get(name), _ALPHABETS.get(name, ""))]

    def bold(self, node: KatexNode) -> list[tree.Node]:
        return [self._inside(node["body"], "bold italic")]

    def text(self, node: KatexNode) -> list[tree.Node]:
        return [self._inside(node["body"], _TEXT_FONTS.get(node.get("font", ""), "upright"))]

    def styled(self, node: KatexNode) -> list[tree.Node]:
        font = (None, "") if node.get("resetFont") else (self._font, self._alphabet)
        return [tree.Styled(self._inside(node["body"], *font), node["style"])]

    def classed(self, node: KatexNode) -> list[tree.Node]:
        row, kind = self.row(node["body"]), _KINDS[node["mclass"]]
        match row.items:
            case (tree.Symbol(text, at, _, font),):
                return [tree.Symbol(text, at, kind, font)]
        return [tree.Classed(row, kind)]

    def scripts(self, node: KatexNode) -> list[tree.Node]:
        base = self.row([node["base"]] if node["base"] else []).items
        above, below = (self.row(node[key]) if node.get(key) else None for key in ("sup", "sub"))
        scripts = tree.Scripts(base[-1] if base else tree.Row(()), above, below, _limits(node["base"] or node))
        return [*base[:-1], scripts]

    def phantom(self, node: KatexNode) -> list[tree.Node]:
        kind = node["type"]
        if kind == "smash":
            return [tree.Phantom(self.row(node["body"]), True, True, False)]
        if kind == "lap":
            side = {"llap": "left", "clap": "centre"}.get(node["alignment"], "right")
            return [tree.Phantom(self.row(node["body"]), True, False, True, side)]
        return [tree.Phantom(self.row(node["body"]), False, kind == "phantom", True)]

    def tagged(self, node: KatexNode) -> list[tree.Node]:
        return [*self.row(node["body"]).items, tree.Space(2.0), *self.row(node["tag"]).items]

    # --- what is drawn ------------------------------------------------------------------------------

    def fraction(self, node: KatexNode) -> list[tree.Node]:
        at, bar = self._last, node["hasBarLine"] and (node["barSize"] is None or node["barSize"]["number"] > 0)
        made = tree.Fraction(self.row(node["numer"]), self.row(node["denom"]), bar, at)
        ends = [_delimiter(node[key]) for key in ("leftDelim", "rightDelim")]
        return [tree.Delimited(((ends[0], at), (ends[1], at)), (made,))] if any(ends) else [made]

    def root(self, node: KatexNode) -> list[tree.Node]:
        at, degree = self._last, node["index"] and self.row(node["index"])
        return [tree.Root(degree, self.row(node["body"]), at)]

    def accent(self, node: KatexNode) -> list[tree.Node]:
        at, label = self._last, node.get("label") or "\\" + node["type"]
        row = self.row(node["base"] if "base" in node else node["body"])
        if label in _marks("text_accents"):
            return _text_accent(row, _marks("text_accents")[label], at)
        mark = _marks("accents").get(label)
        under = node["type"] in ("accentUnder", "underline") or not node.get("isOver", True)
        return [tree.Accent(row, mark, at, under)] if mark else list(row.items)

    def arrow(self, node: KatexNode) -> list[tree.Node]:
        at, below = self._last, self.row(node["below"]) if node.get("below") else None
        return [tree.Arrow(_marks("arrows").get(node["label"], "→"), self.row(node.get("body")), below, at)]

    def rule(self, node: KatexNode) -> list[tree.Node]:
        width, height, raised = (_em(node[key]) for key in ("width", "height", "shift"))
        return [tree.Rule(width, height, raised, self._last)]

    def delimiter(self, node: KatexNode) -> list[tree.Node]:
        """One of a fixed height."""
        text, kind = _delimiter(node["delim"]), _KINDS[node.get("mclass", "mrel")]
        return [tree.Delimiter(text, _SIZES[node.get("size", 1)], kind, self._last)] if text else []

    def delimited(self, node: KatexNode) -> list[tree.Node]:
        """\\left ... \\right, with any number of \\middle."""
        delimiters = [(_delimiter(node["left"]), self._last)]
        bodies: list[list[KatexNode]] = [[]]
        for part in node["body"]:
            if part["type"] == "middle":
                bodies.append([])
                delimiters.append((_delimiter(part["delim"]), self._place(part["at"])))
            else:
                bodies[-1].append(part)
        rows = tuple(map(self.row, bodies))
        end = self._place(node.get("end", -1))
        return [tree.Delimited((*delimiters, (_delimiter(node["right"]), end)), rows)]

    def _place(self, at: int) -> int:
        return self._places[at] if 0 <= at < len(self._places) else self._last

    def matrix(self, node: KatexNode) -> list[tree.Node]:
        at = self._last
        rows = [[self._cell(cell) for cell in row] or [tree.Row(())] for row in node["body"]]
        for cells, tag in zip(rows, node.get("tags") or [], strict=False):
            if isinstance(tag, list) and tag:
                cells[-1] = tree.Row((*cells[-1].items, tree.Space(2.0), *self.row(tag).items))
        columns = node.get("cols") or []
        letters = [column["align"] for column in columns if column["type"] == "align"]
        vertical = [
            sum(before["type"] == "align" for before in columns[:i])
            for i, column in enumerate(columns)
            if column["type"] == "separator"
        ]
        level: tree.Level = next((cell["style"] for row in node["body"] for cell in row if "style" in cell), "text")
        aligned = node.get("colSeparationType") in ("align", "alignat")
        return [
            tree.Matrix(
                tuple(map(tuple, rows)),
                "rl" if aligned else "".join(letters) or "c",
                at,
                "aligned" if aligned else "tight" if level == "script" else "wide",
                level,
                tuple(dict.fromkeys(vertical)),
                tuple(i for i, lines in enumerate(node["hLinesBeforeRow"]) if lines),
            )
        ]

    def _cell(self, cell: KatexNode) -> tree.Row:
        body = cell["body"] if cell["type"] == "styling" else cell
        only = body[0] if isinstance(body, list) and len(body) == 1 else body
        return self._inside(only, None)


def _limits(base: KatexNode) -> tree.Limits:
    """Returns where the limits of a base stand."""
    always, limits = base.get("alwaysHandleSupSub"), base.get("limits")
    if base["type"] == "horizBrace":
        return "always"
    if base["type"] == "op":
        return "beside" if not limits else "always" if always else "display"
    return "beside" if not always else "always" if limits else "display"


def _struck(before: list[tree.Node], parts: Sequence[tree.Node]) -> list[tree.Node]:
    """Returns parts behind others; behind a \\not they are struck through."""
    match before[-1:], parts:
        case [tree.Symbol(text, at)], [first, *rest] if text == _STROKE:
            if isinstance(first, tree.Symbol):
                struck: tree.Node = replace(first, text=unicodedata.normalize("NFC", first.text + _STROKE))
            else:
                struck = tree.Accent(tree.Row((first,)), "cancel", at)
            return [*before[:-1], struck, *rest]
    return [*before, *parts]


def _text_accent(row: tree.Row, mark: str, at: int) -> list[tree.Node]:
    """Returns the first letter of a row with a mark on it, and the rest."""
    match row.items:
        case [tree.Symbol(text) as first, *rest]:
            letter = text.replace("\u0131", "i") + mark
            return [replace(first, text=unicodedata.normalize("NFC", letter)), *rest]
    return [tree.Symbol("\u25cc" + mark, at), *row.items]


@lru_cache(maxsize=512)
def _lettered(text: str, alphabet: str) -> str:
    """Returns the letter or digit of an alphabet, the same character if it has none."""
    if len(text) != 1 or not (text.isascii() and text.isalnum()):
        return text
    size = "DIGIT " if text.isdigit() else "CAPITAL " if text.isupper() else "SMALL "
    letter = unicodedata.name(text).rpartition(" ")[2]
    older = {"FRAKTUR": "BLACK-LETTER "}.get(alphabet, alphabet + " ")
    for name in (f"MATHEMATICAL {alphabet} {size}{letter}", f"{older}{size}{letter}"):
        try:
            return unicodedata.lookup(name)
        except KeyError:
            continue
    return text


# Nodes of which only a part is shown: colours belong to tokens here.
_SHOWN = {
    **dict.fromkeys(("color", "href", "html", "hbox", "raisebox", "reflectbox", "sizing", "vcenter"), "body"),
    "cdlabel": "label",
    "cdlabelparent": "fragment",
    "htmlmathml": "mathml",
    "mathchoice": "display",
}
_READERS: dict[str, Callable[[_TreeReader, KatexNode], list[tree.Node]]] = {
    **dict.fromkeys(("textord", "mathord", "atom"), _TreeReader.symbol),
    **dict.fromkeys(_SHOWN, _TreeReader.inline),
    **dict.fromkeys(("phantom", "vphantom", "smash", "lap"), _TreeReader.phantom),
    **dict.fromkeys(("accent", "accentUnder", "horizBrace", "enclose", "overline", "underline"), _TreeReader.accent),
    **dict.fromkeys(("delimsizing", "middle"), _TreeReader.delimiter),
    "array": _TreeReader.matrix,
    "font": _TreeReader.math_font,
    "genfrac": _TreeReader.fraction,
    "includegraphics": lambda reader, node: [reader.as_written("\\includegraphics")],
    "internal": lambda reader, node: [],
    "kern": lambda reader, node: [tree.Space(_em(node["dimension"]))],
    "leftright": _TreeReader.delimited,
    "mclass": _TreeReader.classed,
    "op": _TreeReader.operator,
    "operatorname": _TreeReader.operator_name,
    "ordgroup": _TreeReader.group,
    "pmb": _TreeReader.bold,
    "rule": _TreeReader.rule,
    "spacing": _TreeReader.spacing,
    "sqrt": _TreeReader.root,
    "styling": _TreeReader.styled,
    "supsub": _TreeReader.scripts,
    "tag": _TreeReader.tagged,
    "text": _TreeReader.text,
    "unknown": lambda reader, node: [reader.as_written(node["text"])],
    "verb": _TreeReader.verbatim,
    "xArrow": _TreeReader.arrow,
}
