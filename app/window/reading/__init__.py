"""Model output as documents to read: Markdown with the tint of every token, the raw source, and a browser that
fetches nothing. What a model writes is hostile until proven otherwise.

    write(cursor, source, spans, look, tinted)      rendered Markdown, appended to the cursor's document
    write_raw(cursor, source, spans, look, tinted)  the source as it is, going on in the document's last line
    Growing(document, look, tinted, raw)            the same for a reply that streams: grow(source, spans)
    closed(source)                                  how much of a growing source is final
    sections(source)                                what of it is thinking
    Reader                                          a browser for such documents; paints what lies behind the text
    decorate(painter, document, look, clip)         for who draws documents without a Reader: to be painted first
    code_blocks(document), plain_text(document, start, end)   for copying
    ask_to_open(parent, url)                        before a link opens
    warm_up()                                       loads what is large, in an idle moment

`write` and `write_raw` take the size of text from the document's default font.
"""

from app.window.reading.asking import ask_to_open
from app.window.reading.browser import Reader
from app.window.reading.closing import closed
from app.window.reading.copying import plain_text
from app.window.reading.decoration import CodeBlock, code_blocks, decorate
from app.window.reading.growing import Growing
from app.window.reading.raw import write_raw
from app.window.reading.sections import Section, sections
from app.window.reading.spans import TOKEN, Span
from app.window.reading.warming import warm_up
from app.window.reading.writing import write

__all__ = [
    "TOKEN",
    "CodeBlock",
    "Growing",
    "Reader",
    "Section",
    "Span",
    "ask_to_open",
    "closed",
    "code_blocks",
    "decorate",
    "plain_text",
    "sections",
    "warm_up",
    "write",
    "write_raw",
]
