"""The terminal while the user waits: Ctrl-C stops a reply, typing does not show, keys count one by one, and a line
says what goes on."""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

LEFT, RIGHT = "\x1b[D", "\x1b[C"
_KEY = re.compile(r"\x1b\[[A-Z]|.", re.DOTALL)
_MOST = 64  # bytes of keys at a time


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """While a reply is under way Ctrl-C asks it to stop, which the function given says; a second one insists."""
    stopping = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal stopping
        if stopping:
            raise KeyboardInterrupt
        stopping = True

    before = signal.signal(signal.SIGINT, ask)
    try:
        yield lambda: stopping
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


@contextmanager
def key_presses(stream: TextIO) -> Iterator[Callable[[], list[str]]]:
    """Keys as they are pressed, unseen and without Enter; the function given says which were since it was last asked,
    arrows as the escape sequences that terminals send. None where `stream` is no terminal."""
    if not stream.isatty():
        yield list
        return
    keyboard = stream.fileno()
    before = termios.tcgetattr(keyboard)
    tty.setcbreak(keyboard)

    def pressed() -> list[str]:
        waits, _, _ = select.select([keyboard], [], [], 0)
        return _KEY.findall(os.read(keyboard, _MOST).decode(errors="ignore")) if waits else []

    try:
        yield pressed
    finally:
        termios.tcsetattr(keyboard, termios.TCSADRAIN, before)


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
