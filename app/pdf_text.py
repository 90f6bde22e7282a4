"""The text of a PDF file, page by page: `python -m app.pdf_text FILE` prints one JSON object.

    {"pages": ["text of page 1", ...]}      or      {"error": "is protected by a password. ..."}

A PDF is a program in disguise: one of a few kilobytes can keep a reader busy for hours or fill the memory. So it is
read in a process of its own, which `app.window.composer.pdf_reader` kills when it takes too much. pypdf runs no
scripts and opens no other file.
"""

import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

LARGEST_BYTES = 50_000_000  # of a file
MOST_PAGES = 5_000
MOST_CHARACTERS = 2_000_000

PROTECTED = "is protected by a password. Save a copy without one and attach that."
SCANNED = "has no text, only pictures of pages. Recognise its text first, as Preview and many scanners do."
DAMAGED = "is damaged or not a PDF. Open it and save a copy, then attach that."
UNREADABLE = "cannot be read ({}). Check that it is still there, then attach it again."
TOO_LARGE = f"is larger than {LARGEST_BYTES // 1_000_000} MB. Attach part of it."
TOO_LONG = f"has more than {MOST_CHARACTERS:,} characters or {MOST_PAGES:,} pages. Attach part of it."


class PdfError(Exception):
    """A file has no text to read: the message says why and what to do, as what the file "is" or "has"."""


def page_texts(path: Path) -> list[str]:
    """Returns the text of each page. Raises PdfError."""
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of every oddity that it reads around
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise PdfError(TOO_LARGE)
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise PdfError(PROTECTED)
        if len(reader.pages) > MOST_PAGES:
            raise PdfError(TOO_LONG)
        pages = []
        for page in reader.pages:
            pages.append(page.extract_text().strip())
            if sum(map(len, pages)) > MOST_CHARACTERS:
                raise PdfError(TOO_LONG)
    except PdfError:
        raise
    except OSError as error:
        raise PdfError(UNREADABLE.format(error.strerror)) from error
    except Exception as error:
        raise PdfError(DAMAGED) from error
    if not any(pages):
        raise PdfError(SCANNED)
    return pages


def with_page_numbers(pages: Sequence[str]) -> str:
    """Returns one text in which each page is named. Pages without text are left out."""
    return "\n\n".join(f"[Page {number}]\n{text}" for number, text in enumerate(pages, 1) if text)


def main(words: Sequence[str]) -> None:
    try:
        found: dict[str, object] = {"pages": page_texts(Path(words[0]))}
    except PdfError as error:
        found = {"error": str(error)}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
