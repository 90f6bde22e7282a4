"""A race drawn by Pillow at a moment of its replay: both sides with their numbers and texts, and the comparison.

`RacePicture.draw` may be called for any moment, in any order. It is quick when time goes forward, as it does in an
animation, because only the tokens that are new are drawn. Lengths are in px at scale 1.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image, ImageDraw

from app.palette import Palette, mix
from app.protocol.race_messages import Run
from app.race import race_text
from app.race.race_document import RaceDocument
from app.race.race_fonts import draw_text, elided, width
from app.race.race_replay import PaneState, Replay, State
from engine.events import Origin

MARGIN, GAP, INSET = 20, 10, 14
COMPARISON_WIDTH = 184
TEXT_SIZE, LINE_HEIGHT = 15, 26
HEAD_HEIGHT = 126  # of a pane, above its text
MARKED = 0.45  # share of the mark's colour in the ground of the token that differs
AS_FAST = 0.995  # a speed-up that is shown as 1.00 is no loss
NUMBERS = ("tokens", "decode tok/s", "TTFT", "passes", "tokens/pass")
LEGEND: tuple[Origin, ...] = ("accepted", "corrected", "bonus")
_WORDS = re.compile(r"\n|[^\S\n]+|\S+")


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

    def __init__(self, image: Image.Image, scale: float) -> None:
        self.image, self.scale = image, scale
        self._painter = ImageDraw.Draw(image)

    @classmethod
    def blank(cls, size: tuple[float, float], ground: str, scale: float) -> Canvas:
        """Returns a canvas of one colour."""
        return cls(Image.new("RGB", (round(size[0] * scale), round(size[1] * scale)), ground), scale)

    def text(self, x: float, y: float, text: str, colour: str, size: float, bold: bool = False) -> None:
        """Draws text with its baseline at `y`."""
        draw_text(self._painter, (x * self.scale, y * self.scale), text, colour, size * self.scale, bold)

    def text_right(self, x: float, y: float, text: str, colour: str, size: float, bold: bool = False) -> None:
        """The same, ending at `x`."""
        self.text(x - width(text, size * self.scale, bold) / self.scale, y, text, colour, size, bold)

    def text_middle(self, x: float, y: float, text: str, colour: str, size: float, bold: bool = False) -> None:
        """The same, around `x`."""
        self.text(x - width(text, size * self.scale, bold) / self.scale / 2, y, text, colour, size, bold)

    def box(self, box: tuple[float, float, float, float], fill: str, radius: float = 0, outline: str = "") -> None:
        """Draws a rectangle (left, top, right, bottom)."""
        left, top, right, bottom = (round(edge * self.scale) for edge in box)
        edges = (left, top, max(left, right - 1), max(top, bottom - 1))
        self._painter.rounded_rectangle(edges, radius * self.scale, fill, outline or None, round(self.scale))

    def dots(self, left: float, right: float, y: float, colour: str) -> None:
        """Draws a dotted line."""
        x = left
        while x < right:
            self.box((x, y, min(x + 1.5, right), y + 1.5), colour)
            x += 3.5


class RunText:
    """The text of a run in pieces, wrapped to `room` px, of which the first tokens are drawn on an image of its own."""

    def __init__(self, run: Run, room: float, palette: Palette, scale: float) -> None:
        self._palette, self._room, self._scale = palette, room, scale
        self._pieces = wrapped_pieces(run, room, scale)
        self.lines = 1 + max((piece.line for piece in self._pieces), default=0)
        self._shown = self._next = 0
        self._marked: int | None = None
        self._start()

    def show(self, tokens: int, marked: int | None, mark: str) -> Image.Image:
        """Returns the image of the first `tokens`. marked: the token that differs, on a ground of the colour `mark`."""
        if tokens < self._shown or (marked is None and self._marked is not None):
            self._start()
        if marked != self._marked:
            self._marked = marked
            for piece in self._pieces:
                if piece.token == marked and piece.token < self._shown:
                    self._draw(piece, mark)
        while self._next < len(self._pieces) and self._pieces[self._next].token < tokens:
            self._draw(self._pieces[self._next], mark)
            self._next += 1
        self._shown = tokens
        return self._canvas.image

    def bottom(self) -> float:
        """Returns how far down the text reaches that is shown, px."""
        return LINE_HEIGHT * (1 + self._pieces[self._next - 1].line) if self._next else 0.0

    def _start(self) -> None:
        size = (self._room, LINE_HEIGHT * self.lines)
        self._canvas = Canvas.blank(size, self._palette.raised, self._scale)
        self._shown, self._next, self._marked = 0, 0, None

    def _draw(self, piece: Piece, mark: str) -> None:
        look, top = self._palette, LINE_HEIGHT * piece.line
        box = (piece.x, top + 3, piece.x + piece.width, top + LINE_HEIGHT - 4)
        if piece.token == self._marked:
            self._canvas.box(box, mix(look.background, mark, MARKED))
        elif piece.origin is not None:
            self._canvas.box(box, look.tints[piece.origin])
        self._canvas.text(piece.x, top + 18, piece.text, look.text, TEXT_SIZE)
        if piece.origin == "corrected":
            self._canvas.box((piece.x, top + 20.5, piece.x + piece.width, top + 21.7), look.text)
        elif piece.origin == "bonus":
            self._canvas.dots(piece.x, piece.x + piece.width, top + 20.5, look.text)


class RacePicture:
    """size: (width, least height, greatest height). The picture is as high as its texts need, within these bounds."""

    def __init__(
        self, document: RaceDocument, palette: Palette, size: tuple[int, int, int], scale: float, pace: float = 1.0
    ) -> None:
        self.replay, self._palette, self._scale = Replay(document), palette, scale
        self._width, least, most = size
        self._pane_width = (self._width - 2 * MARGIN - COMPARISON_WIDTH) / 2
        room = self._pane_width - 2 * INSET
        self._texts = [RunText(track.run, room, palette, scale) for track in self.replay.tracks]
        self._about = self._wrapped_about(pace)
        text_height = LINE_HEIGHT * max(text.lines for text in self._texts)
        self._around = 2 * MARGIN + 24 + GAP + HEAD_HEIGHT + INSET + GAP + 16 * len(self._about) + 24
        self.height = round(min(max(self._around + text_height, least), most))
        self._frame = self._draw_frame()

    def draw(self, time_s: float) -> Image.Image:
        """Returns the picture of this moment of the replay."""
        state = self.replay.at(time_s)
        canvas = Canvas(self._frame.copy(), self._scale)
        for place, (pane, text) in enumerate(zip(state.panes, self._texts, strict=True)):
            left = MARGIN + place * (self._pane_width + COMPARISON_WIDTH)
            self._draw_progress(canvas, left, pane)
            self._draw_text(canvas, left, text.show(pane.tokens, state.parted, self._mark), text.bottom())
        self._draw_sameness(canvas, state)
        return canvas.image

    @property
    def _mark(self) -> str:
        receipt, look = self.replay.receipt, self._palette
        return look.accent if not receipt.promised else look.error if receipt.failed else look.warning

    @property
    def _top(self) -> float:
        return MARGIN + 24 + GAP  # below the prompt

    @property
    def _bottom(self) -> float:
        return self.height - MARGIN - 24 - 16 * len(self._about) - GAP

    # --- what stays ------------------------------------------------------------------------------

    def _draw_frame(self) -> Image.Image:
        look, document = self._palette, self.replay.document
        canvas = Canvas.blank((self._width, self.height), look.background, self._scale)
        prompt = elided(f"“{' '.join(document.prompt.split())}”", 17 * self._scale, self._inner_width, bold=True)
        canvas.text(MARGIN, MARGIN + 15, prompt, look.text, 17, bold=True)
        greedy = document.sampling.temperature == 0
        names = race_text.names(document.contestants)
        for place, (name, one) in enumerate(zip(names, document.contestants, strict=True)):
            left = MARGIN + place * (self._pane_width + COMPARISON_WIDTH)
            self._draw_pane(canvas, left, printable(name), printable(race_text.details(one, greedy)))
        self._draw_speedups(canvas)
        self._draw_foot(canvas)
        return canvas.image

    @property
    def _inner_width(self) -> float:
        return (self._width - 2 * MARGIN) * self._scale

    def _draw_pane(self, canvas: Canvas, left: float, name: str, detail: str) -> None:
        look, top, right = self._palette, self._top, left + self._pane_width
        canvas.box((left, top, right, self._bottom), look.raised, 12, look.hairline)
        canvas.text(left + INSET, top + 28, name, look.text, 16, bold=True)
        room = (self._pane_width - 2 * INSET) * self._scale
        canvas.text(left + INSET, top + 50, elided(detail, 12 * self._scale, room), look.faint, 12)
        for place, number in enumerate(NUMBERS):
            canvas.text(self._number_x(left, place), top + 108, number, look.faint, 11)

    def _number_x(self, left: float, place: int) -> float:
        """Columns as wide as their names, with even gaps between them."""
        widths = [max(44.0, width(name, 11 * self._scale) / self._scale) for name in NUMBERS]
        gap = (self._pane_width - 2 * INSET - sum(widths)) / (len(NUMBERS) - 1)
        return left + INSET + sum(widths[:place]) + gap * place

    def _draw_speedups(self, canvas: Canvas) -> None:
        look, results = self._palette, self.replay.results
        x = self._width / 2
        y = self._top + max(40.0, (self._bottom - self._top) * 0.24)
        for found, what, size in (
            (results.total, "wall-clock speed-up", 44),
            (results.decode, "decode speed-up", 26),
        ):
            slower = found is not None and found.median < AS_FAST
            colour = look.warning if slower else look.good
            y += size * 0.8
            canvas.text_middle(x, y, race_text.speedup(found.median if found else None), colour, size, bold=True)
            y += 19
            canvas.text_middle(x, y, what, look.faint, 12)
            if found is not None and results.pairs > 1:
                y += 15
                canvas.text_middle(x, y, race_text.spread(found), look.faint, 11)
            y += 14
        for line in race_text.medians_of(results.pairs).split(", "):
            y += 14
            canvas.text_middle(x, y, line, look.faint, 11)
        y += 18
        canvas.box((x - COMPARISON_WIDTH / 2 + 8, y, x + COMPARISON_WIDTH / 2 - 8, y + 1), look.hairline)
        self._sameness_y = y + 42

    def _wrapped_about(self, pace: float) -> list[str]:
        """What the picture says below: how it was measured, and whether the texts are the same."""
        found = race_text.verdict(self.replay.document).text
        caption = f"{_capital(race_text.MEASURED)}{race_text.paced(pace)}. {_capital(found)}."
        return wrapped_lines(caption, self._width - 2 * MARGIN - 240, 11.5, self._scale)

    def _draw_foot(self, canvas: Canvas) -> None:
        look, y = self._palette, self._bottom + GAP + 12
        x: float = self._width - MARGIN
        for kind in reversed(LEGEND):
            wide = width(kind, 12 * self._scale) / self._scale + 8
            canvas.box((x - wide, y - 13, x, y + 5), look.tints[kind], 3)
            canvas.text(x - wide + 4, y, kind, look.text, 12)
            if kind == "corrected":
                canvas.box((x - wide + 4, y + 2, x - 4, y + 3.2), look.text)
            elif kind == "bonus":
                canvas.dots(x - wide + 4, x - 4, y + 2, look.text)
            x -= wide + 6
        for place, line in enumerate(self._about):
            canvas.text(MARGIN, y + 16 * place, line, look.faint, 11.5)
        y = self.height - MARGIN - 4
        made_with = elided(printable(race_text.made_with(self.replay.document)), 11.5 * self._scale,
                           self._inner_width - 80 * self._scale)  # fmt: skip
        canvas.text(MARGIN, y, made_with, look.faint, 11.5)
        canvas.text_right(self._width - MARGIN, y, "Redline", look.faint, 13, bold=True)

    # --- what changes ----------------------------------------------------------------------------

    def _draw_progress(self, canvas: Canvas, left: float, pane: PaneState) -> None:
        look, top, right = self._palette, self._top, left + self._pane_width - INSET
        canvas.text_right(right, top + 28, f"{pane.clock_s:.1f} s", look.good if pane.done else look.text, 16, True)
        bar = (left + INSET, top + 60, right, top + 68)
        canvas.box(bar, look.hairline, 4)
        if pane.share:
            end = bar[0] + max(8.0, (right - bar[0]) * pane.share)
            canvas.box((bar[0], bar[1], end, bar[3]), look.good if pane.done else look.accent, 4)
        for place, value in enumerate(race_text.numbers(pane)):
            canvas.text(self._number_x(left, place), top + 92, value, look.text, 15, bold=True)

    def _draw_text(self, canvas: Canvas, left: float, text: Image.Image, reach: float) -> None:
        """The end of the text, where there is no room for all of it."""
        top = self._top + HEAD_HEIGHT
        room = self._bottom - top - INSET
        above = max(0.0, reach - room) * self._scale
        height = min(text.height, round(above + room * self._scale))
        shown = text.crop((0, round(above), text.width, height))
        canvas.image.paste(shown, (round((left + INSET) * self._scale), round(top * self._scale)))

    def _draw_sameness(self, canvas: Canvas, state: State) -> None:
        look, parted = self._palette, state.parted is not None
        x, y = self._width / 2, self._sameness_y
        canvas.text_middle(x, y, str(state.identical), self._mark if parted else look.good, 26, bold=True)
        caption = race_text.sameness(self.replay, state)
        room = COMPARISON_WIDTH - 16
        for place, line in enumerate(wrapped_lines(caption, room, 12, self._scale)):
            canvas.text_middle(x, y + 20 + 16 * place, line, look.text if parted else look.faint, 12)


def wrapped_pieces(run: Run, room: float, scale: float) -> list[Piece]:
    """Returns the text of a run in pieces of tokens, wrapped to `room` px at scale 1, in order."""
    text, owners = _text_of(run)
    pieces, line, x = list[Piece](), 0, 0.0
    for found in _WORDS.finditer(text):
        word = found[0]
        if word == "\n":
            line, x = line + 1, 0.0
            continue
        wide = _width(word, scale)
        if x + wide > room and not word.isspace() and x > 0:
            line, x = line + 1, 0.0
            if pieces and pieces[-1].text.isspace():
                pieces.pop()
        for start, end in _cut(word, room, scale) if wide > room else [(0, len(word))]:
            if start:
                line, x = line + 1, 0.0
            for token, origin, part in _by_token(word[start:end], owners[found.start() + start : found.start() + end]):
                part_width = _width(part, scale)
                if x + part_width <= room or not part.isspace():
                    pieces.append(Piece(token, part, origin, line, x, part_width))
                x += part_width
    return pieces


def wrapped_lines(text: str, room: float, size: float, scale: float) -> list[str]:
    """Returns the lines of a text that is wrapped to `room` px at scale 1."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width(longer, size * scale) > room * scale:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines


