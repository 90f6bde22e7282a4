"""The user's preferences and what the window remembers, as plain values that the store keeps as JSON.

A value that cannot be read is replaced by the default: only conveniences are kept here, never the user's text.
"""

from typing import Annotated, Literal, TypeVar

import msgspec

from app import task_queue
from app.api.key_file import PORT
from app.protocol import Struct
from app.store.records import Attachment

PREFERENCES = "preferences"
PLACES = "window"
DRAFT = "draft/{}"  # of a conversation by its id; 0 is a conversation that is not stored yet

SMALLEST, LARGEST = -3, 8  # steps of the text size
STEP = 1.1
LOWEST_PORT, HIGHEST_PORT = 1024, 65535  # those below are the system's

Follow = Literal["system", "light", "dark"]
Side = Literal["", "inspector", "chat settings"]
Motion = Literal["system", "reduced", "full"]


class Preferences(Struct, frozen=True, kw_only=True):
    """What the user chose. zoom: steps of the text size, 0 is normal. unload_minutes: minutes without use after which
    the models are unloaded, 0 for never. learn_replies: whether drafts may copy from earlier replies. parallel: how
    many replies may be written at once. serve: whether other programs are served, on serve_port of loopback."""

    scheme: Follow = "system"
    zoom: int = 0
    tints: bool = True
    show_refused: bool = False
    motion: Motion = "system"
    announce: bool = True
    unload_minutes: int = 30
    learn_replies: bool = True
    parallel: Annotated[int, msgspec.Meta(ge=1, le=task_queue.MOST_PLACES)] = task_queue.PLACES
    serve: bool = False
    serve_port: Annotated[int, msgspec.Meta(ge=LOWEST_PORT, le=HIGHEST_PORT)] = PORT

    @property
    def scale(self) -> float:
        """The factor of the text size."""
        return float(STEP ** max(SMALLEST, min(LARGEST, self.zoom)))


class Places(Struct, frozen=True, kw_only=True):
    """Where the parts of the window were. geometry: QWidget.saveGeometry in base64. side: the panel at the right.
    collapsed: folders of the sidebar."""

    geometry: str = ""
    sidebar: bool = True
    sidebar_width: int = 0
    side: Side = ""
    side_width: int = 0
    collapsed: tuple[str, ...] = ()


class Draft(Struct, frozen=True, kw_only=True):
    """What was typed in a conversation and not sent: text and attachments in the composer, and the new texts of
    questions that are being edited, by the question's id."""

    text: str = ""
    attachments: tuple[Attachment, ...] = ()
    edits: dict[int, str] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.text or self.attachments or self.edits)


Kept = TypeVar("Kept", Preferences, Places, Draft)


def read(text: str | None, kind: type[Kept]) -> Kept:
    """Returns a value that was kept; the default if there is none, or none that can be read."""
    if not text:
        return kind()
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return kind()


def written(value: Preferences | Places | Draft) -> str:
    """Returns a value as text to be kept."""
    return msgspec.json.encode(value).decode()
