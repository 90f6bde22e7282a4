"""The colours of code: what is a keyword, a string and so on, and what these look like, both as Pygments has it."""

from functools import cache, lru_cache
from typing import Any

from PySide6.QtGui import QColor, QFont, QTextCharFormat

from app.palette import Scheme
from app.window.common.appearance import Appearance
from app.window.markdown.text_formats import readable

LONGEST_CODE = 20_000  # characters; longer code stays plain
LONGEST_LINE = 1_000  # characters; some lexers take quadratic time on endless lines

Kind = Any  # a type of token of Pygments, which has no stubs


def code_format(kind: Kind, appearance: Appearance) -> QTextCharFormat:
    """Returns the format of a kind of token of code, readable on code boxes and on tints."""
    return _format(kind, appearance.scheme, (appearance.code, *appearance.tints.values()))


@cache
def _format(kind: Kind, scheme: Scheme, grounds: tuple[str, ...]) -> QTextCharFormat:
    from pygments.styles.gh_dark import GhDarkStyle  # type: ignore[import-untyped]
    from pygments.styles.tango import TangoStyle  # type: ignore[import-untyped]

    style = (GhDarkStyle if scheme == "dark" else TangoStyle).style_for_token(kind)
    shape = QTextCharFormat()
    if style["color"]:
        shape.setForeground(QColor(readable(f"#{style['color']}", scheme, grounds)))
    if style["bold"]:
        shape.setFontWeight(QFont.Weight.DemiBold)
    shape.setFontItalic(style["italic"])
    return shape


@lru_cache(maxsize=128)  # a message is written again whenever it comes into view
def highlighted(code: str, language: str) -> tuple[tuple[int, int, Kind], ...]:
    """Returns (start, end, kind) of the tokens of code; nothing for unknown languages and for code that is too long."""
    if len(code) > LONGEST_CODE or any(len(line) > LONGEST_LINE for line in code.split("\n")):
        return ()
    lexer = _lexer(language.lower())
    found = lexer.get_tokens_unprocessed(code) if lexer is not None else ()
    return tuple((start, start + len(text), kind) for start, kind, text in found if _is_coloured(kind) and text.strip())


@cache
def _is_coloured(kind: Kind) -> bool:
    """Whether a kind differs from the rest of the code; names, operators and punctuation do not."""
    from pygments.token import Name, Operator, Punctuation, Text  # type: ignore[import-untyped]

    return kind not in (Name, Operator) and kind not in Punctuation and kind not in Text


@cache
def _names() -> frozenset[str]:
    """Returns the aliases of the languages that Pygments knows. Plug-ins on this machine are not loaded."""
    from pygments.lexers import LEXERS  # type: ignore[import-untyped]

    return frozenset(alias for _, _, aliases, _, _ in LEXERS.values() for alias in aliases)


@cache
def _lexer(language: str) -> Any:
    from pygments.lexers import get_lexer_by_name  # loads one module of lexers when asked for one

    return get_lexer_by_name(language) if language in _names() else None
