"""Writes the table of LaTeX's symbols, which is that of KaTeX: `python -m tests.programs.formula_symbols KATEX`, where
KATEX is the folder of npm's package `katex`."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TABLE = Path("resources/formulas/symbols.json")

KINDS = {
    "bin": "binary",
    "rel": "relation",
    "open": "open",
    "close": "close",
    "punct": "punctuation",
    "op-token": "large",
    "inner": "inner",
    "mathord": "letter",
    "textord": "ordinary",
}
_DEFINITION = re.compile(
    r'^defineSymbol\((math|text), \w+, (\w+|"[\w-]+"), ("(?:[^"\\]|\\.)*"), ("(?:[^"\\]|\\.)*")', re.M
)


def symbols(source: str) -> dict[str, dict[str, dict[str, str]]]:
    """Returns, by mode and kind, the character of each command, from KaTeX's symbols.ts."""
    groups = dict(re.findall(r'^const (\w+) = "([\w-]+)";', source, re.M))
    found: dict[str, dict[str, dict[str, str]]] = {"math": {}, "text": {}}
    for mode, group, text, name in _DEFINITION.findall(source):
        kind = KINDS.get(groups.get(group, group))
        if kind is not None:
            found[mode].setdefault(kind, {})[json.loads(name)] = json.loads(text)
    return found


def main(folder: Path) -> None:
    version = json.loads((folder / "package.json").read_text("utf-8"))["version"]
    table = {
        "source": f"KaTeX {version}, src/symbols.ts; MIT licence, see resources/licences",
        **symbols((folder / "src" / "symbols.ts").read_text("utf-8")),
    }
    TABLE.write_text(json.dumps(table, ensure_ascii=True, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
