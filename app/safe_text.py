"""Text from outside, made safe for a terminal: the one place where characters that could steer it are escaped.

A model's reply, the name of a tensor, an answer of the hub and a line of the host may hold anything. A terminal obeys
some of it: OSC 52 sets the clipboard, CSI moves the cursor, bidirectional controls swap what is read. `guard_streams`
puts a guard before standard output and standard error, so that `print`, argparse, warnings, log messages and tracebacks
are safe without further thought. Only what writes escape sequences of its own, all of it in `app.cli.terminal`, takes
the `trusted` stream, and calls `safe` for the text between them.
"""

import sys
import traceback
from collections.abc import Iterable
from types import TracebackType
from typing import Any, TextIO, cast

LONGEST_LINE = 2000  # characters of an error; a name from a file may be as long as the file
_NEWLINES = "\u2028\u2029"
_BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
_UNSEEN = "\u00ad\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff\ufff9\ufffa\ufffb"
_TAGS = range(0xE0000, 0xE0080)
_UNKNOWN = "\ufffd"


def _pictures() -> dict[int, str | None]:
    table: dict[int, str | None] = {code: chr(0x2400 + code) for code in range(0x20)}
    table[0x7F] = "\u2421"
    for code in (*range(0x80, 0xA0), *range(0xD800, 0xE000), *map(ord, _BIDI)):
        table[code] = _UNKNOWN
    table.update((ord(newline), "\n") for newline in _NEWLINES)
    table[ord("\r")] = None
    del table[ord("\n")], table[ord("\t")]
    return table


_PICTURES = _pictures()
_HIDDEN = dict.fromkeys((*map(ord, _UNSEEN), *_TAGS), _UNKNOWN)
_JSON_ESCAPES = {code: f"\\u{code:04x}" for code in (*_PICTURES, *map(ord, _UNSEEN)) if code >= 0x20}


def safe(text: str) -> str:
    """Returns untrusted text, such as a model's, with everything that could steer a terminal made visible.

    C0 controls and DEL become their pictures (ESC: U+241B); C1 controls, bidirectional marks, embeddings, overrides and
    isolates, and lone surrogates become U+FFFD; carriage returns go. Line feeds and tabs stay, and so do joiners, which
    emoji and Persian need. Character by character, so a sequence that is spread over tokens is caught too.
    """
    return text.translate(_PICTURES)


def safe_line(text: str) -> str:
    """Returns untrusted text as one line of a message: `safe`, with characters that take no space made visible too (two
    names must not look alike), all white space a single space, and the middle of a very long text left out."""
    half = LONGEST_LINE // 2
    if len(text) > LONGEST_LINE:
        text = f"{text[:half]} … {text[-half:]}"
    return safe(" ".join(text.split())).translate(_HIDDEN)


def safe_json(text: str) -> str:
    """Returns a JSON text with the same value in which such characters are escaped, as \\u202e."""
    return text.translate(_JSON_ESCAPES)


class GuardedStream:
    """A text stream that writes everything by `safe`. trusted: the stream behind it, which writes what it is given."""

    def __init__(self, trusted: TextIO) -> None:
        self.trusted = trusted

    def write(self, text: str) -> int:
        """Writes untrusted text. Raises OSError."""
        self.trusted.write(safe(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes each of the texts. Raises OSError."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.trusted, name)


def guard_streams() -> None:
    """Puts the guard before standard output and standard error of this process, once, and before its tracebacks."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, GuardedStream):
            setattr(sys, name, GuardedStream(stream))
    if sys.excepthook is sys.__excepthook__:  # which colours a traceback since Python 3.13
        sys.excepthook = _print_traceback


def trusted(stream: TextIO) -> TextIO:
    """Returns the stream behind the guard, if there is one, for escape sequences of Redline's own."""
    return cast(TextIO, getattr(stream, "trusted", stream))


def _print_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    traceback.print_exception(kind, error, trace)
