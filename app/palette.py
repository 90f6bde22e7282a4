"""The colours of Redline for light and dark, shared by the window, the terminal and the pictures of a race.

The tints of tokens are Okabe-Ito hues at 30 % over the background: the contrast with the text is at least 8.5 : 1. A
second cue always goes with a tint: a solid underline for corrected tokens, a dotted one for bonus tokens.
"""

from dataclasses import dataclass
from typing import Literal

from engine.events import Origin

Scheme = Literal["light", "dark"]

TEXT: dict[Scheme, str] = {"light": "#1d1d1f", "dark": "#f5f5f5"}
HUES: dict[Origin, str] = {"accepted": "#009E73", "corrected": "#D55E00", "bonus": "#56B4E9"}
TINTS: dict[Scheme, dict[Origin, str]] = {
    "light": {"accepted": "#b2e2d5", "corrected": "#f2cfb2", "bonus": "#cce8f8"},
    "dark": {"accepted": "#154438", "corrected": "#553115", "bonus": "#2f4b5b"},
}


@dataclass(frozen=True)
class Palette:
    """Every colour is "#rrggbb". hairline separates parts; raised is the ground of cards and of the composer; faint is
    for secondary text; on_accent for text on a fill of the accent."""

    scheme: Scheme
    background: str
    sidebar: str
    raised: str
    hover: str
    hairline: str
    text: str
    faint: str
    accent: str
    on_accent: str
    good: str
    warning: str
    error: str
    code: str
    tints: dict[Origin, str]
    hues: dict[Origin, str]

    def colour(self, tone: str) -> str:
        """Returns the colour named `tone`, which is a field that holds one colour."""
        return str(getattr(self, tone))


_COLOURS = {  # in light and in dark
    "background": ("#ffffff", "#1e1e20"),
    "sidebar": ("#f5f5f7", "#28282b"),
    "raised": ("#f7f7f8", "#2a2a2d"),
    "hover": ("#ececef", "#353539"),
    "hairline": ("#e0e0e4", "#3a3a3e"),
    "faint": ("#68686d", "#a1a1a6"),
    "accent": ("#0a66d8", "#4c9dff"),
    "on_accent": ("#ffffff", "#000000"),
    "good": ("#00734f", "#4cc9a0"),
    "warning": ("#8a5a00", "#e5b45a"),
    "error": ("#c0271d", "#ff7a70"),
    "code": ("#f4f4f6", "#252528"),
}

PALETTES: dict[Scheme, Palette] = {
    scheme: Palette(
        scheme=scheme,
        text=TEXT[scheme],
        tints=TINTS[scheme],
        hues=HUES,
        **{name: colours[place] for name, colours in _COLOURS.items()},
    )
    for place, scheme in enumerate(TINTS)
}


def mix(colour: str, other: str, share: float) -> str:
    """Returns `colour` with `share` of `other` in it, 0 to 1."""
    pairs = zip(channels(colour), channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def channels(colour: str) -> tuple[int, int, int]:
    """Returns red, green and blue, 0 to 255."""
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
