"""Every text that a user can meet, on one page, to be read as an editor would.

    uv run python -m tests.strings [FOLDER ...]      app/window, or the folders named

A text is a string of the source with a space or a capital letter in it that is no docstring, no pattern and no style
sheet. Placeholders of f-strings are shown as {...}.
"""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
_TEXT = re.compile(r"[A-Z][a-z]+|[a-z]+ [a-z{]")
_CODE = re.compile(
    r"[{};]\s*\n|^\s*[\w.-]+:|\\[dswb]|^[a-z_]+(\.[a-z_]+)+$|</|SELECT |INSERT |UPDATE |DELETE |CREATE |PRAGMA |^Q\w+$"
)


class Text(NamedTuple):
    """A text of the interface and where it stands: a file of the tree and a line."""

    file: str
    line: int
    text: str


def texts(*folders: str) -> list[Text]:
    """The texts of all modules in `folders`, in the order of files and lines."""
    paths = sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return [text for path in paths for text in _of(path)]


@cache
def _of(path: Path) -> list[Text]:
    return [
        Text(path.relative_to(ROOT).as_posix(), line, text)
        for line, text in sorted(_texts(ast.parse(path.read_text())))
        if _TEXT.search(text) and not _CODE.search(text)
    ]


def _texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    passed_over = {id(node) for node in _not_for_users(tree)}
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.JoinedStr):
            passed_over |= {id(part) for part in ast.walk(node)}
            yield node.lineno, "".join(_part(part) for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _part(part: ast.expr) -> str:
    return str(part.value) if isinstance(part, ast.Constant) else "{...}"


def _not_for_users(tree: ast.Module) -> Iterator[ast.AST]:
    """Docstrings, annotations, and what is compared or used as a key."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(body[0], ast.Expr):
            yield body[0].value
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if annotation is not None:
                yield from ast.walk(annotation)
        if isinstance(node, ast.Subscript):
            yield from ast.walk(node.slice)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("connect", "compile", "setProperty"):
            yield from (each for argument in node.args for each in ast.walk(argument))


def main() -> None:
    file = ""
    for text in texts(*(sys.argv[1:] or ["app/window"])):
        if text.file != file:
            file = text.file
            print(f"\n{file}")
        print(f"{text.line:5}  {text.text}")


if __name__ == "__main__":
    main()
