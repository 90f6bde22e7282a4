"""A download on the terminal: bars where it is one, a line for what matters where it is a file or a pipe."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from app.cli.terminal.safe_text import safe
from app.duration_text import duration_words
from app.protocol.download_events import Discarded, Done, DownloadEvent, Fetched, Planned, Resolving, Verifying, Waiting
from app.protocol.download_events import DownloadProgress as Came
from app.reply_statistics import count
from models.size_text import size_words

_LINE_EVERY_S = 10.0
_NAME_WIDTHS = (20, 34)  # the narrower on a terminal of 80 columns
_BAR_WIDTH = 13
_NUMBERS_WIDTH = 19  # "999 bytes of 999 GB"; every width is fixed, so that nothing jumps
_NOTE_WIDTH = 25  # "999 MB/s, 9 min 59 s left"


class View(Protocol):
    """Shows events as they come; a context, so that it can tidy up."""

    def __enter__(self) -> View: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    def show(self, event: DownloadEvent) -> None:
        """One event."""

    def paused(self) -> None:
        """Ctrl-C was pressed."""


def choose_view(terminal: bool) -> View:
    """terminal: whether standard output is one."""
    return Bars() if terminal else Lines()


class Lines:
    """What matters, a line each; nothing is written over."""

    def __init__(self) -> None:
        self._said_s = time.monotonic()
        self._last: Came | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Has nothing to tidy."""

    def show(self, event: DownloadEvent) -> None:
        if isinstance(event, Came):
            self._last = event
            if time.monotonic() - self._said_s < _LINE_EVERY_S:
                return
        if line := in_words(event):
            self._said_s = time.monotonic()
            self.say(line)

    def paused(self) -> None:
        came = self._last
        share = f" at {size_words(came.done_bytes)} of {size_words(came.total_bytes)}" if came else ""
        self.say(f"Paused{share}; the same command goes on.")

    def say(self, line: str) -> None:
        print(safe(line), flush=True)


class Bars(Lines):
    """One bar for all, one for each file that is on its way."""

    def __init__(self, console: Console | None = None) -> None:
        super().__init__()
        self._console = console or Console(highlight=False)
        rest = _BAR_WIDTH + _NUMBERS_WIDTH + _NOTE_WIDTH + 3
        self._name_width = max(_NAME_WIDTHS[0], min(_NAME_WIDTHS[1], self._console.width - rest))
        name = TextColumn("{task.description}", markup=False, table_column=Column(width=self._name_width))
        self._bars = Progress(name, BarColumn(_BAR_WIDTH), _Numbers(), _Note(), console=self._console, transient=True)
        self._whole: TaskID | None = None
        self._files: dict[str, TaskID] = {}

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, event: DownloadEvent) -> None:
        if isinstance(event, Planned):
            self.say(in_words(event))
            self._whole = self._bars.add_task("in all", total=event.total_bytes, completed=event.present_bytes)
        elif isinstance(event, Came):
            self._last = event
            self._move(event)
        elif isinstance(event, Verifying):
            task = self._file(event.file, event.size_bytes)
            self._bars.reset(task, total=None, note=f"verifying {size_words(event.size_bytes)}")
        elif isinstance(event, Fetched):
            if event.file in self._files:
                self._bars.remove_task(self._files.pop(event.file))
        elif line := in_words(event):
            if isinstance(event, Done | Discarded):
                self._clear()
            self.say(line)

    def paused(self) -> None:
        self._clear()
        super().paused()

    def say(self, line: str) -> None:
        self._console.print(Text(safe(line)), soft_wrap=True)

    def _move(self, came: Came) -> None:
        speed = f"{size_words(came.bytes_per_s)}/s" if came.bytes_per_s else ""
        left = f"{duration_words(came.eta_s)} left" if came.eta_s is not None else ""
        if self._whole is not None:
            note = ", ".join(part for part in (speed, left) if part)
            self._bars.update(self._whole, completed=came.done_bytes, note=note)
        if came.file_bytes < came.file_total_bytes or came.file in self._files:
            task, total_bytes = self._file(came.file, came.file_total_bytes), came.file_total_bytes
            self._bars.update(task, completed=came.file_bytes, total=total_bytes, note="")

    def _file(self, name: str, total_bytes: int) -> TaskID:
        if name not in self._files:
            self._files[name] = self._bars.add_task(safe(self._short(name)), total=total_bytes)
        return self._files[name]

    def _short(self, name: str) -> str:
        """Shortens a file name to the width of its column, but keeps "00001-of-00003", which distinguishes shards."""
        stem = name.removesuffix(".safetensors")
        return stem if len(stem) <= self._name_width else "…" + stem[-self._name_width + 1 :]

    def _clear(self) -> None:
        """Take the bars away, so that the last words stand alone."""
        for task in list(self._bars.task_ids):
            self._bars.remove_task(task)
        self._bars.stop()


class _Numbers(ProgressColumn):
    """27.4 MB of 512 MB; nothing of what is being verified."""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True, justify="right", width=_NUMBERS_WIDTH))

    def render(self, task: Task) -> Text:
        return Text("" if task.total is None else f"{size_words(task.completed)} of {size_words(task.total)}")


class _Note(ProgressColumn):
    """11 MB/s, 40 s left"""

    def __init__(self) -> None:
        super().__init__(Column(no_wrap=True, width=_NOTE_WIDTH))

    def render(self, task: Task) -> Text:
        return Text(task.fields.get("note") or "", style="dim")


def in_words(event: DownloadEvent) -> str:
    """The event as a line, "" where it needs none."""
    match event:
        case Resolving():
            return ""
        case Waiting():
            return f"Waiting {duration_words(event.wait_s)}: {event.why} ({event.attempt} of {event.attempts})"
        case Planned():
            return _plan(event)
        case Came():
            speed = f", {size_words(event.bytes_per_s)}/s" if event.bytes_per_s else ""
            left = f", {duration_words(event.eta_s)} left" if event.eta_s is not None else ""
            return f"{size_words(event.done_bytes)} of {size_words(event.total_bytes)}{speed}{left}"
        case Verifying():
            return f"Verifying the {size_words(event.size_bytes)} of {event.file} that are here"
        case Done():
            return _done(event)
        case Discarded():
            freed = f"{size_words(event.freed_bytes)} are free again" if event.freed_bytes else "there was nothing"
            return f"Unfinished work on {event.repo}: {freed}."
        case _:
            return ""


def _plan(event: Planned) -> str:
    missing = event.total_bytes - event.present_bytes
    files = count(len(event.files), "file")
    here = f", {size_words(event.present_bytes)} are here" if event.present_bytes and missing else ""
    return f"{event.repo} at {event.commit[:8]}: {files}, {size_words(event.total_bytes)}{here}"


def _done(event: Done) -> str:
    """Returns the last line. A download counts as verified if all of it was read in this pull."""
    ready = "Verified and ready" if event.verified_bytes == event.total_bytes else "Ready"
    speed = event.fetched_bytes / event.seconds if event.seconds else 0.0
    came = f" in {duration_words(event.seconds)}, {size_words(speed)}/s"
    how = came if event.fetched_bytes else ": it was here already"
    return f"{ready}{how}\n  {event.path}\n  redline chat --target {event.repo}"
