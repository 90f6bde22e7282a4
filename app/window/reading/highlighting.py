"""Code, coloured by Pygments once it is whole."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

LONGEST_CODE = 20_000  # characters; what is longer stays plain
LONGEST_LINE = 1_000  # some lexers take quadratic time on endless lines

# First match wins. Kinds are keys of `palette.CODE`.
_KINDS = (
    ("Comment.Preproc", "class"),
    ("Comment", "comment"),
    ("Keyword.Type", "class"),
    ("Keyword.Constant", "number"),
    ("Keyword", "keyword"),
    ("Operator.Word", "keyword"),
    ("Name.Builtin.Pseudo", "number"),
    ("Name.Function", "function"),
    ("Name.Builtin", "function"),
    ("Name.Decorator", "function"),
    ("Name.Class", "class"),
    ("Name.Exception", "class"),
    ("Name.Tag", "tag"),
    ("Name.Attribute", "name"),
    ("Name.Variable", "name"),
    ("Name.Constant", "number"),
    ("Name.Label", "name"),
    ("Literal.String.Escape", "number"),
    ("Literal.String.Interpol", "number"),
    ("Literal.String", "string"),
    ("Literal.Number", "number"),
    ("Generic.Deleted", "deleted"),
    ("Generic.Inserted", "inserted"),
    ("Generic.Heading", "keyword"),
    ("Generic.Subheading", "keyword"),
    ("Generic.Prompt", "comment"),
)


@lru_cache(maxsize=128)  # a message is written again whenever it comes into view
def highlighted(code: str, language: str) -> tuple[tuple[int, int, str], ...]:
    """(start, end, kind) of what is to be coloured; nothing for languages that are not known, or code too long."""
    if len(code) > LONGEST_CODE or any(len(line) > LONGEST_LINE for line in code.split("\n")):
        return ()
    lexer = _lexer(language.lower())
    if lexer is None:
        return ()
    found = ((start, text, _kind(token)) for start, token, text in lexer.get_tokens_unprocessed(code))
    return tuple((start, start + len(text), kind) for start, text, kind in found if kind and text.strip())


@cache
def _kind(token: Any) -> str:
    name = ".".join(token)
    return next((kind for prefix, kind in _KINDS if name == prefix or name.startswith(prefix + ".")), "")


@cache
def _names() -> dict[str, str]:
    """Each alias of a language that Pygments itself knows; plug-ins of the machine are not asked."""
    from pygments.lexers import LEXERS  # type: ignore[import-untyped]

    return {alias: name for _, name, aliases, _, _ in LEXERS.values() for alias in aliases}


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # loads one module of lexers when asked for one

    return get_lexer_by_name(language) if language in _names() else None
