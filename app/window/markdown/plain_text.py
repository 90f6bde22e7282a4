"""Plain text of a document, which can be pasted anywhere."""

from __future__ import annotations

from PySide6.QtGui import QTextBlock, QTextDocument, QTextTable

from app.window.markdown.text_formats import CODE_HEAD, DEPTH, GOES_ON, KIND, MARKER, NOTE, RULE, TIGHT, noted

_MARKERS = {"•": "-", "◦": "-", "▪": "-", "☐": "- [ ]", "☑": "- [x]"}


def plain_text(document: QTextDocument, start: int, end: int) -> str:
    """Returns characters [start, end) of the document as text: items of lists with their markers, cells of a row
    between tabs, code as it is without its label, paragraphs that were cut in one."""
    text: list[str] = []
    block = document.findBlock(start)
    before: QTextBlock | None = None
    while block.isValid() and block.position() < end:
        if not _is_skipped(document, block):
            if before is not None:
                text.append(_between(document, before, block))
            text.append(_text(block, start, end))
            before = block
        block = block.next()
    return "".join(text)


def _is_skipped(document: QTextDocument, block: QTextBlock) -> bool:
    if block.blockFormat().property(KIND) in (CODE_HEAD, NOTE):
        return True
    return block.length() == 1 and _table(document, block.previous()) is not None and _table(document, block) is None


def _table(document: QTextDocument, block: QTextBlock) -> QTextTable | None:
    frame = document.frameAt(block.position()) if block.isValid() else None
    return frame if isinstance(frame, QTextTable) else None


def _between(document: QTextDocument, before: QTextBlock, block: QTextBlock) -> str:
    shape = before.blockFormat()
    separator = noted(shape, GOES_ON)
    if separator is not None:
        return separator
    table = _table(document, before)
    if table is not None and table == _table(document, block):
        return "\n" if table.cellAt(block.position()).column() == 0 else "\t"
    kind = shape.property(KIND)
    of_one = kind is not None and kind == block.blockFormat().property(KIND)
    return "\n" if of_one or (table is None and shape.bottomMargin() <= TIGHT) else "\n\n"


def _text(block: QTextBlock, start: int, end: int) -> str:
    units = block.text().encode("utf-16-le", "surrogatepass")
    first, last = max(0, start - block.position()), min(len(units) // 2, end - block.position())
    text = units[2 * first : 2 * last].decode("utf-16-le", "replace").replace("\u2028", "\n")
    shape = block.blockFormat()
    if shape.property(KIND) == RULE:
        return "---"
    depth = int(shape.property(DEPTH) or 0)
    marker = int(shape.property(MARKER) or 0)
    if marker and first == 0 and "\t" in text:
        sign, _, text = text.partition("\t")
        text = f"{_MARKERS.get(sign, sign)} {text}"
    indent = "  " * (depth - 1 if marker else depth)
    return indent + text if first == 0 else text
