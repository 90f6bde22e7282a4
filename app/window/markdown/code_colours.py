"""The colours of code: which characters are keywords, strings and so on, as Pygments finds them."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

from app.palette import Scheme
from app.window.common.appearance import Appearance
from app.window.markdown.text_formats import readable

LONGEST_CODE = 20_000  # characters; longer code stays plain
LONGEST_LINE = 1_000  # characters; some lexers take quadratic time on endless lines

# Preferred; `code_colour` changes them until they are readable.
CODE_PALETTE: dict[Scheme, dict[str, str]] = {
    "light": {
        "keyword": "#b3213c",
        "string": "#0a5c36",
        "number": "#0550ae",
        "comment": "#67707b",
        "function": "#6f3fc0",
        "class": "#8f4a00",
        "tag": "#116329",
        "name": "#7a3e9d",
        "deleted": "#b3213c",
        "inserted": "#116329",
    },
    "dark": {
        "keyword": "#ff7b8a",
        "string": "#9fd8a4",
        "number": "#79c0ff",
        "comment": "#9aa4af",
        "function": "#d2a8ff",
        "class": "#ffb068",
        "tag": "#7ee787",
        "name": "#e0b3ff",
        "deleted": "#ff9a92",
        "inserted": "#7ee787",
    },
}

# The kind of each type of token of Pygments. The longest prefix wins; what has none is not coloured.
_KINDS = {
    "Comment": "comment",
    "Comment.Preproc": "class",
    "Keyword": "keyword",
    "Keyword.Type": "class",
    "Keyword.Constant": "number",
    "Operator.Word": "keyword",
    "Name.Builtin": "function",
    "Name.Builtin.Pseudo": "number",
    "Name.Function": "function",
    "Name.Decorator": "function",
    "Name.Class": "class",
    "Name.Exception": "class",
    "Name.Tag": "tag",
    "Name.Attribute": "name",
    "Name.Variable": "name",
    "Name.Constant": "number",
    "Name.Label": "name",
    "Literal.String": "string",
    "Literal.String.Escape": "number",
    "Literal.String.Interpol": "number",
    "Literal.Number": "number",
    "Generic.Deleted": "deleted",
    "Generic.Inserted": "inserted",
    "Generic.Heading": "keyword",
    "Generic.Subheading": "keyword",
    "Generic.Prompt": "comment",
}


def code_colour(kind: str, appearance: Appearance) -> str:
    """Returns the colour of a kind of token of code, readable on code boxes and on tints."""
    return readable(
        CODE_PALETTE[appearance.scheme][kind], appearance.scheme, (appearance.code, *appearance.tints.values())
    )


@lru_cache(maxsize=128)  # a message is written again whenever it comes into view
def highlighted(code: str, language: str) -> tuple[tuple[int, int, str], ...]:
    """Returns (start, end, kind) of what is coloured; nothing for unknown languages and for code that is too long."""
    if len(code) > LONGEST_CODE or any(len(line) > LONGEST_LINE for line in code.split("\n")):
        return ()
    lexer = _lexer(language.lower())
    if lexer is None:
        return ()
    found = ((start, text, _kind(token)) for start, token, text in lexer.get_tokens_unprocessed(code))
    return tuple((start, start + len(text), kind) for start, text, kind in found if kind and text.strip())


@cache
def _kind(token: tuple[str, ...]) -> str:
    prefixes = (".".join(token[:length]) for length in range(len(token), 0, -1))
    return next((_KINDS[prefix] for prefix in prefixes if prefix in _KINDS), "")


@cache
def _names() -> frozenset[str]:
    """Returns the aliases of the languages that Pygments knows. Plug-ins on this machine are not loaded."""
    from pygments.lexers import LEXERS  # type: ignore[import-untyped]

    return frozenset(alias for _, _, aliases, _, _ in LEXERS.values() for alias in aliases)


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # loads one module of lexers when asked for one

    return get_lexer_by_name(language) if language in _names() else None
