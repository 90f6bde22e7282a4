"""Writes a race as a picture and as an animation: called by the terminal, and by the window as a process of its own.

The process, `python -m app.race.picture_export --png FILE --animation FILE < race.json`, prints a line of progress for
every frame (`ExportProgress` as JSON), so that the window goes on meanwhile. Ending it
leaves no file that was not there.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from app.palette import PALETTES, Palette, Scheme
from app.protocol import Struct
from app.race.race_document import RaceDocument, read_race, write_file
from engine.errors import RedlineError

ANIMATIONS = (".gif", ".png", ".webp")
SIZE, SCALE = (1120, 470, 1500), 2.0  # of a picture: width, least and greatest height, px
DPI = 72  # of one device pixel a px, so that viewers show the picture as large as it was meant


class ExportProgress(Struct, frozen=True, kw_only=True):
    """How many of `total` steps are done."""

    done: int
    total: int


Report = Callable[[ExportProgress], None]


def export_pictures(
    document: RaceDocument,
    png: Path | None,
    animation: Path | None,
    scheme: Scheme,
    report: Report = lambda _: None,
) -> None:
    """Writes the requested files. Raises RaceError."""
    palette = PALETTES[scheme]
    if png is not None:
        write_file(png, picture(document, palette))
    if animation is not None:
        from app.race.race_animation import animate, encode  # loads numpy

        made = animate(document, palette, lambda done, total: report(ExportProgress(done=done, total=total)))
        write_file(animation, encode(made, animation.suffix.lower()))


def picture(document: RaceDocument, palette: Palette) -> bytes:
    """Returns the end of a race as PNG, at two device pixels a px."""
    from app.race.race_picture import RacePicture  # loads Pillow

    drawn = RacePicture(document, palette, SIZE, SCALE)
    out = io.BytesIO()
    drawn.draw(drawn.replay.end_s).save(out, "PNG", dpi=(SCALE * DPI, SCALE * DPI))
    return out.getvalue()


def command(path: Path, animated: bool, scheme: Scheme) -> list[str]:
    """Returns the command of the process that draws one file."""
    words = [sys.executable, "-m", "app.race.picture_export", "--theme", scheme]
    return [*words, "--animation" if animated else "--png", str(path.absolute())]


def main(words: Sequence[str] | None = None) -> int:
    """Draws the race given on standard input. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m app.race.picture_export")
    parser.add_argument("--png", type=Path)
    parser.add_argument("--animation", type=Path)
    parser.add_argument("--theme", choices=("light", "dark"), default="light")
    args = parser.parse_args(words)
    try:
        export_pictures(read_race(sys.stdin.buffer.read()), args.png, args.animation, args.theme, _print)
    except RedlineError as error:
        print(f"redline: {error}", file=sys.stderr)
        return 1
    return 0


def _print(progress: ExportProgress) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(progress) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
