"""Writes a race to files: a picture of its end, or an animation of all of it. `RacePicture` draws both.

The terminal calls it. The window runs it as a process, `python -m app.race.race_export --animation FILE < race.json`,
so that the window goes on meanwhile: for every frame the process prints a line, a JSON array of the steps that are done
and of all steps. Ending the process leaves no file that was not there.
"""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from PIL import Image, ImageChops

from app.command_line import notify
from app.palette import PALETTES, Palette, Scheme
from app.race.race_document import RaceDocument, read_race, write_file
from app.race.race_picture import RacePicture
from app.race.race_replay import Replay
from app.safe_text import guard_streams
from engine.errors import RedlineError

SIZE, SCALE = (1120, 470, 1500), 2.0  # of a picture: width, least and greatest height, px
DPI = 72  # of one device pixel a px, so that viewers show the picture as large as it was meant
ANIMATION_SIZE = (960, 440, 620)
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


def export_pictures(
    document: RaceDocument, png: Path | None, animation: Path | None, scheme: Scheme, report: Progress
) -> None:
    """Writes the requested files. report: is told how far the animation is. Raises RaceError."""
    palette = PALETTES[scheme]
    if png is not None:
        write_file(png, picture(document, palette))
    if animation is not None:
        write_file(animation, encode(animate(document, palette, report), animation.suffix.lower()))


def picture(document: RaceDocument, palette: Palette) -> bytes:
    """Returns the end of a race as PNG, at two device pixels a px."""
    drawn = RacePicture(document, palette, SIZE, SCALE)
    out = io.BytesIO()
    drawn.draw(drawn.replay.end_s).save(out, "PNG", dpi=(SCALE * DPI, SCALE * DPI))
    return out.getvalue()


def pace_of(end_s: float) -> float:
    """Returns the slowest pace, in times the real one, at which a replay takes no more than LONGEST_S."""
    return float(next((pace for pace in PACES if end_s / pace <= LONGEST_S), math.ceil(end_s / LONGEST_S)))


def moments_of(end_s: float) -> list[float]:
    """Returns the seconds of the replay that an animation shows, each for FRAME_MS; the last is the end, and stays for
    HOLD_MS."""
    step_s = pace_of(end_s) * FRAME_MS / 1000
    return [*(number * step_s for number in range(math.ceil(end_s / step_s))), end_s]


def animate(document: RaceDocument, palette: Palette, report: Progress = lambda *_: None) -> Animation:
    """Draws a race from its beginning to its end, in few colours."""
    end_s = Replay(document).end_s
    moments = moments_of(end_s)
    drawn = RacePicture(document, palette, ANIMATION_SIZE, 1.0, pace_of(end_s))
    colours = common_colours([drawn.draw(share * end_s) for share in (0.0, 0.4, 0.8, 1.0)], COLOURS)
    made = Animation([], [])
    for number, time_s in enumerate(moments):
        report(number, len(moments) + 1)
        frame = drawn.draw(time_s).quantize(palette=colours, dither=Image.Dither.NONE)
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


def main(words: Sequence[str] | None = None) -> int:
    """Draws the race given on standard input. Returns the exit code."""
    guard_streams()
    parser = argparse.ArgumentParser(prog="python -m app.race.race_export")
    parser.add_argument("--png", type=Path)
    parser.add_argument("--animation", type=Path)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    args = parser.parse_args(words)
    try:
        export_pictures(read_race(sys.stdin.buffer.read()), args.png, args.animation, args.theme, _print)
    except RedlineError as error:
        notify(str(error))
        return 1
    return 0


def _print(done: int, total: int) -> None:
    sys.stdout.buffer.write(msgspec.json.encode((done, total)) + b"\n")
    sys.stdout.buffer.flush()


def _apart(colour: Colour, other: Colour) -> bool:
    """Whether a colour is found as itself though `other` is in the palette too."""
    looked_up = [channel & ~3 for channel in colour]
    return math.dist(looked_up, colour) < math.dist(looked_up, other)


if __name__ == "__main__":
    sys.exit(main())
