"""Model output as documents to read: Markdown with the tint of every token, the raw source, and a browser that
fetches nothing. What a model writes is hostile until proven otherwise.

    GrowingDocument(document, look, tinted, raw)   shows a source in a document, rendered or raw: grow(source, spans)
    write(document, source, spans, look, tinted)   the same for a source that will not grow
    SourcePieces                                   cuts a long source into pieces that can be laid out at once
    Reader                                         a browser for such documents; paints what lies behind the text
    decorate(painter, document, look, clip)        paints the same behind a document that is drawn without a Reader
    code_blocks, plain_text                        what a document says, for copying
    token_runs, token_of                           which characters came from which token
    ask_to_open(parent, url)                       before a link opens

The size of text is that of the document's default font.

From a source to the screen, with what each module decides:

    source_pieces -> traced_parser -> markdown_writer -> growing_document -> reader

source_pieces     where a long source is cut
traced_parser     the Markdown that is understood, also while it is half written
markdown_writer   what a block looks like: headings, lists, tables, code boxes
text_formats      fonts, sizes and distances; code_colours: the colours of code
token_tints       which token a character came from, its tint and its line
links             which addresses may become links
text_matches      what a search finds
formula_*         LaTeX: spans (where it begins and ends), parser, tree, layout, strokes, text, object
growing_document  only what changed is written again
reader            what is painted behind the text, and what is copied
"""

from app.window.markdown.growing_document import GrowingDocument, write
from app.window.markdown.links import ask_to_open
from app.window.markdown.reader import CodeBlock, Reader, code_blocks, decorate, plain_text
from app.window.markdown.source_pieces import SourcePieces
from app.window.markdown.token_tints import token_of, token_runs

__all__ = [
    "CodeBlock",
    "GrowingDocument",
    "Reader",
    "SourcePieces",
    "ask_to_open",
    "code_blocks",
    "decorate",
    "plain_text",
    "token_of",
    "token_runs",
    "write",
]
