"""Large modules, loaded before the first reply needs them."""

from __future__ import annotations

from app.window.reading.formula import readable
from app.window.reading.highlighting import highlighted
from app.window.reading.markdown import parser
from app.window.reading.tracing import Traced


def warm_up() -> None:
    """Takes about 0.1 s, once; without it the first code block and the first formula take it."""
    parser().parse("*a*")
    readable(Traced("x", (0,)))
    highlighted("x = 1", "python")
