"""Compares the formulas of a file with KaTeX: `python -m tests.formulas KATEX FILE`.

KATEX is the folder of npm's package `katex`, which node runs. FILE holds texts (.jsonl: every string in it; .txt: a
formula on each line; anything else: one text). Formulas are found by delimiters alone, without Redline's code.

KaTeX's MathML and Redline's tree are each written as one line of visible characters and structure, such as
`x sup( 2 ) + frac( 1 )( 2 )`, and these must be the same. A character that is dropped is thus never right. What is
drawn and what is copied as plain text must have every character of the tree.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import unicodedata
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from app.window.markdown import formula_tree as tree
from app.window.markdown.formula_layout import formula_box
from app.window.markdown.formula_parser import formula_tree
from app.window.markdown.formula_text import needs_setting, text_and_places

_FORMULA = re.compile(
    r"\$\$(?P<a>.+?)\$\$|\\\[(?P<b>.+?)\\\]|\\\((?P<c>.+?)\\\)|(?<!\\)\$(?P<d>(?:\\.|[^$\\\n]|\n(?!\s*\n))+?)\$",
    re.DOTALL,
)
_NODE = """
const katex = require(process.argv[1]); require(process.argv[1] + '/dist/contrib/mhchem.js');
const lines = require('fs').readFileSync(0, 'utf8').split('\\n').filter(Boolean);
for (const line of lines) {
  const [latex, displayMode] = JSON.parse(line);
  let made = null;
  try { made = katex.renderToString(latex, {displayMode, output: 'mathml', strict: 'ignore', trust: true}); } catch {}
  console.log(JSON.stringify(made));
}
"""
# Look-alikes: the signs of the first line are taken for those below them.
_SAME = str.maketrans(
    "\u2212\u2013\u2223\u2225\u2217\u22c5\u2022\u02c6\u02dc\u223c\u203e\u02c9_\u2215\u2044\u00b4",
    "--|\u2016*\u00b7\u00b7^~~\u00af\u00af\u00af//\u02ca",
) | {0x2A74: "\u2237="}
_ACCENTS = {"line": "\u00af", "hat": "^", "tilde": "~", "check": "\u02c7", "\u23de": "brace", "\u23df": "brace"}
_ACCENTS |= {"\u23b4": "bracket", "\u23b5": "bracket", "\u23e0": "group", "\u23e1": "group"}
_ACCENTS |= {name: name for name in ("brace", "bracket", "group")}
_COMBINING = {"\u0301": "\u02ca", "\u0300": "\u02cb", "\u0302": "^", "\u0303": "~", "\u0304": "\u00af"}
_COMBINING |= {
    "\u0306": "\u02d8",
    "\u0307": "\u02d9",
    "\u030a": "\u02da",
    "\u030c": "\u02c7",
    "\u0308": "\u00a8",
    "\u030b": "\u02dd",
}
_COMBINING |= {"\u0327": "\u00b8", "\u20dd": "\u25ef"}
_TABLE_LINES = {"top", "bottom", "left", "right"}
_ALPHABETS = {"double-struck": "DOUBLE-STRUCK", "script": "SCRIPT", "fraktur": "FRAKTUR"}


class Result(NamedTuple):
    """What a formula came to: "right", "wrong", "incomplete" or "as written", and both lines."""

    verdict: str
    theirs: str
    ours: str


# --- characters ---------------------------------------------------------------------------------------


def characters(text: str, font: str) -> Iterator[str]:
    """Yields the visible characters of a text, letters of other alphabets and bold ones with their font."""
    for character in re.findall(r"\S[\u0300-\u036f\u20dd]*", unicodedata.normalize("NFC", text)):
        code = ord(character[0])
        if code in (0x200B, *range(0x2061, 0x2065), 0xFEFF):
            continue
        name = unicodedata.name(character[0], "")
        kind = next((k for k, a in _ALPHABETS.items() if a in name or (a == "FRAKTUR" and "BLACK-LETTER" in name)), "")
        folded = code >= 0x1D400 or (kind and 0x2100 <= code < 0x2150)
        plain = unicodedata.normalize("NFKC", character) if folded else character
        kind = kind if folded else _ALPHABETS.get(font, "") and font
        if not plain.isalnum() or (plain.isdigit() and kind != "double-struck"):
            kind = ""  # Unicode has no such characters
        base, *marks = unicodedata.normalize("NFD", plain)
        if marks and all(mark in _COMBINING for mark in marks):
            yield " ".join(_of("accent", [base], [_COMBINING[marks[0]]]))
            continue
        bold = "bold" if "bold" in font or (folded and "BOLD" in name) else ""
        bold = bold if plain.isalnum() and not kind else ""
        yield ":".join(filter(None, (kind, bold, " ".join(plain.translate(_SAME)))))


def _line(parts: list[str]) -> str:
    """Returns the parts in one line, a stroke joined with what it strikes through."""
    text = " ".join(part for part in parts if part)
    text = re.sub("\u0338 (\\S)", "\\1\u0338", text)
    return unicodedata.normalize("NFC", text)


def _of(kind: str, *bodies: list[str]) -> list[str]:
    return [f"{kind}(", *[part for body in bodies for part in (*body, ")(")][:-1], ")"]


# --- KaTeX's MathML -------------------------------------------------------------------------------------


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def mathml(element: ElementTree.Element) -> list[str]:
    """Returns the parts of an element of MathML."""
    tag, children = _tag(element), list(element)
    if tag in ("mphantom", "annotation", "mspace"):
        return []
    if tag in ("mi", "mo", "mn", "mtext", "ms") and not children:
        return list(characters(element.text or "", element.get("mathvariant", "")))
    if tag == "mfrac":
        bar = element.get("linethickness", "1") not in ("0px", "0", "0em")
        return _of("frac" if bar else "stack", *map(mathml, children))
    if tag == "msqrt":
        return _of("root", [part for child in children for part in mathml(child)])
    if tag == "mroot":
        return _of("root", mathml(children[0]), mathml(children[1]))
    if tag in ("msup", "mover", "msub", "munder", "msubsup", "munderover"):
        return _mathml_scripts(element, tag, children)
    if tag == "menclose":
        body = [part for child in children for part in mathml(child)]
        return body if set(str(element.get("notation")).split()) <= _TABLE_LINES else _of("enclosed", body)
    if tag == "mtable":
        return _mathml_table(element)
    return [part for child in children for part in mathml(child)]


def _mathml_scripts(element: ElementTree.Element, tag: str, children: list[ElementTree.Element]) -> list[str]:
    base, *others = map(mathml, children)
    mark = " ".join(others[0])
    wide = mark in _ACCENTS or mark in ("→", "←", "↔", "⇒", "⇀", "↼", "\u20d7") or element.get("accent") == "true"
    stretched = children[1].get("stretchy") == "true" or _tag(children[1]) == "mo"
    if tag in ("mover", "munder") and (element.get("accent") or element.get("accentunder") or (wide and stretched)):
        return _of("accent", base, [_ACCENTS.get(mark, mark)])
    if tag in ("msup", "mover"):
        return [*base, *(_of("sup", others[0]) if others[0] else [])]
    if tag in ("msub", "munder"):
        return [*base, *(_of("sub", others[0]) if others[0] else [])]
    scripts = zip(("sub", "sup"), others, strict=True)
    return [*base, *(part for kind, body in scripts if body for part in _of(kind, body))]


def _mathml_table(table: ElementTree.Element) -> list[str]:
    rows: list[list[list[str]]] = []
    for row in table:
        cells: list[list[str]] = [[]]
        for cell in row:
            parts = [part for child in cell for part in mathml(child)]
            if "eqn-num" in str(cell.get("class")) or "glue" in str(cell.get("class")):
                cells[-1] += parts
            else:
                cells.append(parts)
        rows.append(cells[1:])
    if table.get("width") == "100%":
        return [part for row in rows for cell in row for part in cell]
    return _table(rows)


def _table(rows: list[list[list[str]]]) -> list[str]:
    made: list[list[str]] = []
    for row in rows:
        while row and not row[-1]:
            row = row[:-1]
        made.append([part for i, cell in enumerate(row) for part in (["&"] if i else []) + cell])
    while made and not made[-1]:
        made.pop()
    return _of("table", *made) if made else []


# --- Redline's tree -------------------------------------------------------------------------------------


def ours(node: tree.Node | None) -> list[str]:
    """Returns the parts of a node of Redline's tree."""
    match node:
        case None | tree.Space() | tree.Rule():
            return []
        case tree.Symbol(text, _, _, font):
            return list(characters(text, font))
        case tree.Row(items):
            return [part for item in items for part in ours(item)]
        case tree.Classed(body) | tree.Styled(body):
            return ours(body)
        case tree.Phantom(body, ink):
            return ours(body) if ink else []
        case tree.Fraction(above, below, bar):
            return _of("frac" if bar else "stack", ours(above), ours(below))
        case tree.Root(degree, body):
            return _of("root", ours(body), *([] if degree is None else [ours(degree)]))
        case tree.Scripts(base, above, below):
            scripts = (("sub", ours(below)), ("sup", ours(above)))
            return [*ours(base), *(part for kind, body in scripts if body for part in _of(kind, body))]
        case tree.Accent(body, mark):
            if mark in ("box", "cancel", "bcancel", "xcancel", "strike", "angle"):
                return _of("enclosed", ours(body))
            return _of("accent", ours(body), [_ACCENTS.get(mark, mark.translate(_SAME))])
    return _ours_wide(node)


