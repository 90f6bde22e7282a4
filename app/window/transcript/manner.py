"""How the transcript shows what it shows, in one frozen value, and the measures that all of its parts share."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QFont, QGuiApplication

from app.window.fonts import font
from app.window.look import GAP, TEXT_WIDTH, Look

SIDE = 3 * GAP  # px, least free space beside the column
BODY, SMALL = 15, 12  # px at scale 1: what is read, and what stands beside it


@dataclass(frozen=True)
class Manner:
    """tints: tokens by their kind. raw: the source instead of Markdown. ghosts: refused draft tokens too. still:
    nothing moves that need not."""

    look: Look
    tints: bool = True
    raw: bool = False
    ghosts: bool = False
    still: bool = False

    @property
    def drawing(self) -> tuple[Look, bool, bool, bool]:
        """All that a document depends on."""
        return self.look, self.tints, self.raw, self.ghosts


def column(width: int, look: Look) -> int:
    """How wide the text may be in a window of `width`, px."""
    return max(120, min(round(TEXT_WIDTH * max(1.0, look.scale)), width - 2 * SIDE))


def document_font(look: Look) -> QFont:
    """The system's font for documents, which reckon in points."""
    made = font(look, BODY)
    made.setPointSizeF(made.pixelSize() * 72 / QGuiApplication.primaryScreen().logicalDotsPerInchY())
    return made
