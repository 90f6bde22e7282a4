"""Fonts for the pictures of a race: the system's sans serif, with other fonts for characters that it lacks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import groupby

from PIL import ImageDraw, ImageFont

Font = ImageFont.FreeTypeFont

# (file, index of the face): Pillow looks for a bare name in the folders of the system.
_REGULAR = (("SFNS.ttf", 0), ("Helvetica.ttc", 0), ("DejaVuSans.ttf", 0), ("NotoSans-Regular.ttf", 0))
_BOLD = (("Helvetica.ttc", 1), ("DejaVuSans-Bold.ttf", 0), ("NotoSans-Bold.ttf", 0))
_OTHERS = (
    *(("Arial Unicode.ttf", 0), ("Apple Symbols.ttf", 0), ("PingFang.ttc", 0)),
    *(("DejaVuSans.ttf", 0), ("NotoSansCJK-Regular.ttc", 0), ("NotoSansSymbols2-Regular.ttf", 0)),
)
_UNDEFINED = "\uffff"  # no font has this one


@lru_cache(maxsize=64)
def fonts(size: float, bold: bool = False) -> tuple[Font, ...]:
    """Returns the font for `size` px, and behind it those that help out. Pillow's own is the last resort."""
    main = next((font for font in map(_open, _BOLD if bold else _REGULAR, [size] * 9) if font), None)
    others = [font for font in map(_open, _OTHERS, [size] * 9) if font]
    default = ImageFont.load_default(size)
    assert isinstance(default, Font)
    return (*([main] if main else []), *others, default)


def width(text: str, size: float, bold: bool = False) -> float:
    """Returns the width of one line of text, px."""
    return sum(font.getlength(part) for font, part in _parts(text, size, bold))


def draw_text(
    painter: ImageDraw.ImageDraw, at: tuple[float, float], text: str, colour: str, size: float, bold: bool = False
) -> None:
    """Draws one line of text with its baseline at the left end `at`."""
    x, y = at
    for font, part in _parts(text, size, bold):
        painter.text((x, y), part, colour, font, anchor="ls")
        x += font.getlength(part)


def elided(text: str, size: float, room: float, bold: bool = False) -> str:
    """Returns `text`, cut with an ellipsis where it is wider than `room` px."""
    if width(text, size, bold) <= room:
        return text
    while text and width(f"{text}…", size, bold) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"


def _parts(text: str, size: float, bold: bool) -> Iterator[tuple[Font, str]]:
    """Cuts a text where another font has to be used."""
    chain = fonts(size, bold)
    if text.isascii():
        yield chain[0], text
        return
    for place, characters in groupby(text, key=lambda one: _place(one, size, bold)):
        yield chain[place], "".join(characters)


@lru_cache(maxsize=4096)
def _place(character: str, size: float, bold: bool) -> int:
    """Returns which font has the character; the first, where none has."""
    chain = fonts(size, bold)
    return next((place for place, font in enumerate(chain) if character.isspace() or _has(font, character)), 0)


def _has(font: Font, character: str) -> bool:
    """Whether a font has a glyph of its own: Pillow cannot tell, but the glyph for unknown characters is known."""
    return bytes(font.getmask(character)) != bytes(font.getmask(_UNDEFINED))


def _open(face: tuple[str, int], size: float) -> Font | None:
    try:
        return ImageFont.truetype(face[0], size, face[1])
    except OSError:
        return None