def _ours_wide(node: tree.Node) -> list[str]:
    match node:
        case tree.Arrow(text, above, below):
            scripts = (("sub", ours(below)), ("sup", ours(above)))
            return [text, *(part for kind, body in scripts if body for part in _of(kind, body))]
        case tree.Delimiter(text):
            return list(characters(text, ""))
        case tree.Delimited(delimiters, bodies):
            between = [list(characters(text, "")) for text, _ in delimiters]
            pairs = zip(between[1:], bodies, strict=True)
            return [*between[0], *(part for delimiter, body in pairs for part in (*ours(body), *delimiter))]
        case tree.Matrix(rows, columns="lines"):
            return [part for row in rows for cell in row for part in ours(cell)]
        case tree.Matrix(rows):
            return _table([[ours(cell) for cell in row] for row in rows])
    raise TypeError(type(node))


def _plain(text: str) -> Counter[str]:
    """Returns how often each letter, digit and sign occurs, whatever its font and place."""
    folded = unicodedata.normalize("NFKD", text).translate(_SAME).replace("\u2218", "\u00b0")
    return Counter(c for c in folded if not c.isspace() and not unicodedata.combining(c) and c not in "()^\u00af&")


def _bare(line: str) -> str:
    """Returns a line without its structure."""
    marks = re.compile(r"\b(?:frac|stack|root|sup|sub|accent|enclosed|table)\(|(?<= )\)\(?|(?:double-struck|script):")
    bare = re.sub("fraktur:|bold:", "", marks.sub("", line))
    return re.sub(f"\\b(?:brace|bracket|group)\\b|[¯^~→←↔⇒⇀↼\u20d7&{''.join(_COMBINING.values())}]", "", bare)


