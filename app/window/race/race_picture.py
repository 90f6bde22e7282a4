"""Pictures of a race: the board of the window, painted into an image at a moment of its replay.

    python -m app.window.race.race_picture --png FILE --animation FILE < race.json

draws a race in a process of its own, which needs no screen (`app.race.race_export` starts it). For every frame it
prints a line, a JSON array of the steps that are done and of all steps. Ending it leaves no file that was not there.
"""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
from PIL import Image
from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QApplication

from app.command_line import notify
from app.palette import Scheme
from app.race.race_animation import Animation, Progress, animate, encode, pace_of
from app.race.race_document import RaceDocument, read_race, write_file
from app.race.race_replay import Replay
from app.safe_text import guard_streams
from app.window.common import theme
from app.window.common.appearance import APPEARANCES
from app.window.race.race_board import RaceBoard
from engine.errors import RedlineError

SIZE, SCALE = (1120, 470, 1500), 2.0  # of a picture: width, least and greatest height, px
DPI = 72  # of one device pixel a px, so that viewers show the picture as large as it was meant
ANIMATION_SIZE = (960, 440, 620)


class RacePicture:
    """A race, drawn at any moment of its replay, in any order. size: (width, least height, greatest height), px; the
    picture is as high as its texts need, within these bounds. scale: device pixels of one px. pace: of the replay,
    which the picture states. Changes the appearance of the application."""

    def __init__(
        self, document: RaceDocument, scheme: Scheme, size: tuple[int, int, int], scale: float, pace: float = 1.0
    ) -> None:
        theme.show(APPEARANCES[scheme])
        QApplication.setPalette(theme.palette(APPEARANCES[scheme]))
        self.board, self._scale = RaceBoard(document, signed=True), scale
        self.board.set_pace(pace)
        self.board.setAttribute(Qt.WidgetAttribute.WA_DontShowOnScreen)
        for pane in self.board.panes:
            pane.reader.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        width, least, most = size
        self.board.setFixedSize(width, least)
        self.board.show()
        for _ in range(2):  # a higher board may show a text that wraps otherwise
            self._show(self.board.replay.end_s)
            self.board.setFixedHeight(min(self.board.height() + self.board.hidden_px(), most))

    def draw(self, time_s: float) -> Image.Image:
        """Returns the picture of this moment of the replay, in RGB."""
        self._show(time_s)
        drawn = QImage(self.board.size() * self._scale, QImage.Format.Format_RGB32)
        drawn.setDevicePixelRatio(self._scale)
        drawn.fill(QColor(theme.current().background))
        self.board.render(drawn)
        drawn = drawn.convertToFormat(QImage.Format.Format_RGB888)
        size = (drawn.width(), drawn.height())
        return Image.frombytes("RGB", size, bytes(drawn.constBits()), "raw", "RGB", drawn.bytesPerLine())

    def _show(self, time_s: float) -> None:
        """Shows a moment, and has Qt lay it out."""
        self.board.show_time(time_s)
        QCoreApplication.processEvents()


def picture(document: RaceDocument, scheme: Scheme) -> bytes:
    """Returns the end of a race as PNG, at two device pixels a px."""
    drawn = RacePicture(document, scheme, SIZE, SCALE)
    out = io.BytesIO()
    drawn.draw(drawn.board.replay.end_s).save(out, "PNG", dpi=(SCALE * DPI, SCALE * DPI))
    return out.getvalue()


def film(document: RaceDocument, scheme: Scheme, report: Progress = lambda *_: None) -> Animation:
    """Returns a race from its beginning to its end. report: is told how far it is."""
    end_s = Replay(document).end_s
    return animate(RacePicture(document, scheme, ANIMATION_SIZE, 1.0, pace_of(end_s)).draw, end_s, report)


def main(words: Sequence[str] | None = None) -> int:
    """Draws the race given on standard input. Returns the exit code."""
    guard_streams()
    parser = argparse.ArgumentParser(prog="python -m app.window.race.race_picture")
    parser.add_argument("--png", type=Path)
    parser.add_argument("--animation", type=Path)
    parser.add_argument("--theme", choices=tuple(APPEARANCES), default="light")
    args = parser.parse_args(words)
    try:
        document = read_race(sys.stdin.buffer.read())
        application = QApplication(["redline"])
        application.setStyle("Fusion")
        if args.png is not None:
            write_file(args.png, picture(document, args.theme))
        if args.animation is not None:
            ending = args.animation.suffix.lower()
            write_file(args.animation, encode(film(document, args.theme, _print), ending))
    except RedlineError as error:
        notify(str(error))
        return 1
    return 0


def _print(done: int, total: int) -> None:
    sys.stdout.buffer.write(msgspec.json.encode((done, total)) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    sys.exit(main())
