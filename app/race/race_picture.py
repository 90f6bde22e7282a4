"""A race drawn by Pillow at a moment of its replay: both sides with their numbers and texts, and the comparison.

`RacePicture.draw` may be called for any moment, in any order. Lengths are in px at scale 1.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from PIL import Image, ImageDraw

from app.palette import Palette, mix
from app.protocol.race_messages import Run
from app.race import race_text
from app.race.race_document import RaceDocument
from app.race.race_fonts import Fonts
from app.race.race_replay import PaneState, Replay, State
from engine.events import Origin

MARGIN, GAP, INSET = 20, 10, 14
COMPARISON_WIDTH, LEGEND_WIDTH = 184, 240
TEXT_SIZE, LINE_HEIGHT = 15, 26
HEAD_HEIGHT = 126  # of a pane, above its text
COMPARISON_TOP, COMPARISON_HEIGHT = 40, 290  # px above what is between the panes, at least, and its greatest height
LEGEND: tuple[Origin, ...] = ("accepted", "corrected", "bonus")
NUMBERS = tuple(name.removeprefix("target ") for name in race_text.NUMBERS)
_WORDS = re.compile(r"\n|[^\S\n]+|[!-~]{1,30}|\S{1,16}")  # longer ones are broken, to fit on a line
Owner = tuple[int, Origin | None]  # of a character: its token, and the token's origin if anything was drafted


class Piece(NamedTuple):
    """A part of a token that stands on one line. x: from the left of the text. origin: None is shown plain."""

    token: int
    text: str
    origin: Origin | None
    line: int
    x: float
    width: float


class Canvas:
    """An image that is drawn on in px at scale 1."""

    def __init__(self, image: Image.Image, fonts: Fonts) -> None:
        self.image, self.fonts, self.scale = image, fonts, fonts.scale
        self._painter = ImageDraw.Draw(image)

    @classmethod
    def blank(cls, size: tuple[float, float], ground: str, fonts: Fonts) -> Canvas:
        """Returns a canvas of one colour. size: width and height."""
        width, height = (round(length * fonts.scale) for length in size)
        return cls(Image.new("RGB", (width, height), ground), fonts)

    def text(
        self,
        at: tuple[float, float],
        text: str,
        colour: str,
        size: float,
        bold: bool = False,
        side: Literal["left", "middle", "right"] = "left",
    ) -> None:
        """Draws text with its baseline at `at`, which is at the named side of the text."""
        share = {"left": 0.0, "middle": 0.5, "right": 1.0}[side]
        x = at[0] - share * self.fonts.width(text, size, bold) if share else at[0]
        self.fonts.draw(self._painter, (x, at[1]), text, colour, size, bold)

    def box(self, box: tuple[float, float, float, float], fill: str, radius: float = 0, outline: str = "") -> None:
        """Draws a rectangle (left, top, right, bottom)."""
        left, top, right, bottom = (round(edge * self.scale) for edge in box)
        edges = (left, top, max(left, right - 1), max(top, bottom - 1))
        self._painter.rounded_rectangle(edges, radius * self.scale, fill, outline or None, round(self.scale))

    def cue(self, origin: Origin | None, left: float, right: float, y: float, colour: str) -> None:
        """Draws the second cue of a token below its text."""
        if origin == "corrected":
            self.box((left, y, right, y + 1.2), colour)
        elif origin == "bonus":
            for dot in range(round((right - left) / 3.5 + 0.5)):
                x = left + 3.5 * dot
                self.box((x, y, min(x + 1.5, right), y + 1.5), colour)


class RunText:
    """The text of a run, wrapped to `room` px. It is drawn once; what is shown is cut out of that."""

    def __init__(self, run: Run, room: float, palette: Palette, fonts: Fonts) -> None:
        self._palette, self._room, self._fonts = palette, room, fonts
        self._pieces = wrapped_pieces(run, room, fonts)
        self.lines = 1 + max((piece.line for piece in self._pieces), default=0)
        self._drawn: dict[int | None, Canvas] = {}  # by the marked token

    def show(self, tokens: int, marked: int | None, mark: str) -> Image.Image | None:
        """Returns the lines that the first `tokens` reach. marked: the token that differs, on a background
        tinted with the colour `mark`."""
        count = bisect_left(self._pieces, tokens, key=lambda piece: piece.token)
        if not count:
            return None
        if marked not in self._drawn:
            self._drawn[marked] = self._draw(marked, mark)
        whole, last, scale = self._drawn[marked], self._pieces[count - 1], self._fonts.scale
        shown = Canvas.blank((self._room, LINE_HEIGHT * (last.line + 1)), self._palette.raised, self._fonts).image
        width, top = shown.width, round(LINE_HEIGHT * last.line * scale)
        shown.paste(whole.image.crop((0, 0, width, top)))
        shown.paste(whole.image.crop((0, top, round((last.x + last.width) * scale), shown.height)), (0, top))
        return shown

    def _draw(self, marked: int | None, mark: str) -> Canvas:
        look = self._palette
        canvas = Canvas.blank((self._room, LINE_HEIGHT * self.lines), look.raised, self._fonts)
        for piece in self._pieces:
            top, right = LINE_HEIGHT * piece.line, piece.x + piece.width
            if piece.token == marked or piece.origin is not None:
                own = piece.token != marked and piece.origin
                ground = look.tints[own] if own else mix(look.background, mark, race_text.MARKED)
                canvas.box((piece.x, top + 3, right, top + LINE_HEIGHT - 4), ground)
            canvas.text((piece.x, top + 18), piece.text, look.text, TEXT_SIZE)
            canvas.cue(piece.origin, piece.x, right, top + 20.5, look.text)
        return canvas


class RacePicture:
    """A race, drawn at any moment of its replay. size: (width, least height, greatest height); the picture is as high
    as its texts need, within these bounds. pace: of the replay, which the picture states."""

    def __init__(
        self, document: RaceDocument, palette: Palette, size: tuple[int, int, int], scale: float, pace: float = 1.0
    ) -> None:
        self.replay, self._palette, self._fonts = Replay(document), palette, Fonts(scale)
        self._mark = palette.colour(race_text.mark_tone(self.replay.receipt))
        self._width, least, most = size
        self._pane_width = (self._width - 2 * MARGIN - COMPARISON_WIDTH) / 2
        self._lefts = (MARGIN, MARGIN + self._pane_width + COMPARISON_WIDTH)
        room = self._pane_width - 2 * INSET
        self._texts = [RunText(track.run, room, palette, self._fonts) for track in self.replay.tracks]
        about = race_text.about(document, pace)
        self._about = self._fonts.wrapped(about, 11.5, self._width - 2 * MARGIN - LEGEND_WIDTH)
        self._top = MARGIN + 24 + GAP  # below the prompt
        below = GAP + 16 * len(self._about) + 24 + MARGIN
        texts = HEAD_HEIGHT + LINE_HEIGHT * max(text.lines for text in self._texts) + INSET
        needed = self._top + max(texts, COMPARISON_TOP + COMPARISON_HEIGHT) + below
        self.height = round(min(max(needed, least), most))
        self._bottom = self.height - below
        self._columns = self._number_places()
        self._frame = self._draw_frame()

    def draw(self, time_s: float) -> Image.Image:
        """Returns the picture of this moment of the replay."""
        state, canvas = self.replay.at(time_s), Canvas(self._frame.copy(), self._fonts)
        for left, pane, text in zip(self._lefts, state.panes, self._texts, strict=True):
            self._draw_progress(canvas, left, pane)
            if shown := text.show(pane.tokens, state.differs_at, self._mark):
                self._draw_text(canvas, left, shown)
        self._draw_sameness(canvas, state)
        return canvas.image

    # --- what stays ------------------------------------------------------------------------------

    def _draw_frame(self) -> Image.Image:
        look, document = self._palette, self.replay.document
        canvas = Canvas.blank((self._width, self.height), look.background, self._fonts)
        prompt = f"“{' '.join(document.prompt.split())}”"
        prompt = self._fonts.elided(prompt, 17, self._width - 2 * MARGIN, bold=True)
        canvas.text((MARGIN, MARGIN + 15), prompt, look.text, 17, bold=True)
        greedy, names = document.sampling.temperature == 0, race_text.names(document.sides)
        for left, name, one in zip(self._lefts, names, document.sides, strict=True):
            self._draw_pane(canvas, left, printable(name), printable(race_text.details(one, greedy)))
        self._draw_speedups(canvas)
        self._draw_foot(canvas)
        return canvas.image

    def _draw_pane(self, canvas: Canvas, left: float, name: str, detail: str) -> None:
        look, top = self._palette, self._top
        canvas.box((left, top, left + self._pane_width, self._bottom), look.raised, 12, look.hairline)
        canvas.text((left + INSET, top + 28), name, look.text, 16, bold=True)
        detail = self._fonts.elided(detail, 12, self._pane_width - 2 * INSET)
        canvas.text((left + INSET, top + 50), detail, look.faint, 12)
        for x, number in zip(self._columns, NUMBERS, strict=True):
            canvas.text((left + x, top + 108), number, look.faint, 11)

    def _number_places(self) -> list[float]:
        """Returns where the numbers stand in a pane: columns as wide as they need to be, with even gaps between."""
        widest = zip(NUMBERS, *(race_text.widest_numbers(track.run) for track in self.replay.tracks), strict=True)
        widths = [
            max(self._fonts.width(name, 11), *(self._fonts.width(value, 15, bold=True) for value in values))
            for name, *values in widest
        ]
        gap = (self._pane_width - 2 * INSET - sum(widths)) / (len(NUMBERS) - 1)
        return [INSET + sum(widths[:place]) + gap * place for place in range(len(NUMBERS))]

    def _draw_speedups(self, canvas: Canvas) -> None:
        look, results, x = self._palette, self.replay.results, self._width / 2
        height = self._bottom - self._top
        y = self._top + max(COMPARISON_TOP, min(height * 0.24, height - COMPARISON_HEIGHT))
        for found, what, size in (
            (results.total, "wall-clock speed-up", 44),
            (results.decode, "decode speed-up", 26),
        ):
            y += size * 0.8
            colour = look.colour(race_text.speedup_tone(found))
            canvas.text((x, y), race_text.speedup(found and found.median), colour, size, bold=True, side="middle")
            y += 19
            canvas.text((x, y), what, look.faint, 12, side="middle")
            if found is not None and results.pairs > 1:
                y += 15
                canvas.text((x, y), race_text.spread(found), look.faint, 11, side="middle")
            y += 14
        for line in race_text.medians_of(results.pairs).split(", "):
            y += 14
            canvas.text((x, y), line, look.faint, 11, side="middle")
        y += 18
        canvas.box((x - COMPARISON_WIDTH / 2 + 8, y, x + COMPARISON_WIDTH / 2 - 8, y + 1), look.hairline)
        self._sameness_y = y + 42

    def _draw_foot(self, canvas: Canvas) -> None:
        look, y, right = self._palette, self._bottom + GAP + 12, self._width - MARGIN
        x: float = right
        for kind in reversed(LEGEND):
            left = x - self._fonts.width(kind, 12) - 8
            canvas.box((left, y - 13, x, y + 5), look.tints[kind], 3)
            canvas.text((left + 4, y), kind, look.text, 12)
            canvas.cue(kind, left + 4, x - 4, y + 2, look.text)
            x = left - 6
        for place, line in enumerate(self._about):
            canvas.text((MARGIN, y + 16 * place), line, look.faint, 11.5)
        y = self.height - MARGIN - 4
        made_with = printable(race_text.made_with(self.replay.document))
        canvas.text((MARGIN, y), self._fonts.elided(made_with, 11.5, right - MARGIN - 80), look.faint, 11.5)
        canvas.text((right, y), "Redline", look.faint, 13, bold=True, side="right")

    # --- what changes ----------------------------------------------------------------------------

    def _draw_progress(self, canvas: Canvas, left: float, pane: PaneState) -> None:
        look, top, right = self._palette, self._top, left + self._pane_width - INSET
        clock = f"{pane.clock_s:.1f} s"
        canvas.text((right, top + 28), clock, look.good if pane.done else look.text, 16, bold=True, side="right")
        start = left + INSET
        canvas.box((start, top + 60, right, top + 68), look.hairline, 4)
        if pane.share:
            end = start + max(8.0, (right - start) * pane.share)
            canvas.box((start, top + 60, end, top + 68), look.good if pane.done else look.accent, 4)
        for x, value in zip(self._columns, race_text.numbers(pane), strict=True):
            canvas.text((left + x, top + 92), value, look.text, 15, bold=True)

    def _draw_text(self, canvas: Canvas, left: float, text: Image.Image) -> None:
        """Draws the end of the text, if there is no room for all of it."""
        scale, top = self._fonts.scale, self._top + HEAD_HEIGHT
        above = max(0, text.height - round((self._bottom - top - INSET) * scale))
        shown = text.crop((0, above, text.width, text.height))
        canvas.image.paste(shown, (round((left + INSET) * scale), round(top * scale)))

    def _draw_sameness(self, canvas: Canvas, state: State) -> None:
        look, differs = self._palette, state.differs_at is not None
        x, y = self._width / 2, self._sameness_y
        canvas.text((x, y), str(state.identical), self._mark if differs else look.good, 26, bold=True, side="middle")
        caption = race_text.sameness(self.replay, state)
        for place, line in enumerate(self._fonts.wrapped(caption, 12, COMPARISON_WIDTH - 16)):
            canvas.text((x, y + 20 + 16 * place), line, look.text if differs else look.faint, 12, side="middle")


def wrapped_pieces(run: Run, room: float, fonts: Fonts) -> list[Piece]:
    """Returns the text of a run in pieces of tokens, wrapped to `room` px, in order."""
    text, owners = _text_of(run)
    pieces, line, x = list[Piece](), 0, 0.0
    for found in _WORDS.finditer(text):
        word = found[0]
        if word == "\n":
            line, x = line + 1, 0.0
            continue
        if x and not word.isspace() and x + fonts.width(word, TEXT_SIZE) > room:
            line, x = line + 1, 0.0
            if pieces and pieces[-1].text.isspace():
                pieces.pop()
        for (token, origin), part in _by_token(word, owners[found.start() : found.end()]):
            width = fonts.width(part, TEXT_SIZE)
            if x + width <= room or not part.isspace():
                pieces.append(Piece(token, part, origin, line, x, width))
            x += width
    return pieces


def printable(text: str) -> str:
    """Returns `text` with a dot for every character that cannot be seen, apart from breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text).replace("\t", "    ")


def _text_of(run: Run) -> tuple[str, list[Owner]]:
    """Returns the text of a run, and the owner of each character."""
    text, owners, token, answer = "", list[Owner](), 0, race_text.answer_start(run.rounds)
    for one in run.rounds:
        for place, piece in enumerate(one.round.texts):
            if token == answer:
                note = f"\n\n{race_text.THOUGHT_END}\n\n"
                text, owners = text + note, owners + [(max(0, token - 1), None)] * len(note)
            shown = printable(piece) if text else printable(piece).lstrip()
            owners += [(token, one.round.origin(place) if one.round.drafted else None)] * len(shown)
            text, token = text + shown, token + 1
    tail = printable(run.finished.text)
    return text + tail, owners + [(max(0, token - 1), None)] * len(tail)


def _by_token(word: str, owners: Sequence[Owner]) -> list[tuple[Owner, str]]:
    characters = groupby(zip(owners, word, strict=True), key=lambda pair: pair[0])
    return [(owner, "".join(character for _, character in group)) for owner, group in characters]
