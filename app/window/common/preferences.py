"""What the reader chose about the window, and the window's own memory: plain values, kept by the store as JSON.

A value that cannot be read is as good as none: what is kept here is convenience, never the user's words.
"""

from __future__ import annotations

from typing import Literal, TypeVar

import msgspec

from app.protocol import Struct
from app.store.records import Attachment

PREFERENCES = "preferences"
PLACES = "window"
DRAFT = "draft/{}"  # of a conversation; of 0 what is written in none yet

SMALLEST, LARGEST = -3, 8  # steps of the text size
STEP = 1.1

Follow = Literal["system", "light", "dark"]
Side = Literal["", "inspector", "chat settings"]
Motion = Literal["system", "reduced", "full"]


class Preferences(Struct, frozen=True, kw_only=True):
    """zoom: steps of the text size, 0 is normal. motion: whether things may move. unload_minutes: without
    use, after which models give their memory back; 0 is never."""

    scheme: Follow = "system"
    zoom: int = 0
    tints: bool = True
    show_refused: bool = msgspec.field(name="ghosts", default=False)
    motion: Motion = "system"
    announce: bool = True
    unload_minutes: int = 30

    @property
    def scale(self) -> float:
        """What the text size is multiplied by."""
        return float(STEP ** max(SMALLEST, min(LARGEST, self.zoom)))


class Places(Struct, frozen=True, kw_only=True):
    """Where the window's parts were. geometry: QWidget.saveGeometry in base64. side: what stood at the right."""

    geometry: str = ""
    sidebar: bool = True
    sidebar_width: int = 0
    side: Side = ""
    side_width: int = 0


class Draft(Struct, frozen=True, kw_only=True):
    """What stands in the composer of a conversation and was not sent."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.text or self.attachments)


Kept = TypeVar("Kept", Preferences, Places, Draft)


def read(text: str | None, kind: type[Kept]) -> Kept:
    """A value as it was kept; a new one where there is none, or none that can be read."""
    if not text:
        return kind()
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return kind()


def written(value: Preferences | Places | Draft) -> str:
    """A value as it is kept."""
    return msgspec.json.encode(value).decode()
