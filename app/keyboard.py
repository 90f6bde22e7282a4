"""The terminal while the user waits: Ctrl-C stops a reply, typing does not show, and a line says what goes on."""

from __future__ import annotations

import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """While a reply is under way Ctrl-C asks it to stop, which the function given says; a second one insists."""
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def unseen_typing(stream: TextIO) -> Iterator[None]:
    """What is typed ahead waits for the next prompt, and does not run into the reply."""
    if not stream.isatty():
        yield
        return
    keyboard = stream.fileno()
    before = termios.tcgetattr(keyboard)
    quiet = termios.tcgetattr(keyboard)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(keyboard, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(keyboard, termios.TCSANOW, before)


class Status:
    """One line on a terminal that says what is being waited for, and goes when it is over."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream if stream.isatty() else None

    def __call__(self, text: str) -> None:
        """An empty text clears the line."""
        if self._stream is not None:
            self._stream.write(f"\r\x1b[K\x1b[2m{text} …\x1b[0m" if text else "\r\x1b[K")
            self._stream.flush()

    def clear(self) -> None:
        self("")
