"""Has pictures of a race drawn: by a process of its own, in which Qt paints the board of the window and no screen is
needed. Neither the terminal nor the window waits for Qt to draw, and the terminal does not load it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from app.command_line import NOTICE
from app.palette import Scheme
from app.race.race_document import RaceDocument, RaceError, race_json

NO_SCREEN = {"QT_QPA_PLATFORM": "offscreen"}  # the environment of the process
UNEXPECTED = "the process that draws ended unexpectedly"


def drawing_command(png: Path | None, animation: Path | None, scheme: Scheme) -> list[str]:
    """Returns the command that draws the race it is given as JSON. It prints how far it is: `progress_in` reads it."""
    files = {"--png": png, "--animation": animation}
    words = [word for option, path in files.items() if path is not None for word in (option, str(path.absolute()))]
    return [sys.executable, "-m", "app.window.race.race_picture", "--theme", scheme, *words]


def progress_in(line: bytes) -> tuple[int, int]:
    """Returns the steps that are done, and all steps, from a line of the process that draws."""
    return msgspec.json.decode(line, type=tuple[int, int])


def reason_in(errors: str) -> str:
    """Returns why nothing was drawn, from what the process printed as errors."""
    lines = errors.strip().splitlines()  # Qt may have warned of other things
    notices = [line.removeprefix(NOTICE) for line in lines if line.startswith(NOTICE)]
    return (notices or lines or [UNEXPECTED])[-1]


def export_pictures(
    document: RaceDocument, png: Path | None, animation: Path | None, scheme: Scheme, report: Callable[[int, int], None]
) -> None:
    """Writes the requested files, a picture of the end and an animation of all of it. report: is told how far the
    animation is. Raises RaceError."""
    command, environment = drawing_command(png, animation, scheme), os.environ | NO_SCREEN
    with tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as race:
        race.write(race_json(document))
        race.seek(0)
        with subprocess.Popen(command, stdin=race, stdout=subprocess.PIPE, stderr=errors, env=environment) as process:
            assert process.stdout is not None
            for line in process.stdout:
                report(*progress_in(line))
        if process.returncode:
            errors.seek(0)
            raise RaceError(reason_in(errors.read().decode(errors="replace")))
