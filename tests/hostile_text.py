"""Texts that a terminal must not obey, and how much of them came out raw."""

import re

HOSTILE = {
    "OSC 52 (clipboard)": "\x1b]52;c;cm0gLXJm\x07",
    "OSC 0 (title) and DCS": "\x1b]0;owned\x1b\\\x1bP$q q\x1b\\",
    "CSI": "\x1b[2J\x1b[H\x1b[8m\x1b[6n",
    "C1 controls": "\x9b2J\x9d52;c;AA\x9c\x90q\x9c\x85",
    "bidirectional controls": "a\u202eb\u202dc\u2066d\u2067e\u2069f\u200eg\u200fh\u061c",
    "backspaces": "safe\x08\x08\x08\x08evil\x7f\x0b\x0c\x0e\x0f",
    "carriage return": "100%\rredline: all is well\nredline: and so on",
    "NUL and surrogates": "a\x00b\x01\x02\x1a",
    "markup": "[/x][bold red on blink]:boom: [link=file:///etc/passwd]x[/link]",
    "very long": "\x1b[5n" + "x" * 50_000,
}
# What Redline and its libraries write themselves: colours, cleared lines, cursor moves, a hidden cursor.
_OWN = re.compile(r"\x1b\[(?!8m)[0-9;:]*m|\x1b\[[0-2]?K|\x1b\[\d*[ABCDG]|\x1b\[\?25[lh]|\r")
_RAW = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def count_raw(written: str, terminal: bool) -> int:
    """Returns the control characters in what was written, those of Redline's own sequences to a terminal apart."""
    return len(_RAW.findall(_OWN.sub("", written) if terminal else written))
