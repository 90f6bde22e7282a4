"""The mistakes of the past that the suite must notice, each kept by the symbol that it changes.

`*.toml` beside this file hold them, a table each:

    [[mutant]]
    name = "residual is p"              what the edit does
    symbol = "residual"                 qualified name of a function, class or constant, wherever in the source it is;
                                        "eagle3:check" where several modules have one of that name
    old = "p - q_row"                   a piece of its code, compared without white space and comments
    new = "p"                           what stands there instead; further lines are indented as the first one is
    tests = ["test_the_residual_..."]   names of tests, all fast, at least one of which must then fail
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("engine", "models", "app", "packaging")
_BETWEEN = r"(?:\s|#.*\n)*"  # two words or signs of the code


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
        old = _pattern(self.old)
        return [
            (path, *found.span())
            for path, first, last in definitions().get(name, ())
            if module in ("", path.stem)
            for found in old.finditer(path.read_text(), first, last)
        ]

    def applied(self, path: Path, start: int, end: int) -> str:
        """Returns the text of the file with `new` in place of its characters `start` to `end`."""
        text = path.read_text()
        line = text[text.rfind("\n", 0, start) + 1 : start]
        indent = line[: len(line) - len(line.lstrip())] if line.strip() else line
        return text[:start] + self.new.strip("\n").replace("\n", "\n" + indent) + text[end:]


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
        starts = [0, *(line.end() for line in re.finditer(r"\n|\Z", text))]
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


def _pattern(piece: str) -> re.Pattern[str]:
    """Matches the words and signs of `piece`, whatever white space is between them."""
    parts = re.findall(r"\w+|[^\w\s]", piece)
    before, after = (r"\b" if part.isidentifier() else "" for part in (parts[0], parts[-1]))
    return re.compile(before + _BETWEEN.join(map(re.escape, parts)) + after)
