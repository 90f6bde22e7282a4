"""A document that shows a source, and follows it as it grows: only what changed is written again."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

from PySide6.QtGui import (
    QAccessible,
    QBrush,
    QColor,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFrameFormat,
    QTextLayout,
    QTextTableCellFormat,
)

from app.reply import Span
from app.window.common.appearance import Appearance
from app.window.markdown.code_colours import code_format
from app.window.markdown.formula_object import formula_format, install_formulas
from app.window.markdown.formula_text import text_and_places
from app.window.markdown.markdown_writer import MarkdownWriter, plain_blocks
from app.window.markdown.source_pieces import Piece, SourcePieces, joint, piece_text
from app.window.markdown.text_blocks import (
    Block,
    Formula,
    Run,
    TableBlock,
    TextBlock,
    TokenRuns,
    common_length,
    normalised,
    spans_within,
    utf16_length,
)
from app.window.markdown.text_formats import (
    APPEARANCE,
    BODY,
    CODE_HEAD,
    CODE_LINE,
    GAP,
    GOES_ON,
    KIND,
    PADDING,
    TextFormats,
    note,
    spoken_format,
)
from app.window.markdown.token_tints import TOKEN_LIST, TokenList, TokenRun
from app.window.markdown.traced_parser import Traced


def write(document: QTextDocument, source: str, spans: Sequence[Span], appearance: Appearance, tinted: bool) -> None:
    """Shows a source that will not grow in `document`, which is empty."""
    GrowingDocument(document, appearance, tinted).grow(source, spans)


class GrowingDocument:
    """Keeps `document`, empty at first, in step with a growing source. The size of text is that of the document's
    default font. raw: shows the source as it is, instead of rendering its Markdown. noted: a line above says so."""

    def __init__(
        self, document: QTextDocument, appearance: Appearance, tinted: bool, raw: bool = False, noted: bool = False
    ) -> None:
        self._document, self._appearance, self._raw, self._noted = document, appearance, raw, noted
        document.setUndoRedoEnabled(False)
        document.setProperty(APPEARANCE, appearance)
        install_formulas(document)
        self._tokens = TokenList()
        document.setProperty(TOKEN_LIST, self._tokens)
        self._formats, self._tinted = TextFormats(appearance, document.defaultFont()), tinted
        self._read_aloud = QAccessible.isActive()
        self._blocks: list[Block] = []
        self._starts: list[int] = []  # where in the document each block begins,
        self._ends: list[int] = []  # and where it ends
        self._pieces = SourcePieces()
        self._final_pieces = self._final = 0  # pieces that are final, and blocks of those

    def grow(self, source: str, spans: Sequence[Span], refused: Mapping[int, str] | None = None) -> None:
        """Shows `source`, which begins with what was shown before. spans: in order, by characters of `source`. refused:
        drafted texts to be shown too, by the number of the token that came instead."""
        first = self._final
        if self._raw:
            text, moved = normalised(source, spans)
            runs = TokenRuns(len(text), moved, refused or {})
            blocks = plain_blocks(Traced(text, range(len(text))), runs, self._noted)
        else:
            blocks = self._rendered(source, spans, refused or {})
        cursor = QTextCursor(self._document)
        cursor.beginEditBlock()  # one layout for all that changes
        self._replace(cursor, first, blocks)
        self._leave_room_at_ends()
        cursor.endEditBlock()

    def _leave_room_at_ends(self) -> None:
        """Makes room for the edge of a code box at either end, since Qt leaves out the margins of these blocks."""
        margin, root = self._document.documentMargin(), self._document.rootFrame()
        ends = (self._blocks[0], self._blocks[-1]) if self._blocks else ()
        boxed = [isinstance(one, TextBlock) and one.shape.property(KIND) in (CODE_HEAD, CODE_LINE) for one in ends]
        above, below = (margin + (PADDING if one else 0) for one in boxed or (False, False))
        shape = root.frameFormat()
        if (shape.topMargin(), shape.bottomMargin()) != (above, below):
            shape.setTopMargin(above)
            shape.setBottomMargin(below)
            root.setFrameFormat(shape)

    # --- from the source to blocks -----------------------------------------------------------------

    def _rendered(self, source: str, spans: Sequence[Span], refused: Mapping[int, str]) -> list[Block]:
        """Returns the blocks of the pieces that were not final before."""
        pieces = self._pieces.follow(source, len(source))
        blocks = self._blocks[: self._final]
        known = len(blocks)
        for index in range(self._final_pieces, len(pieces)):
            blocks += self._piece_blocks(source, pieces, index, spans, refused, blocks[-1] if blocks else None)
            if pieces[index].final:
                self._final_pieces, self._final = index + 1, len(blocks)
        return blocks[known:]

    def _piece_blocks(
        self,
        source: str,
        pieces: list[Piece],
        index: int,
        spans: Sequence[Span],
        refused: Mapping[int, str],
        before: Block | None,
    ) -> list[Block]:
        piece = pieces[index]
        moved = spans_within(spans, piece.start, piece.end, len(piece.carry) - piece.start)
        text, own = normalised(piece_text(source, pieces, index), moved)
        here = {span.token: refused[span.token] for span in own if span.token in refused}
        runs = TokenRuns(len(text), own, here)
        if piece.plain:
            blocks = plain_blocks(Traced(text, range(len(text))), runs, piece.noted)
        else:
            blocks = MarkdownWriter(text, runs, self._formats, before).write()
        if piece.cut and blocks and isinstance(last := blocks[-1], TextBlock):
            last.shape = QTextBlockFormat(last.shape)
            note(last.shape, GOES_ON, joint(source, piece))
            if index + 1 < len(pieces) and not pieces[index + 1].carry:
                last.shape.setBottomMargin(0)
        return blocks

    # --- from blocks to the document ---------------------------------------------------------------

    def _replace(self, cursor: QTextCursor, first: int, blocks: list[Block]) -> None:
        """Shows `blocks` in place of those from `first` on. The blocks that both begin with stay, and so do the runs
        that both versions of the next block begin with."""
        same = first + common_length(self._blocks[first:], blocks)
        old, rest = self._blocks[same:], blocks[same - first :]
        if not old and not rest:
            return
        if old and rest and isinstance(old[0], TextBlock) and isinstance(rest[0], TextBlock):
            kept = common_length(old[0].runs, rest[0].runs)
            place = self._starts[same] + sum(
                utf16_length(run.text + self._spoken(run.formula)) for run in rest[0].runs[:kept]
            )
            self._truncate(cursor, same + 1, place)
            cursor.setBlockFormat(rest[0].shape)
            self._insert(cursor, rest[0].runs[kept:])
            self._colour(cursor.block(), rest[0])
            self._blocks[same], self._ends[same] = rest[0], cursor.position()
            rest = rest[1:]
        elif old:
            self._truncate(cursor, same, self._ends[same - 1] if same else 0)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        for block in rest:
            self._append(cursor, block)

    def _truncate(self, cursor: QTextCursor, count: int, place: int) -> None:
        """Removes all of the document after `place`, which is in the last of its first `count` blocks."""
        del self._blocks[count:], self._starts[count:], self._ends[count:]
        self._tokens.cut(place)
        cursor.setPosition(place)
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        last = self._blocks[-1] if self._blocks else None
        if isinstance(last, TextBlock):
            cursor.setBlockFormat(last.shape)
            self._colour(cursor.block(), last)
        else:
            self._empty(cursor, after_table=last is not None)

    def _append(self, cursor: QTextCursor, block: Block) -> None:
        behind = self._blocks[-1] if self._blocks else None
        self._blocks.append(block)
        if isinstance(block, TableBlock):
            self._starts.append(cursor.position())
            self._append_table(cursor, block)
        else:
            shape, characters = block.shape, self._formats.characters(block.style)
            if behind is not None:
                cursor.insertBlock(shape, characters)
            else:  # Qt has an empty block at the beginning
                cursor.setBlockCharFormat(characters)
            self._starts.append(cursor.position())
            cursor.setBlockFormat(shape)
            self._insert(cursor, block.runs)
            self._colour(cursor.block(), block)
        self._ends.append(cursor.position())

    def _insert(self, cursor: QTextCursor, runs: Iterable[Run]) -> None:
        """Adds runs, those of one style as one text, so that letters are shaped across the borders of tokens."""
        for (style, formula), group in groupby(runs, key=lambda run: (run.style, run.formula)):
            shape = self._formats.characters(style)
            if formula is not None:
                shape = formula_format(shape, formula, style, self._formats.points(style), self._tinted)
            place, text = cursor.position(), ""
            for run in group:
                self._note_tokens(run, place + utf16_length(text))
                text += run.text
            cursor.insertText(text, shape)
            if formula is not None and (spoken := self._spoken(formula)):
                cursor.insertText(spoken, spoken_format())

    def _spoken(self, formula: Formula | None) -> str:
        """Returns what a screen reader, if one is there, reads behind the character that stands for a formula."""
        if formula is None or not self._read_aloud:
            return ""
        text = text_and_places(formula.source)[0].replace("\n", "; ").replace(" ", "\u00a0")
        return f"{text}\u2060"  # so that nothing is found that reaches into what follows

    def _note_tokens(self, run: Run, place: int) -> None:
        """Notes the tokens of a run that begins at `place` of the document, and what is shown there as a sign. A
        formula tints its symbols itself."""
        for i, (sign, written) in enumerate(zip(run.text, run.written, strict=False)):
            if sign != written and not "\ud800" <= written <= "\udfff":
                self._tokens.written[place + utf16_length(run.text[:i])] = written
        if run.formula is not None:
            self._tokens.runs += (TokenRun(span.token, place, place + 1, None) for span in run.formula.spans)
        elif run.span is not None:
            origin = run.span.origin if self._tinted else None
            self._tokens.runs.append(TokenRun(run.span.token, place, place + utf16_length(run.text), origin))

    def _append_table(self, cursor: QTextCursor, block: TableBlock) -> None:
        """Adds a table: hairlines between rows, a header that stands out, columns aligned as they are marked."""
        table = cursor.insertTable(len(block.rows), len(block.rows[0]), block.shape)
        within = table.firstCursorPosition()
        for r, row in enumerate(block.rows):
            colour = self._appearance.hairline if r else self._appearance.faint
            for c, cell in enumerate(row):
                table.cellAt(r, c).setFormat(_cell_format(colour, first=c == 0))
                within.setBlockFormat(cell.shape)
                self._insert(within, cell.runs)
                within.movePosition(QTextCursor.MoveOperation.NextBlock)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        self._empty(cursor, after_table=True)

    def _empty(self, cursor: QTextCursor, after_table: bool) -> None:
        """Formats the empty block at the cursor. The one that Qt has after each table is the space below it, since Qt
        leaves out the space above what follows a table."""
        shape, characters = QTextBlockFormat(), QTextCharFormat(self._formats.characters(BODY))
        if after_table:
            characters = QTextCharFormat()
            characters.setFontPointSize(1)
            shape.setBottomMargin(GAP)
        cursor.setBlockFormat(shape)
        cursor.setBlockCharFormat(characters)

    def _colour(self, at: QTextBlock, block: TextBlock) -> None:
        """Lays the colours of code over the text in its layout."""
        ranges: list[QTextLayout.FormatRange] = []
        place = units = 0  # in the text without refused tokens, and in the document
        for run in block.runs if block.colours else ():
            for start, end, kind in block.colours if not run.style.refused else ():
                first, last = max(start - place, 0), min(end - place, len(run.text))
                if first < last:
                    left = units + utf16_length(run.text[:first])
                    shape = code_format(kind, self._appearance)
                    ranges.append(_range(left, utf16_length(run.text[first:last]), shape))
            place += 0 if run.style.refused else len(run.text)
            units += utf16_length(run.text)
        at.layout().setFormats(ranges)


def _cell_format(line_below: str, first: bool) -> QTextTableCellFormat:
    shape = QTextTableCellFormat()
    shape.setBottomBorder(1)
    shape.setBottomBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
    shape.setBottomBorderBrush(QBrush(QColor(line_below)))
    shape.setLeftPadding(0 if first else 10)
    shape.setRightPadding(10)
    shape.setTopPadding(5)
    shape.setBottomPadding(5)
    return shape


def _range(start: int, length: int, shape: QTextCharFormat) -> QTextLayout.FormatRange:
    made: Any = QTextLayout.FormatRange()  # whose fields PySide's stubs do not know
    made.start, made.length, made.format = start, length, shape
    ranged: QTextLayout.FormatRange = made
    return ranged
