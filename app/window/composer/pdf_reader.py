"""Reads the text of a PDF file in a process of its own, which is killed when it takes too long or too much."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import psutil
from PySide6.QtCore import QObject, Signal

from app.pdf_text import DAMAGED, UNREADABLE, with_page_numbers
from app.store.records import Attachment
from app.window.common.child_process import ChildProcess, Ending
from app.window.common.timer import Timer, call_later

LARGEST_BYTES = 50_000_000  # of a file
MOST_SECONDS = 30.0
MOST_MEMORY_BYTES = 1 << 30
MOST_OUTPUT_BYTES = 16 << 20  # of two million characters, written as JSON
_LOOK_MS = 200
TOO_LONG = "takes too long to read. Save its text to a file and attach that."
NOT_STARTED = "cannot be read, as its reader does not start. Restart Redline, then attach it again."
TOO_LARGE = f"is larger than {LARGEST_BYTES // 1_000_000} MB. Attach part of it."


class PdfReader(QObject):
    """Reads one file after the other. read(Attachment): its text, with the number of each page. failed(str): what is
    wrong, and what to do. began(str): the name of a file that is read now; "" once all have been."""

    read = Signal(object)
    failed = Signal(str)
    began = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: list[Path] = []
        self._path: Path | None = None  # that is read now
        self._killed = ""  # why
        self._output = b""
        self._looks = 0
        self._child: ChildProcess | None = None
        self._timer = Timer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(self._look)

    def add(self, path: Path) -> None:
        """Reads this file, once the others have been read."""
        self._waiting.append(path)
        if self._path is None:
            self._next()

    @property
    def busy(self) -> bool:
        """Whether a file is being read."""
        return self._path is not None

    def cancel(self) -> None:
        """Reads no further file, and drops the one that is read now."""
        self._waiting.clear()
        if self._path is not None:
            self._path = None
            self._timer.stop()
            if self._child is not None:
                self._child.stop()
            self.began.emit("")

    def _next(self) -> None:
        path = self._path = self._waiting.pop(0) if self._waiting else None
        self.began.emit(path.name if path is not None else "")
        if path is None:
            return
        self._output, self._looks = b"", 0
        self._killed = _refusal(path)
        if self._killed:
            call_later(self, lambda: self._finish(Ending()) if self._path is path else None)
            return
        self._child = ChildProcess(self)
        self._child.line.connect(self._collect)
        self._child.ended.connect(self._finish)
        self._child.begin([sys.executable, "-P", "-m", "app.pdf_text", str(path)])
        self._timer.start()

    def _collect(self, line: bytes) -> None:
        self._output += line

    def _look(self) -> None:
        """Kills the process when it takes too long, or too much memory, or writes too much."""
        self._looks += 1
        child, memory = self._child, 0
        if child is None:
            return
        with contextlib.suppress(psutil.Error):
            memory = psutil.Process(child.processId()).memory_info().rss
        is_long = self._looks * _LOOK_MS > MOST_SECONDS * 1000
        output = len(self._output) + child.bytesAvailable()
        if is_long or memory > MOST_MEMORY_BYTES or output > MOST_OUTPUT_BYTES:
            self._kill()

    def _kill(self) -> None:
        self._killed = TOO_LONG
        if self._child is not None:
            self._child.kill()

    def _finish(self, ending: Ending) -> None:
        """Tells what has become of the file, and goes on with the next."""
        path, self._path, self._child = self._path, None, None
        self._timer.stop()
        if path is None:
            return
        pages, why = ([], NOT_STARTED) if ending.not_started else _result(self._output + ending.unfinished)
        if self._killed or why:
            self.failed.emit(f"“{path.name}” {self._killed or why}")
        else:
            self.read.emit(Attachment(name=path.name, text=with_page_numbers(pages)))
        self._next()


def is_pdf(path: Path) -> bool:
    """Returns whether a file begins as PDFs do."""
    try:
        with path.open("rb") as file:
            return file.read(5) == b"%PDF-"
    except OSError:
        return False


def _refusal(path: Path) -> str:
    """Returns why a file is not even tried, "" if it is."""
    try:
        return TOO_LARGE if path.stat().st_size > LARGEST_BYTES else ""
    except OSError as error:
        return UNREADABLE.format(error.strerror)


def _result(output: bytes) -> tuple[list[str], str]:
    """Returns the pages that a process has printed, or what is wrong with the file."""
    try:
        found = json.loads(output)
    except ValueError:
        return [], DAMAGED
    return found.get("pages", []), found.get("error", "")
