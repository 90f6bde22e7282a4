"""Colours of text that stay readable on every ground they may stand on: the page, code boxes and the tints."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from types import MappingProxyType

from app.window.look import READABLE, Look, Scheme, contrast, mix

# Wished for; `code_colours` moves them until they are readable.
CODE: dict[Scheme, dict[str, str]] = {
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


def readable(colour: str, grounds: Iterable[str], scheme: Scheme) -> str:
    """`colour`, moved towards black or white until it is readable on all `grounds`."""
    towards = "#000000" if scheme == "light" else "#ffffff"
    grounds = tuple(grounds)
    for step in range(21):
        tried = mix(colour, towards, step / 20)
        if all(contrast(tried, ground) > READABLE for ground in grounds):
            return tried
    return towards


def grounds(look: Look) -> tuple[str, ...]:
    """What text of a reply may stand on."""
    return (look.background, look.raised, look.code, look.hover, *look.tints.values())


def code_colours(look: Look) -> MappingProxyType[str, str]:
    """Colour of each kind of token of code, readable on code boxes and on tints."""
    return _code_colours(look.scheme, (look.code, *look.tints.values()))


@cache
def _code_colours(scheme: Scheme, on: tuple[str, ...]) -> MappingProxyType[str, str]:
    return MappingProxyType({kind: readable(colour, on, scheme) for kind, colour in CODE[scheme].items()})


def text_colour(wished: str, look: Look) -> str:
    """`wished`, readable wherever text of a reply may stand."""
    return _text_colour(wished, look.scheme, grounds(look))


@cache
def _text_colour(wished: str, scheme: Scheme, on: tuple[str, ...]) -> str:
    return readable(wished, on, scheme)
