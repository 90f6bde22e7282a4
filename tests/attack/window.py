"""Hostile replies, streamed through the real controller and main window: the gaps that each leaves between two chances
of the window to answer its user. Counted by the GUI thread's own processor time, which other programs do not lengthen;
the wall clock stands beside it."""

import gc
import os
import random
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

import msgspec
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtWidgets import QApplication

from app.store import Store
from app.window.chat import Controller
from app.window.chat.host_process import HostProcess, Timeouts
from app.window.main_window.garbage_collection import GarbageCollection, leave_old_objects_out
from app.window.main_window.main_window import MainWindow
from app.window.transcript.message_entry import MessageEntry
from app.window.transcript.reply_tile import ReplyTile
from tests.app.window.chat.text_host import TextRequest, command
from tests.app.window.chats import end, open_window
from tests.app.window.markdown.hostile_replies import CLASSES, NAMED
from tests.app.window.waiting import for_a_while, until
from tests.machine_speed import slowness
from tests.programs.frame_meter import Gaps
from tests.programs.transcript_bench import load_parsers

# On the machine of `tests.machine_speed`; failures are counted by how slow this one is before or after. No reply is
# shown twice: a formula, for example, is kept once it was shown, and would take no time again.
GOAL_MS = 100
LONGEST = 10_000_000  # characters
MOST_TOKENS = 8_000  # of one reply
PATIENCE_S = 900.0  # for one reply
PLACES = 4  # to which the reader scrolls


@dataclass
class Measured:
    """Of one class. gaps_ms: the largest of each reply while it streams and is read, by the thread's own time and by
    the wall clock; opening_ms: likewise when the conversation is opened again. seconds: the longest reply."""

    characters: int = 0
    seconds: float = 0.0
    gaps_ms: list[tuple[float, float]] = field(default_factory=list)
    opening_ms: list[tuple[float, float]] = field(default_factory=list)


class Attacked:
    """The main window on a store in a folder, with a host that writes what it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = Store.open(folder / "conversations.sqlite").store
        timeouts = Timeouts(silent_s=600.0)
        self.controller = Controller(store, HostProcess(command(), timeouts))
        self.window: MainWindow = open_window(self.controller)
        load_parsers()
        self.controller.open_last()
        self.controller.start()
        until(lambda: self.controller.pair.status.state == "on", 60)
        leave_old_objects_out()
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        self._collection = GarbageCollection(application)
        self.gaps = Gaps()

    def close(self) -> None:
        self._collection.deleteLater()
        gc.enable()
        end(self.window)
        self.controller.close()

    def show(self, text: str, measured: Measured) -> None:
        """Streams `text` into a conversation of its own, reads in it, and opens it again."""
        (self.folder / "reply.txt").write_text(text, encoding="utf-8")
        wanted = TextRequest(str(self.folder / "reply.txt"), max(4, -(-len(text) // MOST_TOKENS)))
        self.controller.new()
        began_s = time.perf_counter()
        self.gaps.start()
        assert self.controller.send(msgspec.json.encode(wanted).decode())
        until(lambda: not self.controller.busy and self.settled, PATIENCE_S)
        seconds = time.perf_counter() - began_s
        self._read()
        measured.gaps_ms.append(self._largest())
        conversation = self.controller.conversation.id
        self.controller.new()
        for_a_while(0.02)
        self.gaps.start()
        self.controller.open(conversation)
        until(lambda: self.settled, PATIENCE_S)
        self._read()
        measured.opening_ms.append(self._largest())
        assert self.entry.source == text
        measured.characters += len(text)
        measured.seconds = max(measured.seconds, seconds)
        self.controller.deletion.delete(conversation)
        QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)  # as an event loop that runs does

    @property
    def entry(self) -> MessageEntry:
        """The reply."""
        return self.window.parts.transcript.column.entries[-1]

    @property
    def settled(self) -> bool:
        """Whether all of the reply is shown, and divided as far as it is unfolded."""
        column = self.window.parts.transcript.column
        if len(column.entries) != 2 or column.entries[-1].live or column.entries[-1] not in column.tiles:
            return False
        tile = column.tiles[column.entries[-1]]
        return isinstance(tile, ReplyTile) and not tile._divide.isActive()

    def _read(self) -> None:
        """Scrolls through the reply, and back to its end."""
        bar = self.window.parts.transcript.column.verticalScrollBar()
        for place in range(PLACES):
            bar.setValue(bar.maximum() * place // PLACES)
            for_a_while(0.06)  # what lies beside the view is made ready after 40 ms
        bar.setValue(bar.maximum())
        for_a_while(0.06)

    def _largest(self) -> tuple[float, float]:
        self.gaps.stop()
        return max(self.gaps.busy_s, default=0) * 1000, max(self.gaps.gaps_s, default=0) * 1000


def replies(seed: int, count: int) -> list[tuple[str, str]]:
    """So many replies and their classes, in turn; short ones are as frequent as those ten times as long."""
    dice = random.Random(seed)
    classes = list(CLASSES)
    made = []
    for number in range(count):
        name = classes[number % len(classes)]
        length = round(10 ** dice.uniform(3, 7)) if number >= len(classes) else round(10 ** dice.uniform(3, 4.5))
        made.append((name, CLASSES[name](dice, length)[:LONGEST]))
    return made


def attack(seed: int, short: bool, count: int = 500) -> list[str]:
    """Prints the largest gaps of each class; returns the replies that left one of more than GOAL_MS."""
    application = QApplication.instance() or QApplication(["attack"])
    cases = replies(seed, len(CLASSES)) if short else [*NAMED.items(), *replies(seed, count)]
    classes: dict[str, Measured] = defaultdict(Measured)
    failures: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        attacked = Attacked(Path(folder))
        for number, (name, text) in enumerate(cases):
            if number % 50 == 0:
                print(f"{number} of {len(cases)}", flush=True)
            measured, slowest = classes[name], slowness()
            try:
                attacked.show(text, measured)
            except AssertionError as error:
                failures.append(f"{name}, reply {number} of {len(text):,} characters: {error}")
                break
            gaps = (measured.gaps_ms[-1][0], measured.opening_ms[-1][0])
            if max(gaps) > GOAL_MS and max(gaps) > GOAL_MS * max(slowest, slowness()):
                failures.append(
                    f"{name}, reply {number} of {len(text):,} characters: {gaps[0]:.0f} ms, opening {gaps[1]:.0f} ms"
                )
        attacked.close()
    _print(classes)
    application.processEvents()
    return failures


def _print(classes: dict[str, Measured]) -> None:
    print("largest gaps of the GUI thread in ms (by the wall clock in brackets), and the longest reply in s")
    print(f"{'class':22}{'replies':>8}{'MB':>8}{'streamed':>18}{'opened':>18}{'over 100':>10}{'longest s':>11}")
    for name, found in classes.items():
        gaps = "".join(
            f"{max((g[0] for g in kind), default=0):10.0f} ({max((g[1] for g in kind), default=0):5.0f})"
            for kind in (found.gaps_ms, found.opening_ms)
        )
        over = sum(gap > GOAL_MS for gap, _ in (*found.gaps_ms, *found.opening_ms))
        print(
            f"{name:22}{len(found.gaps_ms):8}{found.characters / 1e6:8.1f}{gaps}{over:10}{found.seconds:11.1f}",
            flush=True,
        )
