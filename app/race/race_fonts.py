"""Text for the pictures of a race: the system's sans serif, with other fonts for characters that it lacks."""

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


class Fonts:
    """Measures and draws lines of text. Lengths and sizes are px at scale 1; `scale` device pixels are one px."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def width(self, text: str, size: float, bold: bool = False) -> float:
        """Returns the width of a line of text."""
        return sum(font.getlength(part) for font, part in self._parts(text, size, bold)) / self.scale

    def draw(
        self, painter: ImageDraw.ImageDraw, at: tuple[float, float], text: str, colour: str, size: float, bold: bool
    ) -> None:
        """Draws a line of text with its baseline at the left end `at`."""
        x, y = (length * self.scale for length in at)
        for font, part in self._parts(text, size, bold):
            painter.text((x, y), part, colour, font, anchor="ls")
            x += font.getlength(part)

    def elided(self, text: str, size: float, room: float, bold: bool = False) -> str:
        """Returns `text`, cut with an ellipsis if it is wider than `room`."""
        if self.width(text, size, bold) <= room:
            return text
        while text and self.width(f"{text}…", size, bold) > room:
            text = text[:-1]
        return f"{text.rstrip()}…"

    def wrapped(self, text: str, size: float, room: float) -> list[str]:
        """Returns the lines of a text that is wrapped to `room`."""
        lines = [""]
        for word in text.split():
            longer = f"{lines[-1]} {word}".strip()
            if lines[-1] and self.width(longer, size) > room:
                lines.append(word)
            else:
                lines[-1] = longer
        return lines

    def _parts(self, text: str, size: float, bold: bool) -> Iterator[tuple[Font, str]]:
        """Cuts a text where another font has to be used."""
        chain = _chain(size * self.scale, bold)
        if text.isascii():
            yield chain[0], text
            return
        for place, characters in groupby(text, key=lambda one: _place(one, size * self.scale, bold)):
            yield chain[place], "".join(characters)


@lru_cache(maxsize=64)
def _chain(size: float, bold: bool) -> tuple[Font, ...]:
    """Returns the main font and its fallbacks. Pillow's own is the last resort."""
    main = [font for face in (_BOLD if bold else _REGULAR) if (font := _open(face, size))]
    others = [font for face in _OTHERS if (font := _open(face, size))]
    default = ImageFont.load_default(size)
    assert isinstance(default, Font)
    return (*main[:1], *others, default)


@lru_cache(maxsize=4096)
def _place(character: str, size: float, bold: bool) -> int:
    """Returns which font has the character; the first, if none has."""
    chain = _chain(size, bold)
    return next((place for place, font in enumerate(chain) if character.isspace() or _has(font, character)), 0)


def _has(font: Font, character: str) -> bool:
    """Whether a font has a glyph of its own: Pillow cannot tell, but the glyph for unknown characters is known."""
    return bytes(font.getmask(character)) != bytes(font.getmask(_UNDEFINED))


def _open(face: tuple[str, int], size: float) -> Font | None:
    try:
        return ImageFont.truetype(face[0], size, face[1])
    except OSError:
        return None
