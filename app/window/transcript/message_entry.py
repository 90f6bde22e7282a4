"""A message of the branch shown: all that is known of it, whether or not a widget shows it now."""

from collections.abc import Callable
from dataclasses import replace

from app.reply import Reply, TokenDetail
from app.store.records import MessageRecord
from app.window.common.appearance import GAP, Appearance
from app.window.markdown.source_pieces import Piece, ReplyPieces, joint, piece_text
from app.window.markdown.text_blocks import spans_within
from app.window.transcript.text_page import BODY, DisplayOptions, PageText
from engine.audit.receipt import Difference
from engine.events import PromptProgress

WHOLE = -1  # the message instead of one of its pieces
ReplyOf = Callable[[int], Reply]

_LETTER, _LINE = 0.52, 1.4  # width of a letter and height of a line, of the font's size
_EMPTY = 0.5  # of a line
_LONG = 20_000  # characters; the height of a longer text is guessed by its beginning, and its rounds are read in turns
_AROUND = 6 * GAP  # px of a message that are not its text


class MessageEntry:
    """A message and the state of its view, which outlives its widget.

    reply_of: returns a reply, called when it comes into view. live: whether it is being written. waits: why it does not
    begin yet, or "". check_progress: how far its verification is, "" while there is none. check_error: why the last one
    came to nothing, or "". unfolded: the sections of thought that the reader unfolded. expanded: whether a long
    question is shown whole. edit: the new text of a question that has not been sent, or "". editing: whether its editor
    is open. height: px, an estimate until the message has been laid out.
    """

    def __init__(self, record: MessageRecord, reply_of: ReplyOf, edit: str = "") -> None:
        self.record = record
        self.edit, self.editing = edit, bool(edit)
        self.live = record.state == "streaming"
        self.progress: PromptProgress | None = None
        self.waits = ""
        self.check_progress = self.check_error = ""
        self.unfolded: set[int] = set()
        self.expanded = False
        self._reply_of = reply_of
        self._reply: Reply | None = None  # as far as it has been read
        self._is_read = False
        self._pieces = ReplyPieces()
        self._followed: tuple[object, ...] | None = None
        self._heights: dict[int, tuple[object, int]] = {}  # px by the number of the piece, and for what it holds

    @property
    def long_unread(self) -> bool:
        """Whether this is a long reply that is stored and whose rounds have not been read."""
        return not self._is_read and not self.live and len(self.record.text) + len(self.record.thought) > _LONG

    @property
    def reply(self) -> Reply:
        """The reply, all of it."""
        if self._reply is None or not self._is_read:
            self.read()
        assert self._reply is not None
        return self._reply

    def read(self, pause: Callable[[], bool] = lambda: False) -> None:
        """Reads the rounds of the reply, until `pause` returns true; the next call goes on."""
        if self._reply is None:
            self._reply = self._reply_of(self.record.id)
        if self._reply.read(pause):
            self._is_read = True
            if not self.live:
                self._reply.finish(self.record.text, self.record.thought)

    def release(self) -> None:
        """Forgets what can be read again, as the message is far from the view."""
        if not self.live:
            self._reply, self._is_read, self._followed = None, False, None
            self._pieces = ReplyPieces()

    @property
    def source(self) -> str:
        """What has been shown of the message so far."""
        return self.record.text if self.record.role == "user" else self.reply.text

    @property
    def pieces(self) -> list[Piece]:
        """The pieces of a reply."""
        if self._followed != self._state():
            self.divide_on()
        return self._pieces.pieces

    def divide_on(self) -> None:
        """Divides another part of a very long source."""
        self._followed = self._state()
        self._pieces.follow(self.source, self.reply.sections, not self.live)

    def _state(self) -> tuple[object, ...]:
        """Returns what the pieces depend on."""
        return len(self.source), self.live, tuple(self.reply.sections)

    def thinks(self, section: int) -> bool:
        """Whether a section of thought is still being written."""
        return self.live and self._pieces.sections[section].open

    @property
    def thoughts(self) -> set[int]:
        """The sections of what the model thought."""
        return {number for number, section in enumerate(self._pieces.sections) if section.kind == "think"}

    def thought_in(self, section: int) -> tuple[int, float | None]:
        """Returns how many tokens a section has and how many seconds they took, as far as is known."""
        tokens, seconds = self.reply.thought_in(section)
        return tokens, seconds if tokens else None

    def end(self, record: MessageRecord) -> None:
        """Ends the reply, and shows all of it."""
        self.reply.finish(record.text, record.thought)
        self.record, self.live, self.progress, self.waits = record, False, None, ""

    def resume(self, record: MessageRecord) -> None:
        """Continues a reply that had ended."""
        self.record, self.live = record, True
        self._reply, self._is_read = None, False

    @property
    def differences(self) -> dict[int, Difference]:
        """The differences from plain decoding, by the number of the token."""
        kept = self.record.receipt
        return {one.position: one for one in kept.receipt.differences} if kept is not None else {}

    def detail(self, number: int) -> TokenDetail | None:
        """Returns the detail of a token with what its verification found; None if there is no such token."""
        detail, difference = self.reply.detail(number), self.differences.get(number)
        return detail if detail is None or difference is None else replace(detail, differs=difference)

    def text_of(self, index: int, options: DisplayOptions) -> PageText:
        """Returns what the page of a piece shows."""
        pieces, source = self.pieces, self.source
        start, end, carry = pieces[index].start, pieces[index].end, pieces[index].carry
        text = piece_text(source, pieces, index)
        if options.raw:
            start, carry = pieces[index - 1].end if index else 0, ""
            if index + 1 == len(pieces):
                end = len(source)
            elif source[start:end].endswith("\n"):
                end -= 1
            text = source[start:end]
        spans = spans_within(self.reply.spans, start, end, len(carry) - start)
        shown = options.refused and spans
        refused = self.reply.refused(spans[0].token, spans[-1].token + 1) if shown else {}
        plain = pieces[index].plain and not options.raw
        return PageText(text, spans, refused, plain, plain and pieces[index].noted)

    def block_of(self, index: int) -> str:
        """Returns the whole source of the block that was cut at an edge of this piece; "" where none was."""
        pieces, first, last = self.pieces, index, index
        while first and pieces[first - 1].cut:
            first -= 1
        while pieces[last].cut:
            last += 1
        return self.source[pieces[first].start : pieces[last].end] if first != last else ""

    def joint(self, index: int, options: DisplayOptions) -> str:
        """Returns what stands between the text of a piece and the next."""
        piece = self.pieces[index]
        if options.raw:  # a line feed that ends a page is not selected with it
            text = self.source[piece.start : piece.end]
            return "\n" * min(2, len(text) - len(text.rstrip("\n")))
        return joint(self.source, piece)

    # --- heights ------------------------------------------------------------------------------

    def height(self, width: int, options: DisplayOptions, number: int = WHOLE) -> int:
        """Returns the height of the message, or of one of its pieces, in a column of `width`: as it was laid out, or an
        estimate."""
        key, height = self._heights.get(number, (None, 0))
        final = number != WHOLE and self._pieces.pieces[number].final
        wanted = (width, options.document_key, final)
        if key == wanted:
            return height
        if number == WHOLE:
            return _AROUND + guess(self.source if self._is_read else self.record.text, width, options.appearance)
        piece = self._pieces.pieces[number]
        height = guess(self.source, width, options.appearance, piece.start, piece.end)
        if final:  # a long reply has thousands of pieces
            self._heights[number] = (wanted, height)
        return height

    def keep_height(self, height: int, width: int, options: DisplayOptions, number: int = WHOLE) -> None:
        """Keeps the height of the message, or of a piece, which was laid out."""
        final = number != WHOLE and self._pieces.pieces[number].final
        self._heights[number] = ((width, options.document_key, final), height)


def guess(source: str, width: int, appearance: Appearance, start: int = 0, end: int | None = None) -> int:
    """Returns about the height of source[start:end], without laying it out; of a long text by its beginning."""
    length = (len(source) if end is None else end) - start
    text = source[start : start + min(length, _LONG)]
    size = appearance.px(BODY)
    letters = max(1, round(width / (size * _LETTER)))
    if length > _LONG:
        lines = (text.count("\n") + len(text) / letters) * length / len(text)
    else:
        lines = sum(1 + len(line) // letters if line else _EMPTY for line in text.split("\n"))
    return round(lines * size * _LINE)
