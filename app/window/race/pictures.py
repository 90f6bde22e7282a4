"""A race as a picture and as an animation: a board that nobody sees, painted moment by moment."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QApplication

from app.race.document import RaceDocument
from app.race.drawing import Drawn
from app.race.frames import plan
from app.window.look import Look
from app.window.race.board import Board
from app.window.race.inks import SAME, Inks, Pixels, sparse

PNG_WIDTH, PNG_SCALE = 1120, 2.0
DPI = 72  # of one device pixel a px, so that viewers show the picture as large as it was meant
FILM_WIDTH, FILM_SCALE = 960, 1.0
TEXT_ROOM = 28  # px that are free below a text
PNG_HEIGHTS, FILM_HEIGHTS = (470, 1500), (440, 620)
COLOURS = 160  # of 256: GIF wants one to spare, for what stays from frame to frame

# By ending: what Pillow calls it, and how it is made small. WebP: one whole frame, then what changes.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    ".gif": ("GIF", {"optimize": True, "disposal": 1}),
    ".png": ("PNG", {"transparency": SAME, "blend": 1}),
    ".webp": ("WEBP", {"lossless": True, "quality": 20, "method": 2, "kmin": 200, "kmax": 400}),
}
Tell = Callable[[Drawn], None]


class Film(NamedTuple):
    """Frames of one size, no two in a row the same, in colours of one palette; stays_ms: how long each is shown."""

    frames: list[Image.Image]
    stays_ms: list[int]


def still(document: RaceDocument, look: Look) -> bytes:
    """The end of a race, as PNG, at two device pixels a px."""
    board = staged(document, look, PNG_WIDTH, PNG_HEIGHTS)
    board.show_time(board.replay.end_s)
    shown = Image.fromarray(_pixels(painted(board, PNG_SCALE)), "RGB")
    board.close()
    out = io.BytesIO()
    shown.save(out, "PNG", dpi=(PNG_SCALE * DPI, PNG_SCALE * DPI))
    return out.getvalue()


def film(document: RaceDocument, look: Look, tell: Tell = lambda _: None) -> Film:
    """All of a race, or as much as can be seen of it in a few seconds."""
    board = staged(document, look, FILM_WIDTH, FILM_HEIGHTS)
    pace, moments = plan(board.replay.end_s)
    board.set_pace(pace)
    inks = _inks(board)
    made = Film([], [])
    for number, moment in enumerate(moments):
        tell(Drawn(done=number, total=len(moments) + 1, said="drawing"))
        board.show_time(moment.time_s)
        frame = inks.image(_pixels(painted(board, FILM_SCALE)))
        if made.frames and made.frames[-1].tobytes() == frame.tobytes():
            made.stays_ms[-1] += moment.stays_ms
        else:
            made.frames.append(frame)
            made.stays_ms.append(moment.stays_ms)
    tell(Drawn(done=len(moments), total=len(moments) + 1, said="packing"))
    board.close()
    return made


def packed(made: Film, ending: str) -> bytes:
    """A film as a file. ending: one of `drawing.ANIMATIONS`."""
    kind, more = KINDS[ending]
    first, *rest = made.frames if kind != "PNG" else sparse(made.frames)
    out = io.BytesIO()
    first.save(out, kind, save_all=True, append_images=rest, duration=made.stays_ms, loop=0, **more)
    return out.getvalue()


def staged(document: RaceDocument, look: Look, width: int, heights: tuple[int, int]) -> Board:
    """A board as high as its texts need, within bounds; it is laid out, and never seen."""
    board = Board(document, look)
    board.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
    board.resize(width, heights[1])
    board.show()
    board.show_time(board.replay.end_s)
    QApplication.processEvents()
    spare = board.panes[0].reader.viewport().height() - board.text_height() - TEXT_ROOM
    board.resize(width, min(max(heights[1] - spare, heights[0]), heights[1]))
    QApplication.processEvents()
    return board


def painted(board: Board, scale: float) -> QImage:
    """What the board shows. scale: device pixels a px."""
    QApplication.processEvents()
    image = QImage(board.size() * scale, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(scale)
    board.render(image)
    return image


def _inks(board: Board) -> Inks:
    """Of what there is to be seen from the start of a race to its end."""
    shown = []
    for share in (0.0, 0.4, 0.8, 1.0):
        board.show_time(share * board.replay.end_s)
        shown.append(_pixels(painted(board, FILM_SCALE)))
    return Inks(np.concatenate(shown), COLOURS)


def _pixels(painted_: QImage) -> Pixels:
    """(height, width, 3) red, green and blue, 0 to 255."""
    rgb = painted_.convertToFormat(QImage.Format.Format_RGB888)
    rows = np.frombuffer(rgb.constBits(), np.uint8).reshape(rgb.height(), rgb.bytesPerLine())
    return rows[:, : 3 * rgb.width()].reshape(rgb.height(), rgb.width(), 3).copy()


def drawn(
    document: RaceDocument, look: Look, png: Path | None, animation: Path | None, tell: Tell
) -> Iterator[tuple[Path, bytes]]:
    """The files that are asked for, one after the other."""
    if png is not None:
        yield png, still(document, look)
    if animation is not None:
        yield animation, packed(film(document, look, tell), animation.suffix.lower())
