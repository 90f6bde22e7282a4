"""What stands within a line: emphasis, code, links, images, formulas, as runs of styled text that know their places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from markdown_it.token import Token
from markdown_it.utils import EnvType
from PySide6.QtCore import QUrl

from app.window.markdown.formula_text import readable
from app.window.markdown.links import safe_link
from app.window.markdown.text_formats import Style
from app.window.markdown.traced_parser import Traced, parser

IMAGE_NOTE = " (image not loaded)"


class Run(NamedTuple):
    """Text of one style; line breaks are "\\n"."""

    text: Traced
    style: Style


def inline_runs(content: Traced, environment: EnvType, style: Style) -> Iterator[Run]:
    """Parses `content`. style: of what has none of its own."""
    tokens: list[Token] = []
    parser().inline.parse(content, parser(), environment, tokens)
    return _runs(tokens, content, style)


def _runs(tokens: Iterable[Token], content: Traced, style: Style) -> Iterator[Run]:
    around: list[Style] = []
    for token in tokens:
        if token.nesting > 0:
            around.append(style)
            style = _opened(token, style)
        elif token.nesting < 0:
            style = around.pop() if around else style
        elif token.type == "image":
            yield from _image(token, content, style)
        elif token.type == "maths":
            start = token.meta["at"]
            yield Run(readable(content.part(start, start + len(token.content)).strip()), replace(style, italic=True))
        elif token.type == "code_inline":
            start = _code_start(token, content)
            text = Traced(token.content, content.at[start : start + len(token.content)])
            yield Run(text, replace(style, mono=True, boxed=True))
        elif text := _text(token, content):
            yield Run(text, style)


def _opened(token: Token, style: Style) -> Style:
    if token.type == "link_open":
        address = safe_link(str(token.attrs["href"]))
        return replace(style, link=address.toString(QUrl.ComponentFormattingOption.FullyEncoded) if address else "")
    if token.type == "strong_open":
        return replace(style, bold=True)
    return replace(style, struck=True) if token.type == "s_open" else replace(style, italic=True)


def _text(token: Token, content: Traced) -> Traced:
    """Returns the text of a text, an escape, an entity or a line break."""
    start = token.meta["at"]
    text = "\n" if token.type in ("softbreak", "hardbreak") else token.content
    if token.type == "text_special" and text != token.markup:
        start += token.info == "escape"
        return Traced(text, [content.at[start]] * len(text))
    return Traced(text, content.at[start : start + len(text)])


def _code_start(token: Token, content: Traced) -> int:
    """Returns where the text of a code span begins: after its backticks, and a space that may have been cut off."""
    start: int = token.meta["at"] + len(token.markup)
    whole = content[start : start + len(token.content)].replace("\n", " ")
    return start if whole == token.content else start + 1


def _image(token: Token, content: Traced, style: Style) -> Iterator[Run]:
    """Yields the alternative text of an image, and that it was not loaded."""
    start = token.meta["at"] + len("![")
    shown = replace(style, italic=True)
    label = content.part(start, start + len(token.content))
    runs = [Run(run.text, shown) for run in _runs(token.children or (), label, shown)]
    yield from runs or [Run(Traced("image", [-1] * 5), shown)]
    yield Run(Traced(IMAGE_NOTE, [-1] * len(IMAGE_NOTE)), replace(style, faint=True, link=""))
