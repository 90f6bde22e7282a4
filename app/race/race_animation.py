"""A race as an animated file: which moments it shows, its colours, and how it is made small. Pillow encodes it."""

import io
import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from PIL import Image, ImageChops

FRAME_MS = 80  # GIF counts in hundredths of a second
LONGEST_S = 9.0
HOLD_MS = 3000  # how long the end is shown
PACES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)
COLOURS = 160  # more make larger files
SAME = 255  # in place of a colour: what the frame before shows

# By ending: what Pillow calls the format, and how the file is made small. WebP: one whole frame, then what changes.
ANIMATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    ".gif": ("GIF", {}),
    ".png": ("PNG", {"transparency": SAME, "blend": 1}),
    ".webp": ("WEBP", {"lossless": True, "quality": 20, "method": 2, "kmin": 200, "kmax": 400}),
}
Progress = Callable[[int, int], None]  # takes the steps that are done, and all steps
Colour = tuple[int, int, int]


class Animation(NamedTuple):
    """Frames of one size and one palette, no two in a row the same, and how long each is shown."""

    frames: list[Image.Image]
    durations_ms: list[int]


def pace_of(end_s: float) -> float:
    """Returns the slowest pace, in times the real one, at which a replay takes no more than LONGEST_S."""
    return float(next((pace for pace in PACES if end_s / pace <= LONGEST_S), math.ceil(end_s / LONGEST_S)))


def moments_of(end_s: float) -> list[float]:
    """Returns the seconds of the replay that an animation shows, each for FRAME_MS; the last is the end, and stays for
    HOLD_MS."""
    step_s = pace_of(end_s) * FRAME_MS / 1000
    return [*(number * step_s for number in range(math.ceil(end_s / step_s))), end_s]


def animate(draw: Callable[[float], Image.Image], end_s: float, report: Progress) -> Animation:
    """Returns a race from its beginning to its end, in few colours. draw: returns the picture of a moment in RGB."""
    moments = moments_of(end_s)
    colours = common_colours([draw(share * end_s) for share in (0.0, 0.4, 0.8, 1.0)], COLOURS)
    made = Animation([], [])
    for number, time_s in enumerate(moments):
        report(number, len(moments) + 1)
        frame = draw(time_s).quantize(palette=colours, dither=Image.Dither.NONE)
        if made.frames and made.frames[-1].tobytes() == frame.tobytes():
            made.durations_ms[-1] += FRAME_MS
        else:
            made.frames.append(frame)
            made.durations_ms.append(FRAME_MS)
    made.durations_ms[-1] += HOLD_MS - FRAME_MS
    report(len(moments), len(moments) + 1)
    return made


def encode(animation: Animation, ending: str) -> bytes:
    """Returns an animation as a file. ending: one of ANIMATIONS."""
    kind, options = ANIMATIONS[ending]
    first, *rest = sparse(animation.frames) if kind == "PNG" else animation.frames
    out = io.BytesIO()
    first.save(out, kind, save_all=True, append_images=rest, duration=animation.durations_ms, loop=0, **options)
    return out.getvalue()


def common_colours(pictures: Sequence[Image.Image], most: int) -> Image.Image:
    """Returns an image whose palette holds the `most` common colours of RGB pictures; others go to the nearest of them.

    To find the nearest colour, Pillow keeps only the upper six bits of each channel. A colour is left out if for that
    reason it, or a more common one, would not be found as itself: grounds and tints stay exactly what they are.
    """
    counts = Counter[Colour]()
    for shown in pictures:
        for count, colour in shown.getcolors(shown.width * shown.height) or ():
            counts[colour] += count  # type: ignore[index]  # of an RGB picture
    kept: list[Colour] = []
    for colour, _ in counts.most_common():
        if len(kept) < most and all(_apart(colour, other) and _apart(other, colour) for other in kept):
            kept.append(colour)
    made = Image.new("P", (1, 1))
    every = kept + kept[-1:] * (SAME + 1 - len(kept))  # the first of equal colours is taken: SAME stays free
    made.putpalette([channel for colour in every for channel in colour])
    return made


def sparse(frames: Sequence[Image.Image]) -> list[Image.Image]:
    """Returns each frame but the first with SAME wherever nothing has changed, which takes little room in a file."""
    made = list(frames[:1])
    for before, frame in pairwise(frames):
        same = ImageChops.difference(before, frame).point(lambda difference: 0 if difference else 255, "L")
        fewer = frame.copy()
        fewer.paste(SAME, None, same)
        made.append(fewer)
    return made


def _apart(colour: Colour, other: Colour) -> bool:
    """Whether a colour is found as itself though `other` is in the palette too."""
    looked_up = [channel & ~3 for channel in colour]
    return math.dist(looked_up, colour) < math.dist(looked_up, other)
