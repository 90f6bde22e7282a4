"""How pictures of a race are asked for: of a process of its own, which draws without a screen and knows no model.

The document goes in on standard input; a line of progress, `Drawn` as JSON, comes out for every frame. Killing the
process leaves no file behind that was not there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from app.protocol import Struct
from app.race.document import RaceDocument, RaceError, race_json

ANIMATIONS = (".gif", ".png", ".webp")
Say = Callable[[str], None]


class Drawn(Struct, frozen=True, kw_only=True):
    """`done` of `total` steps are over. said: what follows, for people."""

    done: int
    total: int
    said: str = ""


def command(png: Path | None, animation: Path | None, theme: str, family: str = "") -> list[str]:
    """That draws. theme: light or dark. family: of the font, "" for the system's."""
    words = [sys.executable, "-m", "app.window.race.drawing", "--theme", theme]
    for name, path in (("--png", png), ("--animation", animation)):
        if path is not None:
            words += [name, str(path.absolute())]
    return [*words, "--font", family] if family else words


def draw(document: RaceDocument, png: Path | None, animation: Path | None, theme: str, status: Say) -> None:
    """Have them drawn, and wait. status: told how far it is. Raises RaceError."""
    words = command(png, animation, theme)
    with tempfile.TemporaryFile() as said:
        try:
            process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        except OSError as error:
            raise RaceError(f"the pictures could not be drawn ({error.strerror})") from error
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # it says why on standard error
                process.stdin.write(race_json(document))
                process.stdin.close()
            for line in process.stdout:
                drawn = msgspec.json.decode(line, type=Drawn)
                status(f"{drawn.said}: {drawn.done} of {drawn.total}")
        said.seek(0)
        errors = said.read().decode(errors="replace")
    if process.returncode:
        raise RaceError(why_not(errors, process.returncode))


def why_not(errors: str, code: int) -> str:
    """Why nothing was drawn. errors: all that the process said on standard error. code: it ended with."""
    lines = errors.strip().splitlines()
    return lines[-1].removeprefix("redline: ") if lines else f"the process that draws ended with code {code}"
