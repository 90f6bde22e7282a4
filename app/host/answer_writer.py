"""Answers on their way to the window: whole lines, one at a time, from whatever thread."""

from __future__ import annotations

import os
import sys
import threading
from typing import BinaryIO

from app.protocol import AnyAnswer, encode_line


class WindowGoneError(Exception):
    """Nobody reads the answers any more."""


class AnswerWriter:
    """Writes to `fd`, and what it writes to `record` too, if there is one."""

    def __init__(self, fd: int, record: BinaryIO | None = None) -> None:
        self._fd = fd
        self._record = record
        self._lock = threading.Lock()

    def say(self, answer: AnyAnswer) -> None:
        """Raises WindowGoneError."""
        line = encode_line(answer)
        with self._lock:
            self._keep(line)
            self._write(line)

    def _write(self, line: bytes) -> None:
        left = memoryview(line)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as error:
            raise WindowGoneError(f"answers cannot be written ({error.strerror})") from error

    def _keep(self, line: bytes) -> None:
        """Into the record, until it cannot be written: the window matters more."""
        if self._record is None:
            return
        try:
            self._record.write(line)
            self._record.flush()
        except OSError as error:
            print(f"redline: the recording ends here, it cannot be written ({error.strerror})", file=sys.stderr)
            self._record = None
