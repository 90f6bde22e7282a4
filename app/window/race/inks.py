"""The few colours of an animation. The commonest of a race, each as it is: grounds and tints stay what they are, and
edges of letters go to their neighbours. (Pillow's own nearest colour is off by up to 3 of 255, which makes white grey.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
SAME = 255  # in place of a colour: what the frame before shows; so there are at most 255 colours


class Inks:
    """pixels: (height, width, 3), in which colours are counted. most: of them are kept."""

    def __init__(self, pixels: Pixels, most: int) -> None:
        codes, counts = np.unique(_codes(pixels), return_counts=True)
        kept = codes[np.argsort(-counts, kind="stable")[:most]]
        self.colours: NDArray[np.int32] = np.stack([kept >> 16, kept >> 8 & 255, kept & 255], -1).astype(np.int32)
        self._table: Pixels = np.full(1 << 24, SAME, np.uint8)
        self._table[kept] = np.arange(kept.size, dtype=np.uint8)

    def image(self, pixels: Pixels) -> Image.Image:
        """The same in these colours, as an image with a palette."""
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
        wanted = np.stack([codes >> 16, codes >> 8 & 255, codes & 255], -1).astype(np.int32)
        apart = ((wanted[:, None, :] - self.colours[None, :, :]) ** 2).sum(-1)
        nearest: Pixels = apart.argmin(-1).astype(np.uint8)
        return nearest


def sparse(frames: Sequence[Image.Image]) -> list[Image.Image]:
    """Each frame but the first with SAME wherever nothing has changed: runs of that take no room in a file. All have
    one palette, as they came, in which SAME has a place."""
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
    """(height, width): a number for each colour."""
    wide = pixels.astype(np.int32)
    codes: NDArray[np.int32] = wide[..., 0] << 16 | wide[..., 1] << 8 | wide[..., 2]
    return codes
