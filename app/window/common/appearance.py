"""The appearance of the window: its colours for light and dark, fonts and sizes.

No other module of the window names a colour. The terminal and pictures use the same colours (`app.palette`).
"""

from dataclasses import dataclass, replace

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication

from app.palette import PALETTES, Palette, Scheme, channels, mix

GAP = 8  # px, the unit of distances
TEXT_WIDTH = 760  # px, the widest column of text
SIDEBAR_WIDTH = 248
INSPECTOR_WIDTH = 320
READABLE = 4.5  # the contrast that WCAG 2 asks of text


@dataclass(frozen=True)
class Appearance(Palette):
    """A palette with a size of text. scale: the factor of all text sizes."""

    scale: float = 1.0

    @property
    def edge(self) -> str:
        """The colour of the line around a control, which is clearer than a hairline."""
        return mix(self.background, self.text, 0.3)

    @property
    def selection(self) -> str:
        """The background of a selected row of a list."""
        return mix(self.accent, self.background, 0.84)

    def px(self, size: float) -> int:
        """Returns the size of a font in px, at least 8. size: px at scale 1."""
        return max(8, round(size * self.scale))

    def scaled_width(self, px: int) -> int:
        """Returns the width of a widget that holds text: `px` if the text is of normal size or smaller, and more if it
        is larger."""
        return round(px * max(1.0, self.scale))

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
    """Returns `appearance` with this accent, mixed with the colour of text until it is readable on the background."""
    for step in range(11):
        moved = mix(accent, appearance.text, step / 10)
        if contrast(moved, appearance.background) >= READABLE:
            break
    on = max(("#ffffff", "#000000"), key=lambda colour: contrast(colour, moved))
    return replace(appearance, accent=moved, on_accent=on)


def contrast(colour: str, other: str) -> float:
    """Returns the contrast ratio of two colours as WCAG 2 defines it, 1 to 21."""
    light, dark = sorted((_luminance(colour), _luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in channels(colour))]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