def printable(text: str) -> str:
    """Returns `text` with a dot for every character that cannot be seen, apart from breaks and tabs."""
    return "".join(c if c.isprintable() or c in "\n\t" else "·" for c in text).replace("\t", "    ")


def _text_of(run: Run) -> tuple[str, list[tuple[int, Origin | None]]]:
    """Returns the text of a run, and for each character its token, with the origin where anything was drafted."""
    text, owners, token = "", list[tuple[int, Origin | None]](), 0
    for one in run.rounds:
        for place in range(len(one.round.tokens)):
            shown = printable(one.round.texts[place]) if place < len(one.round.texts) else ""
            shown = shown if text else shown.lstrip()
            owners += [(token, one.round.origin(place) if one.round.drafted else None)] * len(shown)
            text, token = text + shown, token + 1
    tail = printable(run.finished.text)
    return text + tail, owners + [(max(0, token - 1), None)] * len(tail)


def _by_token(word: str, owners: Sequence[tuple[int, Origin | None]]) -> list[tuple[int, Origin | None, str]]:
    parts: list[tuple[int, Origin | None, str]] = []
    for character, (token, origin) in zip(word, owners, strict=True):
        if parts and parts[-1][0] == token:
            parts[-1] = (token, origin, parts[-1][2] + character)
        else:
            parts.append((token, origin, character))
    return parts


def _cut(word: str, room: float, scale: float) -> list[tuple[int, int]]:
    """Returns where a word is cut that is wider than the room for it."""
    cuts, start = [], 0
    for end in range(1, len(word) + 1):
        if end - start > 1 and _width(word[start:end], scale) > room:
            cuts.append((start, end - 1))
            start = end - 1
    return [*cuts, (start, len(word))]


def _width(text: str, scale: float) -> float:
    return width(text, TEXT_SIZE * scale) / scale


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
