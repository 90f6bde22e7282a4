"""The text of a reply as it is read: without the marks of its Markdown and the addresses behind its links."""

import re
from collections.abc import Iterator
from typing import Any

from pyromark import Options, events

_OPTIONS = Options.ENABLE_TABLES | Options.ENABLE_STRIKETHROUGH | Options.ENABLE_TASKLISTS | Options.ENABLE_MATH
_WITHIN_LINE = ("Emphasis", "Strong", "Strikethrough", "Link", "Image")
_PART = 200_000  # characters parsed at once: no other thread runs in these 20 ms
_CJK = "\u2e80-\ua4cf\uac00-\ud7ff\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef"
_MARKS = re.compile(
    rf"(?<=[{_CJK}])(?:\*\*|~~)|(?:\*\*|~~)(?=[{_CJK}])"
)  # marks in the transcript, though not in CommonMark
_TAG = re.compile(r"</?(?:sub|sup|kbd)\s*>", re.IGNORECASE)  # all other tags but <br> are shown
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


def shown_text(source: str) -> str:
    """Returns a Markdown source as text, a line for each of its lines, cells and items."""
    return "".join(
        piece for part in _parts(source) for event in events(part, options=_OPTIONS) for piece in _said(event)
    )


def _said(event: Any) -> Iterator[str]:
    """Yields what an event of the parser adds to the text."""
    if isinstance(event, str):  # a break or a rule
        yield "\n"
        return
    kind, value = next(iter(event.items()))
    if kind == "Text":
        yield _MARKS.sub("", value)
    elif kind == "Code":
        yield value
    elif kind in ("InlineMath", "DisplayMath"):  # which may be the names of variables
        yield f"${value}$"
    elif kind in ("InlineHtml", "Html"):
        yield _TAG.sub("", _BREAK.sub("\n", value))
    elif kind == "End" and value not in _WITHIN_LINE:
        yield "\n"


def _parts(source: str) -> Iterator[str]:
    """Yields the source in parts that end between paragraphs, where that is possible."""
    start = 0
    while len(source) - start > _PART:
        end = source.rfind("\n\n", start, start + _PART) + 2
        end = end if end > start + 1 else start + _PART
        yield source[start:end]
        start = end
    yield source[start:]
