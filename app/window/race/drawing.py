"""Draws a race without a screen: `python -m app.window.race.drawing --png FILE --animation FILE < race.json`.

`app.race.drawing` says how it is spoken to. A process of its own, so that no window waits for it, and a terminal
command that has MLX loaded needs no Qt beside it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from app.cli import FAILURE, OK, Parser
from app.race.document import RaceError, read_race, write_file
from app.race.drawing import Drawn
from app.window.display import FirstWords, lacking
from engine.errors import RedlineError


def main(words: Sequence[str] | None = None) -> int:
    """Read, draw, write; the exit code."""
    args = _parser().parse_args(words)
    try:
        _draw(args)
    except RedlineError as error:
        print(f"redline: {error}", file=sys.stderr)
        return FAILURE
    return OK


def _draw(args: argparse.Namespace) -> None:
    """Raises RedlineError."""
    document = read_race(sys.stdin.buffer.read())
    _be_unseen()
    try:
        from PySide6.QtCore import qInstallMessageHandler
        from PySide6.QtGui import QFont
        from PySide6.QtWidgets import QApplication

        from app.window.race import pictures
    except ImportError as error:
        raise lacking(error) or RaceError(f"pictures cannot be drawn here ({error}): install Redline again") from error
    from app.window.shell.preferences import Preferences
    from app.window.shell.theme import Theme

    said = FirstWords()
    qInstallMessageHandler(said)
    application = QApplication(["redline"])
    said.end()
    if args.font:
        application.setFont(QFont(args.font))
    theme = Theme()
    theme.apply(Preferences(scheme=args.theme))
    for path, data in pictures.drawn(document, theme.look, args.png, args.animation, _tell):
        write_file(path, data)


def _be_unseen() -> None:
    """No screen is opened, whatever there is, and pictures are as large on every one."""
    for name in ("QT_SCALE_FACTOR", "QT_SCREEN_SCALE_FACTORS", "QT_FONT_DPI"):
        os.environ.pop(name, None)
    os.environ["QT_QPA_PLATFORM"] = "offscreen"


def _tell(drawn: Drawn) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(drawn) + b"\n")
    sys.stdout.buffer.flush()


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m app.window.race.drawing", description="Draws the race given on standard input.")
    add = parser.add_argument
    add("--png", type=Path, metavar="FILE", help="a picture of the end")
    add("--animation", type=Path, metavar="FILE", help="all of it: .gif, .png or .webp")
    add("--theme", choices=("light", "dark"), default="light", help="default: light")
    add("--font", metavar="FAMILY", help="of the text (default: the system's)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
