"""The wrong edits that the suite must notice, each kept by the symbol that it changes.

`*.toml` beside this file hold them, a table each:

    [[mutant]]
    name = "residual is p"              what the edit does
    symbol = "residual"                 qualified name of a function, class or constant, wherever in the source it is;
                                        "eagle3:check" where several modules have one of that name
    old = "p - q_row"                   a piece of its code, compared token by token, so that formatting is free
    new = "p"                           what stands there instead; further lines are indented as the first one is
    tests = ["test_the_residual_..."]   names of tests, all fast, at least one of which must then fail
"""

from __future__ import annotations

import ast
import io
import tokenize
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("engine", "models", "app", "packaging")
_LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}


@dataclass(frozen=True)
class Mutant:
    """A wrong edit; the fields are those of the tables."""

    name: str
    symbol: str
    old: str
    new: str
    tests: tuple[str, ...]

    def places(self) -> list[tuple[Path, int, int]]:
        """Every place of `old` in a definition of `symbol`: a file and the first and last character of it."""
        module, _, name = self.symbol.rpartition(":")
        found = []
        for path, first, last in definitions().get(name, ()):
            if module not in ("", path.stem):
                continue
            text = path.read_text()
            found += [(path, start, end) for start, end in occurrences(text, first, last, self.old)]
        return found

    def applied(self, path: Path, start: int, end: int) -> str:
        """Returns the text of the file with `new` in place of its characters `start` to `end`."""
        text = path.read_text()
        line = text[text.rfind("\n", 0, start) + 1 : start]
        indent = line[: len(line) - len(line.lstrip())] if line.strip() else line
        return text[:start] + self.new.replace("\n", "\n" + indent) + text[end:]

    def definition(self, path: Path, start: int, end: int) -> tuple[str, str]:
        """Returns the definition of the symbol before and after the edit, each a program by itself."""
        name = self.symbol.rpartition(":")[2]
        first, last = next((a, b) for file, a, b in definitions()[name] if file == path and a <= start < b)
        text, edited = path.read_text(), self.applied(path, start, end)
        outer = "if True:\n" if text[first] == " " else ""
        return outer + text[first:last], outer + edited[first : last + len(edited) - len(text)]


def read_mutants() -> tuple[Mutant, ...]:
    """Reads the tables, in the order of their files."""
    tables = [tomllib.loads(path.read_text())["mutant"] for path in sorted(Path(__file__).parent.glob("*.toml"))]
    return tuple(Mutant(**{**row, "tests": tuple(row["tests"])}) for rows in tables for row in rows)


@cache
def definitions() -> dict[str, list[tuple[Path, int, int]]]:
    """Where each symbol of the source is defined: by qualified name, the files with its first and last character."""
    found: dict[str, list[tuple[Path, int, int]]] = {}
    for path in sorted(path for folder in SOURCES for path in (ROOT / folder).rglob("*.py")):
        text = path.read_text()
        starts = line_starts(text)
        for name, node in _named(ast.parse(text).body, ""):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            found.setdefault(name, []).append((path, starts[first - 1], starts[node.end_lineno or first]))
    return found


def _named(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield prefix + node.name, node
            yield from _named(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                names = target.elts if isinstance(target, ast.Tuple) else [target]
                yield from ((prefix + name.id, node) for name in names if isinstance(name, ast.Name))
        else:
            yield from _named([each for each in ast.iter_child_nodes(node) if isinstance(each, ast.stmt)], prefix)


def occurrences(text: str, first: int, last: int, piece: str) -> list[tuple[int, int]]:
    """Where the tokens of `piece`, or its very letters, stand in text[first:last]."""
    wanted = [string for string, _, _ in _tokens(piece)]
    tokens = [token for token in _tokens_of(text) if first <= token[1] and token[2] <= last]
    strings = [string for string, _, _ in tokens]
    count = len(wanted)
    found = [
        (tokens[i][1], tokens[i + count - 1][2])
        for i in range(len(strings) - count + 1)
        if strings[i : i + count] == wanted
    ]
    if not found and piece in text[first:last]:  # inside a string
        starts = [i for i in range(first, last) if text.startswith(piece, i)]
        found = [(start, start + len(piece)) for start in starts]
    return found


@cache
def _tokens_of(text: str) -> list[tuple[str, int, int]]:
    return _tokens(text)


def _tokens(text: str) -> list[tuple[str, int, int]]:
    """Tokens that are not layout, with the characters where they begin and end. `text` may be a piece of code."""
    starts = line_starts(text)
    found = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in _LAYOUT and token.string:
                begin, end = (starts[row - 1] + column for row, column in (token.start, token.end))
                found.append((token.string, begin, end))
    except (tokenize.TokenError, IndentationError):
        pass  # a bracket that is closed after the piece
    return found


def line_starts(text: str) -> list[int]:
    """The first character of each line, and one more place for the end."""
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return [*starts, len(text)]
