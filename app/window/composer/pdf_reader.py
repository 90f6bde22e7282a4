"""Reads the text of a PDF file in a process of its own, which is killed when it takes too long or too much."""

import contextlib
import sys
from functools import partial
from pathlib import Path

import psutil
from PySide6.QtCore import QObject, Signal

from app.pdf_text import DAMAGED, with_page_numbers
from app.store.records import Attachment
from app.window.common.child_process import ChildProcess, Ending
from app.window.common.timer import Timer

MOST_SECONDS = 30.0
MOST_MEMORY_BYTES = 1 << 30
MOST_OUTPUT_BYTES = 16 << 20  # of two million characters, written as JSON
_LOOK_MS = 200
TOO_LONG = "takes too long to read. Save its text to a file and attach that."
NOT_STARTED = "cannot be read, as its reader does not start. Restart Redline, then attach it again."


class PdfReader(QObject):
    """Reads one file after the other. read(Attachment): its text, with the number of each page. failed(str): what is
    wrong, and what to do. began(str): the name of a file that is read now; "" once all have been."""

    read = Signal(object)
    failed = Signal(str)
    began = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: list[Path] = []
        self._child: ChildProcess | None = None
        self._looks, self._too_long = 0, False
        self._timer = Timer(self, interval=_LOOK_MS)
        self._timer.timeout.connect(self._look)

    def add(self, path: Path) -> None:
        """Reads this file, once the others have been read."""
        self._waiting.append(path)
        if self._child is None:
            self._next()

    @property
    def busy(self) -> bool:
        """Whether a file is being read."""
        return self._child is not None

    def cancel(self) -> None:
        """Reads no further file, and drops the one that is read now."""
        self._waiting.clear()
        if self._child is not None:
            self._child.stop()

    def _next(self) -> None:
        if not self._waiting:
            self.began.emit("")
            return
        path = self._waiting.pop(0)
        self._looks, self._too_long = 0, False
        child = self._child = ChildProcess(self)
        child.ended.connect(partial(self._finish, path))
        child.begin([sys.executable, "-P", "-m", "app.pdf_text", str(path)])
        self._timer.start()
        self.began.emit(path.name)

    def _look(self) -> None:
        """Kills the process when it takes too long, or too much memory, or writes too much."""
        self._looks += 1
        child, memory = self._child, 0
        if child is None:
            return
        with contextlib.suppress(psutil.Error):
            memory = psutil.Process(child.processId()).memory_info().rss
        is_long = self._looks * _LOOK_MS > MOST_SECONDS * 1000
        output = len(child.output) + child.bytesAvailable()
        if is_long or memory > MOST_MEMORY_BYTES or output > MOST_OUTPUT_BYTES:
            self._too_long = True
            child.kill()

    def _finish(self, path: Path, ending: Ending) -> None:
        """Tells what has become of the file, and goes on with the next."""
        self._child = None
        self._timer.stop()
        answer = ending.answer
        if "pages" in answer and not self._too_long:
            self.read.emit(Attachment(name=path.name, text=with_page_numbers(answer["pages"])))
        elif not ending.stopped:
            why = NOT_STARTED if ending.not_started else answer.get("error", DAMAGED)
            self.failed.emit(f"“{path.name}” {TOO_LONG if self._too_long else why}")
        self._next()


def is_pdf(path: Path) -> bool:
    """Returns whether a file begins as PDFs do."""
    try:
        with path.open("rb") as file:
            return file.read(5) == b"%PDF-"
    except OSError:
        return False
