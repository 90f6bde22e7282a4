"""A message of the way shown: all that is known of it, whether or not a widget shows it now."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace

from app.protocol import Told
from app.records import MessageRecord
from app.window.look import GAP, Look
from app.window.reading import Span
from app.window.transcript.manner import BODY, Manner
from app.window.transcript.page import Text
from app.window.transcript.pieces import Piece, Pieces
from app.window.transcript.telling import Telling, TokenDetail
from engine.events import PromptProgress
from engine.receipt import Difference

ToldOf = Callable[[int], list[Told]]

_LETTER, _LINE = 0.52, 1.4  # width of a letter and height of a line, of the font's size
_EMPTY = 0.5  # of a line
_AROUND = 6 * GAP  # px of a message that are not its text


class Entry:
    """told: asked for the rounds of a reply when it first comes into view.

    live: whether the reply is being written. checking: how far its check is, "" while there is none. uncheckable: why
    the last came to nothing, or "". opened: sections of thought that the reader unfolded. expanded: whether a long
    question shows all of itself. height: px, an estimate until the message has been laid out.
    """

    def __init__(self, record: MessageRecord, told: ToldOf) -> None:
        self.record = record
        self.live = record.state == "streaming"
        self.progress: PromptProgress | None = None
        self.checking = self.uncheckable = ""
        self.opened: set[int] = set()
        self.expanded = False
        self._told = told
        self._telling: Telling | None = None
        self._pieces = Pieces()
        self._followed: tuple[int, bool] | None = None
        self._height: tuple[int, object, int] | None = None
        self._heights: dict[int, tuple[int, object, bool, int]] = {}

    @property
    def telling(self) -> Telling:
        """The reply's tokens, asked for once."""
        if self._telling is None:
            self._telling = Telling(self._told(self.record.id))
            if len(self.record.text) > len(self._telling.text) or not self.live:
                self._telling.finish(self.record.text)
        return self._telling

    @property
    def source(self) -> str:
        """What has been shown of it so far."""
        return self.record.text if self.record.role == "user" else self.telling.text

    @property
    def pieces(self) -> list[Piece]:
        """Of the source."""
        source = self.source
        if (len(source), self.live) != self._followed:
            self._pieces.follow(source, whole=not self.live)
            self._followed = (len(source), self.live)
        return self._pieces.pieces

    def thinks(self, section: int) -> bool:
        """Whether a section of thought is still being written."""
        return self.live and self._pieces.sections[section].open

    def tokens_in(self, section: int) -> int:
        """How many tokens a section took, as far as is known."""
        whole, spans = self._pieces.sections[section], self.telling.spans
        first = bisect_left(spans, whole.start, key=lambda span: span.start)
        return bisect_left(spans, whole.end, key=lambda span: span.start) - first

    def end(self, record: MessageRecord) -> str:
        """The reply is over; returns what of its text was not shown before."""
        added = self.telling.finish(record.text)
        self.record, self.live, self.progress = record, False, None
        return added

    def go_on(self, record: MessageRecord) -> None:
        """A reply that had ended is being written again."""
        self.record, self.live = record, True
        self.telling.go_on()

    @property
    def differences(self) -> dict[int, Difference]:
        """By the number of the token that plain decoding does not say there."""
        kept = self.record.receipt
        return {one.position: one for one in kept.receipt.differences} if kept is not None else {}

    def detail(self, number: int) -> TokenDetail | None:
        """Of a token by its number, with what its check said; None where there is no such."""
        detail, difference = self.telling.detail(number), self.differences.get(number)
        return detail if detail is None or difference is None else replace(detail, differs=difference)

    def text_of(self, index: int, manner: Manner) -> Text:
        """What the page of a piece shows."""
        pieces, source = self.pieces, self.source
        piece = pieces[index]
        start, end, carry = piece.start, piece.end, piece.carry
        if manner.raw:
            start, carry = pieces[index - 1].end if index else 0, ""
            if index + 1 == len(pieces):
                end = len(source)
            elif source[start:end].endswith("\n"):
                end -= 1
        shut = "" if manner.raw else self._shut(index)
        spans = self._spans(start, end, len(carry))
        ghosts = {}
        if manner.ghosts and spans:
            ghosts = self.telling.ghosts(spans[0].token, spans[-1].token + 1)
        return Text(carry + source[start:end] + shut, spans, ghosts)

    def _shut(self, index: int) -> str:
        """Behind code that goes on in the next piece: the end of its fence, so that it reads as code that is whole."""
        carry = self._carried(index + 1).strip()
        if not carry:
            return ""
        feed = "" if self.source.endswith("\n", 0, self.pieces[index].end) else "\n"
        return feed + carry[: len(carry) - len(carry.lstrip(carry[0]))]

    def _carried(self, index: int) -> str:
        return self.pieces[index].carry if index < len(self.pieces) else ""

    def block_of(self, index: int) -> str:
        """The source of the block that was cut before or behind this piece, whole; "" where none was."""
        first, last = index, index
        while self._carried(first):
            first -= 1
        while self._carried(last + 1):
            last += 1
        return self.source[self.pieces[first].start : self.pieces[last].end] if first != last else ""

    def joint(self, index: int, manner: Manner) -> str:
        """What stands between the text of a piece and the next."""
        piece = self.pieces[index]
        text = self.source[piece.start : piece.end]
        blank = text[len(text.rstrip()) :]
        if manner.raw:  # a line feed that ends a page is not selected with it
            return "\n" * min(2, len(blank) - len(blank.rstrip("\n")))
        return "\n\n" if blank.count("\n") > 1 else "\n" if "\n" in blank else blank[:1]

    def _spans(self, start: int, end: int, carried: int) -> list[Span]:
        if self.record.role == "user":
            return []
        spans, move = self.telling.spans, carried - start
        first = bisect_left(spans, start + 1, key=lambda span: span.end)
        last = bisect_left(spans, end, key=lambda span: span.start)
        return [Span(max(a, start) + move, min(b, end) + move, origin, n) for a, b, origin, n in spans[first:last]]

    # --- heights ------------------------------------------------------------------------------

    def height(self, width: int, manner: Manner) -> int:
        """Of the message in a column of `width`."""
        if self._height and self._height[:2] == (width, manner.drawing):
            return self._height[2]
        text = self.record.text if self._telling is None else self.source
        return _AROUND + guess(text, width, manner.look)

    def measured(self, width: int, manner: Manner, height: int) -> None:
        """The message was laid out."""
        self._height = (width, manner.drawing, height)

    def piece_height(self, index: int, width: int, manner: Manner) -> int:
        """Of one piece."""
        piece, known = self.pieces[index], self._heights.get(index)
        if known and known[:3] == (width, manner.drawing, piece.final):
            return known[3]
        return guess(self.source[piece.start : piece.end], width, manner.look)

    def piece_measured(self, index: int, width: int, manner: Manner, height: int) -> None:
        """A piece was laid out."""
        self._heights[index] = (width, manner.drawing, self.pieces[index].final, height)


def guess(text: str, width: int, look: Look) -> int:
    """Height of `text`, without laying it out."""
    size = look.px(BODY)
    letters = max(1, round(width / (size * _LETTER)))
    lines = sum(1 + len(line) // letters if line else _EMPTY for line in text.split("\n"))
    return round(lines * size * _LINE)
