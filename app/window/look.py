"""Colours, fonts and measures of the window, for light and dark: the one place that knows them.

Tints are those of the terminal (`app.style`), Okabe-Ito hues at 30 % over the background, so that a kind of token looks
the same everywhere; the second cue (solid or dotted underline) never leaves them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from app.style import TEXT, TINTS
from engine.events import Origin

Scheme = Literal["light", "dark"]

GAP = 8  # px, the step all distances are multiples of
TEXT_WIDTH = 760  # px, the widest column of text that reads well
SIDEBAR_WIDTH = 248
INSPECTOR_WIDTH = 320
READABLE = 4.5  # contrast that WCAG 2 asks of text


@dataclass(frozen=True)
class Look:
    """Every colour as "#rrggbb". hairline: between parts. raised: cards, the composer. faint: text beside the text.
    on_accent: text on a fill of the accent. scale: of all text, by the reader's wish."""

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
    scale: float = 1.0

    def px(self, size: float) -> int:
        """The height of a font, px at scale 1, at the reader's scale."""
        return max(8, round(size * self.scale))


HUES: dict[Origin, str] = {"accepted": "#009E73", "corrected": "#D55E00", "bonus": "#56B4E9"}

LIGHT = Look(
    scheme="light",
    background="#ffffff",
    sidebar="#f5f5f7",
    raised="#f7f7f8",
    hover="#ececef",
    hairline="#e0e0e4",
    text=TEXT["light"].rgb,
    faint="#68686d",
    accent="#0a66d8",
    on_accent="#ffffff",
    good="#00734f",
    warning="#8a5a00",
    error="#c0271d",
    code="#f4f4f6",
    tints={kind: tint.rgb for kind, tint in TINTS["light"].items()},
    hues=HUES,
)
DARK = Look(
    scheme="dark",
    background="#1e1e20",
    sidebar="#28282b",
    raised="#2a2a2d",
    hover="#353539",
    hairline="#3a3a3e",
    text=TEXT["dark"].rgb,
    faint="#a1a1a6",
    accent="#4c9dff",
    on_accent="#000000",
    good="#4cc9a0",
    warning="#e5b45a",
    error="#ff7a70",
    code="#252528",
    tints={kind: tint.rgb for kind, tint in TINTS["dark"].items()},
    hues=HUES,
)
LOOKS: dict[Scheme, Look] = {"light": LIGHT, "dark": DARK}


def with_accent(look: Look, accent: str) -> Look:
    """`look` in the system's accent, moved towards the text's colour until it can be read on the background."""
    for step in range(11):
        moved = mix(accent, look.text, step / 10)
        if contrast(moved, look.background) >= READABLE:
            break
    on = max(("#ffffff", "#000000"), key=lambda colour: contrast(colour, moved))
    return replace(look, accent=moved, on_accent=on)


def mix(colour: str, other: str, share: float) -> str:
    """`colour` with `share` of `other` in it, 0 to 1."""
    pairs = zip(_channels(colour), _channels(other), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in pairs)


def contrast(colour: str, other: str) -> float:
    """Between 1 and 21, as WCAG 2 defines it."""
    light, dark = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
