"""The appearance of the window: colours for light and dark, fonts and measures. Nothing else knows a colour.

The colours are those of the terminal and of pictures too (`app.palette`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication

from app.palette import PALETTES, Palette, Scheme, channels, mix

GAP = 8  # px; distances are multiples of it
TEXT_WIDTH = 760  # px, the widest column of text that reads well
SIDEBAR_WIDTH = 248
INSPECTOR_WIDTH = 320
READABLE = 4.5  # the contrast that WCAG 2 asks of text


@dataclass(frozen=True)
class Appearance(Palette):
    """A palette with the size of the text. scale: multiplies the size of all text."""

    scale: float = 1.0

    @property
    def edge(self) -> str:
        """The line around a control, which must be seen better than a hairline."""
        return mix(self.background, self.text, 0.3)

    @property
    def selection(self) -> str:
        """The ground of a selected row of a list."""
        return mix(self.accent, self.background, 0.84)

    def px(self, size: float) -> int:
        """Returns the height of a font in px: `size` at scale 1, never below 8."""
        return max(8, round(size * self.scale))

    def font(self, size: float = 13, weight: QFont.Weight = QFont.Weight.Normal) -> QFont:
        """Returns the system's font, with tabular figures where it has them. size: px at scale 1."""
        made = QFont(QApplication.font())
        made.setPixelSize(self.px(size))
        made.setWeight(weight)
        made.setFeature(QFont.Tag("tnum"), 1)
        return made


LIGHT, DARK = (Appearance(**vars(PALETTES[scheme])) for scheme in ("light", "dark"))
APPEARANCES: dict[Scheme, Appearance] = {"light": LIGHT, "dark": DARK}


def with_accent(appearance: Appearance, accent: str) -> Appearance:
    """Returns `appearance` with this accent, moved towards the text's colour until it is readable on the background."""
    for step in range(11):
        moved = mix(accent, appearance.text, step / 10)
        if contrast(moved, appearance.background) >= READABLE:
            break
    on = max(("#ffffff", "#000000"), key=lambda colour: contrast(colour, moved))
    return replace(appearance, accent=moved, on_accent=on)


def contrast(colour: str, other: str) -> float:
    """Returns the contrast of two colours as WCAG 2 defines it, between 1 and 21."""
    light, dark = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
