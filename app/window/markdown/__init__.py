"""Model output as documents to read: Markdown with the tint of every token, the raw source, and a browser that
fetches nothing. What a model writes is hostile until proven otherwise.

    write(cursor, source, spans, look, tinted)      rendered Markdown, appended to the cursor's document
    write_raw(cursor, source, spans, look, tinted)  the source as it is, going on in the document's last line
    GrowingDocument(document, look, tinted, raw)            the same for a reply that streams: grow(source, spans)
    closed(source)                                  how much of a growing source is final
    Reader                                          a browser for such documents; paints what lies behind the text
    decorate(painter, document, look, clip)         for who draws documents without a Reader: to be painted first
    code_blocks(document), plain_text(document, start, end)   for copying
    ask_to_open(parent, url)                        before a link opens

`write` and `write_raw` take the size of text from the document's default font.
"""

from app.window.markdown.document_tail import write_raw
from app.window.markdown.document_writer import write
from app.window.markdown.growing_document import GrowingDocument
from app.window.markdown.links import ask_to_open
from app.window.markdown.plain_text import plain_text
from app.window.markdown.reader import CodeBlock, Reader, code_blocks, decorate
from app.window.markdown.stable_prefix import closed
from app.window.markdown.token_spans import TOKEN, Span

__all__ = [
    "TOKEN",
    "CodeBlock",
    "GrowingDocument",
    "Reader",
    "Span",
    "ask_to_open",
    "closed",
    "code_blocks",
    "decorate",
    "plain_text",
    "write",
    "write_raw",
]
