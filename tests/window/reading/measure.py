"""How long reading takes: `python -m tests.window.reading.measure`. Milliseconds of the processor, so that a busy
machine does not count; the best of some tries, and the worst single append."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtGui import QTextCursor, QTextDocument
from PySide6.QtWidgets import QApplication

from app.window.look import LIGHT
from app.window.reading import Growing, Reader, Span, closed, write
from tests.window.reading.sample import long_reply, tokens

WIDTH, HEIGHT = 720, 600


def reader() -> Reader:
    """One that lays out, as on a screen."""
    made = Reader()
    made.resize(WIDTH, HEIGHT)
    made.show()
    return made


def took_ms(work: Callable[[], object]) -> float:
    """Of one run."""
    started = time.process_time()
    work()
    return (time.process_time() - started) * 1000


def at_once_ms(source: str, spans: list[Span], laid_out: bool = True) -> float:
    """Writing all of it into an empty document; one that a reader shows is laid out too."""
    view = reader()
    document = view.document() if laid_out else QTextDocument()
    return took_ms(lambda: (write(QTextCursor(document), source, spans, LIGHT, True), laid_out and document.size()))


def growing_ms(source: str, spans: list[Span], a_frame: int, raw: bool) -> list[float]:
    """Each append of `a_frame` tokens, layout included."""
    view = reader()
    growing = Growing(view.document(), LIGHT, True, raw)
    frames = []
    for last in range(a_frame, len(spans) + a_frame, a_frame):
        told = spans[: min(last, len(spans))]
        text = source[: told[-1].end]
        frames.append(took_ms(lambda text=text, told=told: (growing.grow(text, told), view.document().size())))  # type: ignore[misc]
    return frames


def main() -> None:
    """Prints a line for each measure."""
    app = QApplication.instance() or QApplication([])
    assert app is not None
    told = [(source, tokens(source)) for source in (long_reply(7500, seed) for seed in range(9))]
    for name, laid_out in (("and laid out", True), ("not laid out", False)):
        best = min(at_once_ms(source, spans, laid_out) * 2000 / len(spans) for source, spans in told)
        print(f"2,000 tokens of Markdown at once, {name}: {best:.1f} ms")
    source = long_reply(90_000)
    spans = tokens(source)
    for name, raw in (("raw", True), ("Markdown", False)):
        frames = sorted(growing_ms(source, spans, 33, raw))
        p99 = frames[len(frames) * 99 // 100]
        print(f"{len(spans)} tokens {name}, 33 a frame: p99 {p99:.1f} ms, worst {frames[-1]:.1f} ms")
    print(f"closed() of 4,000 characters: {min(took_ms(lambda: closed(source[:4000])) for _ in range(5)):.1f} ms")


if __name__ == "__main__":
    main()
