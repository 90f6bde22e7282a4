"""What the window owes its user while a reply streams and when a long conversation opens, measured off screen.

    python -m tests.programs.transcript_bench [--tokens N] [--rate N] [--messages N]

Prints the gaps of the GUI thread, as a fast timer sees them, for a stream of Markdown, of one endless line and of one
endless block of code; then what a long conversation takes to its first paint, to a resize and to a scroll.
"""

import argparse
import gc
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QApplication

from app.protocol import RoundDone
from app.reply import Reply
from app.window.common.appearance import LIGHT
from app.window.markdown import write
from app.window.transcript import Transcript
from app.window.transcript.transcript import PRELOADED
from tests.app.window.transcript.samples import CODE, REPLY, conversation, live, question, rounds, tokens_of
from tests.programs.frame_meter import Gaps, share_ms

WIDTH, HEIGHT = 900, 800


@dataclass(frozen=True)
class Streamed:
    """gaps_s: of the GUI thread; busy_s: by its own clock. behind_s: from the last token told to the last shown."""

    tokens: int
    seconds: float
    gaps_s: list[float]
    busy_s: list[float]
    behind_s: float


def stream(text: str, rate: float, transcript: Transcript, message: int = 2) -> Streamed:
    """Tell `text` at `rate` tokens a second, in what came since the last frame, as the controller does."""
    transcript.begin_reply(live(message, 1))
    reply = transcript.column.entries[-1].reply
    waiting = list(rounds(text, per_s=rate))
    begin_s = waiting[0].round.time_s
    _set_aside()
    feed, gaps, loop = iter(waiting), Gaps(), QEventLoop()
    batch: RoundDone | None = next(feed)
    began_s, told_s = time.perf_counter(), 0.0

    def tell() -> None:
        nonlocal batch, told_s
        due: list[RoundDone] = []
        while batch is not None and batch.round.time_s - begin_s <= time.perf_counter() - began_s:
            due.append(batch)
            batch = next(feed, None)
        if due:
            for one in due:
                reply.add(one)
            transcript.show_change(message, reply.take_change())
        if batch is None and not told_s:
            told_s = time.perf_counter()
        if told_s and transcript.column.entries[-1].source == text:
            loop.quit()

    timer = QTimer(interval=16)
    timer.timeout.connect(tell)
    gaps.start()
    timer.start()
    loop.exec()
    timer.stop()
    gaps.stop()
    ended_s = time.perf_counter()
    count = sum(len(one.round.tokens) for one in waiting)
    return Streamed(count, ended_s - began_s, gaps.gaps_s, gaps.busy_s, ended_s - told_s)


def load_parsers() -> None:
    """Loads what shows text and formulas, as an app has that has been open for two seconds."""
    for source in PRELOADED:
        write(QTextDocument(), source, [], LIGHT, True)


def shown(width: int = WIDTH, height: int = HEIGHT) -> Transcript:
    """A transcript in a window of this size."""
    transcript = Transcript()
    transcript.resize(width, height)
    transcript.show()
    QApplication.processEvents()
    return transcript


@dataclass(frozen=True, order=True)
class Spent:
    """By the clock on the wall, and by the thread's own."""

    ms: float
    busy_ms: float

    def __str__(self) -> str:
        return f"{self.ms:.0f} ms (busy {self.busy_ms:.0f} ms)"


@dataclass(frozen=True)
class Opened:
    """From the call to pixels, the longest of each. told: messages whose rounds were asked for to begin with."""

    first_paint: Spent
    resize: Spent
    scroll: Spent
    told: int


def open_long(messages: int, tokens: int) -> Opened:
    """A conversation opens; the window becomes narrower; the reader drags the scroll bar to twenty places."""
    path, told = conversation(messages, tokens)
    transcript, asked = shown(), []
    _set_aside()

    def reply_of(message: int) -> Reply:
        asked.append(message)
        return Reply(told.get(message, ()))

    first = _timed(transcript, lambda: transcript.show_branch(path, reply_of))
    lazily = len(asked)
    sizes = [(700, 800), (1100, 800), (900, 600)]
    resize = max(_timed(transcript, lambda size=size: transcript.resize(*size)) for size in sizes)
    bar = transcript.column.verticalScrollBar()
    places = [bar.maximum() * part // 20 for part in range(20)]
    scroll = max(_timed(transcript, lambda place=place: bar.setValue(place)) for place in places)
    transcript.close()
    return Opened(first, resize, scroll, lazily)


def _set_aside() -> None:
    """What has been made so far is not searched for garbage again: the app does so once its window is up, and what a
    measurement holds ready for itself is not the window's."""
    gc.collect()
    gc.freeze()


def _timed(transcript: Transcript, act: Callable[[], object]) -> Spent:
    began_s, began_busy_s = time.perf_counter(), time.thread_time()
    act()
    transcript.grab()
    spent = Spent((time.perf_counter() - began_s) * 1000, (time.thread_time() - began_busy_s) * 1000)
    QApplication.processEvents()
    return spent


def sources(tokens: int) -> dict[str, str]:
    """About so many tokens each."""
    line = "all work and no play makes a model a dull model, and "
    body = "\n".join(CODE.splitlines()[1:-1]) + "\n"
    lengths = {"markdown": REPLY + "\n\n", "one line": line, "one code block": body}
    texts = {name: text * (tokens // len(tokens_of(text)) + 1) for name, text in lengths.items()}
    return texts | {"one code block": "```python\n" + texts["one code block"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=2000.0)
    parser.add_argument("--messages", type=int, default=500)
    parser.add_argument("--raw", action="store_true")
    parser.add_argument("--refused", action="store_true")
    asked = parser.parse_args()
    application = QApplication.instance() or QApplication(["bench"])
    load_parsers()
    print("gaps of the GUI thread, and how much of them it was busy")
    print("stream            tokens      s   p99 ms  longest  busy p99  busiest  behind s")
    for name, text in sources(asked.tokens).items():
        transcript = shown()
        transcript.change_options(raw=asked.raw)
        transcript.change_options(refused=asked.refused)
        transcript.show_branch([question(1)], lambda _: Reply())
        done = stream(text, asked.rate, transcript)
        gaps = "".join(f"{share_ms(s, share):9.1f}" for s in (done.gaps_s, done.busy_s) for share in (0.99, 1.0))
        print(f"{name:16}{done.tokens:8,}{done.seconds:7.1f}{gaps}{done.behind_s:10.3f}")
        transcript.close()
    opened = open_long(asked.messages, 200_000)
    print(f"\n{asked.messages} messages, 200,000 tokens: first paint {opened.first_paint}, resize {opened.resize},")
    print(f"scroll {opened.scroll}; rounds asked for {opened.told} of them")
    application.quit()


if __name__ == "__main__":
    main()