def judge(latex: str, display: bool, theirs: str) -> Result:
    """Compares one formula with KaTeX's MathML of it."""
    markup = ElementTree.fromstring(re.sub(r"&(?!#|amp;|lt;|gt;|quot;)", "&amp;", theirs))
    expected = _line(mathml(markup))
    found = formula_tree(latex.strip())
    if found is None:
        return Result("as written" if expected else "right", expected, latex)
    made = _line(ours(found))
    if re.search("[\u2100-\u214f]", latex):  # KaTeX's MathML has no font for these
        made, expected = (re.sub("(double-struck|script|fraktur):", "", line) for line in (made, expected))
    if made != expected:
        lost = _plain(_bare(expected)) - _plain(_bare(made))
        return Result("incomplete" if lost else "wrong", expected, made)
    wanted = _plain(_bare(made))
    text = text_and_places(latex.strip())[0]
    box = formula_box(latex.strip(), 16.0, display) if display or needs_setting(latex.strip()) else None
    drawn = "".join(mark.text for mark in box.marks) if box else text
    # Tall delimiters and arrows are drawn as lines.
    lost = (wanted - _plain(text)) + Counter({c: n for c, n in (wanted - _plain(drawn)).items() if c.isalnum()})
    return Result("incomplete" if lost else "right", expected, f"{made}   plain: {text}")


# --- files ----------------------------------------------------------------------------------------------


def _texts(path: Path) -> Iterator[str]:
    content = path.read_text("utf-8")
    if path.suffix != ".jsonl":
        yield content
        return
    for line in content.split("\n"):
        if line.strip():
            yield from _strings(json.loads(line))


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


def formulas(path: Path) -> list[tuple[str, bool]]:
    """Returns the formulas of a file, and whether each is a display."""
    if path.suffix == ".txt":
        return [(line, True) for line in path.read_text("utf-8").split("\n") if line.strip()]
    found = (match for text in _texts(path) for match in _FORMULA.finditer(text))
    return [(match[match.lastgroup or "a"], match.lastgroup in ("a", "b")) for match in found]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("katex", type=Path, help="the folder of npm's package katex")
    options.add_argument("file", type=Path)
    options.add_argument("--show", type=int, default=20, help="how many formulas that are not right to print")
    given = options.parse_args()
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    from PySide6.QtGui import QGuiApplication

    _application = QGuiApplication(sys.argv[:1])
    wanted = formulas(given.file)
    lines = "\n".join(json.dumps(formula) for formula in wanted)
    node = ["node", "-e", _NODE, str(given.katex.resolve())]
    answers = subprocess.run(node, input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    counts: Counter[str] = Counter()
    for (latex, display), answer in zip(wanted, map(json.loads, answers), strict=True):
        result = judge(latex, display, answer) if answer else Result("refused by KaTeX", "", "")
        counts[result.verdict] += 1
        faults = counts["wrong"] + counts["incomplete"] + counts["as written"]
        if answer and result.verdict != "right" and faults <= given.show:
            print(f"{result.verdict}: {latex}\n  KaTeX    {result.theirs}\n  Redline  {result.ours}")
    print(f"{given.file.name}: {len(wanted)} formulas", dict(counts))


if __name__ == "__main__":
    main()
