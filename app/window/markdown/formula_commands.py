"""What LaTeX's commands stand for, as far as KaTeX has them: symbols (KaTeX's table, written by
`tests.programs.formula_symbols`), commands that are short for others, and the kinds of the rest."""

from __future__ import annotations

import json
import tomllib
from functools import cache
from importlib import resources
from typing import Any, NamedTuple, cast

from app.window.markdown.formula_tree import Font, Kind, Level

MINUS = "\u2212"


class Meaning(NamedTuple):
    """What a command or a character stands for. letter: whether it is slanted as variables are."""

    text: str
    kind: Kind
    letter: bool = False


def _read(name: str) -> str:
    return (resources.files("resources") / "formulas" / name).read_text(encoding="utf-8")


_TABLES: dict[str, Any] = tomllib.loads(_read("commands.toml"))
MACROS: dict[str, str] = _TABLES["macros"]
SPACES: dict[str, float] = _TABLES["spaces"]  # em
NOTHING = frozenset(_TABLES["nothing"])  # commands without a trace here, such as sizes of text
FUNCTIONS, LIMIT_FUNCTIONS = frozenset(_TABLES["functions"]), frozenset(_TABLES["limit_functions"])
LEVELS: dict[str, Level] = _TABLES["levels"]
FRACTIONS: dict[str, Level] = _TABLES["fractions"]  # "" for the level around them
BINOMIALS: dict[str, Level] = _TABLES["binomials"]
INFIX: dict[str, str] = _TABLES["infix"]  # the delimiters around them
TEXTS: dict[str, Font] = _TABLES["texts"]
FONTS: dict[str, Font] = _TABLES["fonts"]
OLD_FONTS: dict[str, Font] = _TABLES["old_fonts"]
ALPHABETS: dict[str, str] = _TABLES["alphabets"]  # by their names in Unicode
ACCENTS: dict[str, str] = _TABLES["accents"]  # signs, or names of WIDE_MARKS
UNDER_ACCENTS: dict[str, str] = _TABLES["under_accents"]
TEXT_ACCENTS: dict[str, str] = _TABLES["text_accents"]  # combining marks
CLASSES: dict[str, Kind] = _TABLES["classes"]
ARROWS: dict[str, str] = _TABLES["arrows"]
PHANTOMS: dict[str, tuple[bool, bool, bool, str]] = _TABLES["phantoms"]
SIZES: dict[str, float] = _TABLES["sizes"]  # em
SIDES: dict[str, Kind] = {"": "ordinary", "l": "open", "r": "close", "m": "relation"}
# Commands of which only the last argument is shown; how many come before it.
DRAWING: dict[str, int] = _TABLES["drawing"] | dict.fromkeys(_TABLES["colours"], 0)
DEFINITIONS = frozenset(_TABLES["definitions"])
MATRICES: dict[str, str] = _TABLES["matrices"]  # the delimiters around them
CASES: dict[str, str] = _TABLES["cases"]
ALIGNED, CENTRED = frozenset(_TABLES["aligned"]), frozenset(_TABLES["centred"])
ENVIRONMENTS = frozenset((*MATRICES, *CASES)) | ALIGNED | CENTRED
BESIDE = frozenset("∫∬∭∮∯∰")  # large operators whose limits stand beside them
DELIMITERS = frozenset("()[]{}|‖⟨⟩⌊⌋⌈⌉/\\.↑↓↕⇑⇓⇕⟦⟧⟮⟯⎰⎱⌜⌝⌞⌟┌┐└┘⦃⦄")

_ASCII: dict[Kind, str] = {
    "open": "([",
    "close": ")]!?",
    "relation": "=<>:",
    "punctuation": ",;",
    "ordinary": '/@."|',
    "binary": "+",
}


@cache
def meanings(mode: str) -> dict[str, Meaning]:
    """Returns what commands and characters stand for in "math" or in "text"."""
    found: dict[str, Meaning] = {}
    for kind, names in json.loads(_read("symbols.json"))[mode].items():
        for name, text in names.items():
            if (name[0] == "\\" or mode == "text") and not "\ue000" <= text <= "\uf8ff":
                letter = kind == "letter"
                found[name] = Meaning(text, "ordinary" if letter else cast(Kind, kind), letter)
    if mode == "math":
        signs: dict[Kind, dict[str, str]] = _TABLES["signs"]
        found |= {f"\\{name}": Meaning(text, kind) for kind, names in signs.items() for name, text in names.items()}
    found |= {meaning.text: meaning for meaning in found.values() if len(meaning.text) == 1}
    if mode == "math":
        found |= {text: Meaning(text, kind) for kind, texts in _ASCII.items() for text in texts}
        found |= {"-": Meaning(MINUS, "binary"), "*": Meaning("\u2217", "binary"), "`": Meaning("\u2018", "ordinary")}
    return found
