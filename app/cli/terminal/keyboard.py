"""The keyboard while the user waits: Ctrl-C stops a reply, typing does not show, and keys can be read one by one."""

import os
import re
import select
import signal
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, TextIO

LEFT, RIGHT = "\x1b[D", "\x1b[C"
_KEY = re.compile(r"\x1b\[[A-Z]|.", re.DOTALL)
_READ_BYTES = 64


@contextmanager
def ctrl_c() -> Iterator[Callable[[], bool]]:
    """Yields a function that returns whether Ctrl-C was pressed, which asks a reply to stop. Pressed a second time, it
    raises KeyboardInterrupt."""
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
def terminated_like_interrupted() -> Iterator[None]:
    """Makes SIGTERM stop as Ctrl-C does, so that locks are released."""

    def interrupt(_: int, __: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def unseen_typing(stream: TextIO) -> Iterator[None]:
    """Keeps what is typed ahead for the next prompt, and out of the reply that is being shown."""
    with _without(stream, termios.ECHO):
        yield


@contextmanager
def key_presses(stream: TextIO) -> Iterator[Callable[[], list[str]]]:
    """Yields a function that returns the keys pressed since its last call, unseen and without Enter; arrows are the
    escape sequences that terminals send. It returns none if `stream` is not a terminal."""

    def pressed() -> list[str]:
        keyboard = stream.fileno()
        waiting, _, _ = select.select([keyboard], [], [], 0)
        return _KEY.findall(os.read(keyboard, _READ_BYTES).decode(errors="ignore")) if waiting else []

    with _without(stream, termios.ECHO | termios.ICANON):
        yield pressed if stream.isatty() else list


@contextmanager
def _without(stream: TextIO, flags: int) -> Iterator[None]:
    """Clears local modes of a terminal for a while. Does nothing if `stream` is not a terminal."""
    if not stream.isatty():
        yield
        return
    before = termios.tcgetattr(stream)
    changed = termios.tcgetattr(stream)
    changed[3] &= ~flags
    termios.tcsetattr(stream, termios.TCSANOW, changed)
    try:
        yield
    finally:
        termios.tcsetattr(stream, termios.TCSADRAIN, before)
