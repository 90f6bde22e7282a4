"""From the engine's line to pixels: python -m tests.programs.reply_latency [--seconds N] [--rates 30 200 2000]

A fake host writes rounds of three tokens at a steady rate to the real window, and notes when it wrote each. Measured is
the time from there to the end of the first paint of the window that holds the token, in milliseconds: the median and
the 99th percentile of all tokens. `--memory` instead opens a conversation of 1,000 messages with their rounds, reads it
from end to beginning, and prints the memory of the process in MB.

It touches nothing but the widgets, so that it runs on any version of the window.
"""

import argparse
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication

from app import protocol as p
from app.store import Store
from app.window.chat import Controller
from app.window.chat.host_process import HostProcess
from app.window.main_window.garbage_collection import GarbageCollection, leave_old_objects_out
from app.window.main_window.main_window import MainWindow
from engine.events import PromptProgress
from tests.app.window.chat.fake_host import ROUND_TOKENS, Behaviour, FakeHost, round_of, word
from tests.app.window.waiting import QUICK, for_a_while, until
from tests.programs.frame_meter import share_ms
from tests.programs.store_bench import document

PARAGRAPH = 90  # tokens
_NUMBER = re.compile(r"w(\d+)")
MESSAGES, TOKENS = 1_000, 200_000


class SteadyHost(FakeHost):
    """Writes rounds at `rate` tokens a second for some seconds; the question holds both, and where to note the times:
    a JSON list of (last token of a round, monotonic seconds)."""

    def reply(self, request: p.Reply) -> Iterator[bool]:
        wanted = json.loads(request.messages[-1].content)
        self.send(p.PrefillProgress(id=request.id, progress=PromptProgress(30, 30, 0, 0.01)))
        count, step_s = int(wanted["rate"] * wanted["seconds"] / ROUND_TOKENS), ROUND_TOKENS / wanted["rate"]
        began_s, noted = time.monotonic(), []
        for index in range(count):
            threading.Event().wait(max(0.0, began_s + index * step_s - time.monotonic()))
            made = round_of(index, index * ROUND_TOKENS, index * step_s)
            texts = tuple(f"\n\n{word(n)}" if n % PARAGRAPH == 0 else word(n) for n in made.tokens)
            noted.append((made.tokens[-1], time.monotonic()))
            self.send(p.RoundDone(id=request.id, round=replace(made, texts=texts)))
            yield True
        self.end(request, "eos", count)
        Path(wanted["file"]).write_text(json.dumps(noted))


class WatchedWindow(MainWindow):
    """painted: (last token in the window, monotonic seconds) after each paint."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller)
        self.painted: list[tuple[int, float]] = []

    def event(self, event: QEvent) -> bool:
        done = bool(super().event(event))
        if event.type() == QEvent.Type.UpdateRequest:
            now_s, token = time.monotonic(), self._last_token()
            if token is not None and (not self.painted or token > self.painted[-1][0]):
                self.painted.append((token, now_s))
        return done

    def _last_token(self) -> int | None:
        """Returns the last token that the pages in view hold."""
        column = self.parts.transcript.column
        tile = column.tiles.get(column.entries[-1]) if column.entries else None
        for number in sorted(tile.pages if tile is not None else (), reverse=True):
            block = tile.pages[number].document().lastBlock()  # type: ignore[union-attr]
            while block.isValid():
                if found := _NUMBER.findall(block.text()[-200:]):
                    return int(found[-1])
                block = block.previous()
        return None


def latencies(written: Sequence[tuple[int, float]], painted: Sequence[tuple[int, float]]) -> list[float]:
    """Returns the seconds of each token from its line to the paint that held it."""
    found, paints = [], iter(painted)
    shown, at_s = next(paints, (-1, 0.0))
    first = 0
    for last, wrote_s in written:
        for token in range(first, last + 1):
            while shown < token:
                shown, at_s = next(paints, (sys.maxsize, float("nan")))
            found.append(at_s - wrote_s)
        first = last + 1
    return [one for one in found if one == one]


def measure(folder: Path, rate: float, seconds: float) -> list[float]:
    store = Store.open(folder / "conversations.sqlite").store
    command = [sys.executable, "-m", "tests.programs.reply_latency", "--host"]
    controller = Controller(store, HostProcess(command, QUICK))
    window = WatchedWindow(controller)
    window.resize(1280, 800)
    window.show()
    controller.open_last()
    controller.start()
    until(lambda: controller.pair.status.state == "on", 60)
    for_a_while(2.5)  # until all that is loaded after the start has been
    leave_old_objects_out()
    application = QApplication.instance()
    assert isinstance(application, QApplication)
    collection, ended = GarbageCollection(application), []
    controller.reply_ended.connect(ended.append)
    file = folder / f"{rate:.0f}.json"
    assert controller.send(json.dumps({"rate": rate, "seconds": seconds, "file": str(file)}))
    until(lambda: ended and file.exists(), 30 + 20 * seconds)
    for_a_while(0.5)
    found = latencies(json.loads(file.read_text()), window.painted)
    collection.deleteLater()
    window.close()
    controller.close()
    window.deleteLater()
    return found


def resident_mb() -> float:
    """Returns the resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_memory(folder: Path) -> None:
    store = Store.open(folder / "conversations.sqlite").store
    long = store.import_json(document(MESSAGES, TOKENS, 7)).id
    store.close()
    if os.fork():  # the child has not made the document
        os.wait()
        return
    os.execv(sys.executable, [sys.executable, "-m", "tests.programs.reply_latency", "--read", str(folder), str(long)])


def read_all(folder: Path, conversation: int) -> None:
    """Opens a conversation and reads it from its end to its beginning."""
    QApplication(["memory"])
    controller = Controller(Store.open(folder / "conversations.sqlite").store, HostProcess(["sh", "-c", "cat"], QUICK))
    window = MainWindow(controller)
    window.resize(1280, 800)
    window.show()
    for_a_while(2.5)
    print(f"empty {resident_mb():6.0f} MB", flush=True)
    controller.open(conversation)
    for_a_while(1.0)
    print(f"open  {resident_mb():6.0f} MB", flush=True)
    bar = window.parts.transcript.column.verticalScrollBar()
    while bar.value() > 0:
        bar.setValue(max(0, bar.value() - 700))
        QApplication.processEvents()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)  # as an event loop that runs does
    for_a_while(0.5)
    print(f"read  {resident_mb():6.0f} MB", flush=True)
    window.close()
    controller.close()


def main() -> None:
    if sys.argv[1:2] == ["--host"]:
        SteadyHost(Behaviour()).run()
        return
    if sys.argv[1:2] == ["--read"]:
        read_all(Path(sys.argv[2]), int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rates", type=float, nargs="+", default=[30.0, 200.0, 2000.0])
    parser.add_argument("--memory", action="store_true")
    asked = parser.parse_args()
    with TemporaryDirectory() as folder:
        if asked.memory:
            measure_memory(Path(folder))
            return
        QApplication(["latency"])
        for rate in asked.rates:
            place = Path(folder) / f"{rate:.0f}"
            place.mkdir()
            found = measure(place, rate, asked.seconds)
            print(
                f"{rate:6.0f} tokens/s: {len(found):6,} tokens, median {share_ms(found, 0.5):6.1f} ms, "
                f"99 % {share_ms(found, 0.99):6.1f} ms",
                flush=True,
            )


if __name__ == "__main__":
    main()
