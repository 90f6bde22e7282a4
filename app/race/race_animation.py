"""The animation of a race: its moments, drawn one after the other, in few colours, as a GIF, a WebP or an animated PNG.

The most common colours of a race are kept exactly and all others go to their neighbours: grounds and tints stay what
they are. (Pillow's own nearest colour is off by up to 3 of 255, which turns white into grey.)
"""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from app.palette import Palette
from app.race.race_document import RaceDocument
from app.race.race_picture import RacePicture
from app.race.race_replay import Replay

Pixels = NDArray[np.uint8]
Progress = Callable[[int, int], None]  # steps that are done, and all steps

FRAME_MS = 80  # GIF counts in hundredths of a second
LONGEST_S = 9.0
HOLD_MS = 3000  # how long the end is shown
PACES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)
SIZE, SCALE = (960, 440, 620), 1.0  # width, least and greatest height, px
COLOURS = 160  # of 256: GIF needs one to spare, for pixels that stay
SAME = 255  # in place of a colour: what the frame before shows

# By ending: what Pillow calls it, and how it is made small. WebP: one whole frame, then what changes.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    ".gif": ("GIF", {"optimize": True, "disposal": 1}),
    ".png": ("PNG", {"transparency": SAME, "blend": 1}),
    ".webp": ("WEBP", {"lossless": True, "quality": 20, "method": 2, "kmin": 200, "kmax": 400}),
}


class Moment(NamedTuple):
    """A moment of the replay, and how long it is shown."""

    time_s: float
    stays_ms: int


class Animation(NamedTuple):
    """Frames of one size and one palette, no two in a row the same. stays_ms: how long each is shown."""

    frames: list[Image.Image]
    stays_ms: list[int]


def pace_of(end_s: float) -> float:
    """Returns the slowest pace, in times the real one, at which a replay takes no more than LONGEST_S."""
    return float(next((pace for pace in PACES if end_s / pace <= LONGEST_S), math.ceil(end_s / LONGEST_S)))


def moments_of(end_s: float) -> list[Moment]:
    """Returns the moments of an animation; the last is the end, and stays."""
    step_s = pace_of(end_s) * FRAME_MS / 1000
    moving = [Moment(number * step_s, FRAME_MS) for number in range(math.ceil(end_s / step_s))]
    return [*moving, Moment(end_s, HOLD_MS)]


def animate(document: RaceDocument, palette: Palette, progress: Progress = lambda *_: None) -> Animation:
    """Draws all of a race, or as much as can be seen of it in a few seconds."""
    end_s = Replay(document).end_s
    moments = moments_of(end_s)
    picture = RacePicture(document, palette, SIZE, SCALE, pace_of(end_s))
    shown = [np.asarray(picture.draw(share * end_s)) for share in (0.0, 0.4, 0.8, 1.0)]
    colours = ColourTable(np.concatenate(shown), COLOURS)
    made = Animation([], [])
    for number, moment in enumerate(moments):
        progress(number, len(moments) + 1)
        frame = colours.image(np.asarray(picture.draw(moment.time_s)))
        if made.frames and made.frames[-1].tobytes() == frame.tobytes():
            made.stays_ms[-1] += moment.stays_ms
        else:
            made.frames.append(frame)
            made.stays_ms.append(moment.stays_ms)
    progress(len(moments), len(moments) + 1)
    return made


def encode(animation: Animation, ending: str) -> bytes:
    """Returns an animation as a file. ending: one of KINDS."""
    kind, options = KINDS[ending]
    first, *rest = animation.frames if kind != "PNG" else sparse(animation.frames)
    out = io.BytesIO()
    first.save(out, kind, save_all=True, append_images=rest, duration=animation.stays_ms, loop=0, **options)
    return out.getvalue()


class ColourTable:
    """The `most` common colours of `pixels` (height, width, 3), and for every other colour the nearest of them."""

    def __init__(self, pixels: Pixels, most: int) -> None:
        codes, counts = np.unique(_codes(pixels), return_counts=True)
        kept = codes[np.argsort(-counts, kind="stable")[:most]]
        self.colours = _channels(kept)
        self._table: Pixels = np.full(1 << 24, SAME, np.uint8)
        self._table[kept] = np.arange(kept.size, dtype=np.uint8)

    def image(self, pixels: Pixels) -> Image.Image:
        """Returns the same in these colours, as an image with a palette."""
        codes = _codes(pixels)
        places = self._table[codes]
        unknown = np.unique(codes[places == SAME])
        if unknown.size:
            self._table[unknown] = self._nearest(unknown)
            places = self._table[codes]
        image = Image.frombytes("P", (pixels.shape[1], pixels.shape[0]), places.tobytes())
        image.putpalette(self.colours.astype(np.uint8).tobytes())
        return image

    def _nearest(self, codes: NDArray[np.int32]) -> Pixels:
        distances = ((_channels(codes)[:, None, :] - self.colours[None, :, :]) ** 2).sum(-1)
        nearest: Pixels = distances.argmin(-1).astype(np.uint8)
        return nearest


def sparse(frames: Sequence[Image.Image]) -> list[Image.Image]:
    """Returns each frame but the first with SAME wherever nothing has changed: runs of that take no room in a file. All
    frames have one palette, in which SAME has a place."""
    made, before = [], None
    for frame in frames:
        places = np.asarray(frame, np.uint8)
        fewer = places if before is None else np.where(places == before, SAME, places).astype(np.uint8)
        image, palette = Image.fromarray(fewer, "P"), frame.getpalette() or []
        image.putpalette([*palette, *[0] * (3 * (SAME + 1) - len(palette))])
        made.append(image)
        before = places
    return made


def _codes(pixels: Pixels) -> NDArray[np.int32]:
    """Returns a number for each colour, (height, width)."""
    wide = pixels.astype(np.int32)
    codes: NDArray[np.int32] = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    return codes


def _channels(codes: NDArray[np.int32]) -> NDArray[np.int32]:
    channels: NDArray[np.int32] = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], -1).astype(np.int32)
    return channels
