"""The log of the window: what a report of a fault needs, in a file of bounded size that only its user can read.

It has starts, versions, the machine, models that were loaded, errors and deaths of the engine. It has nothing from a
conversation: neither texts nor titles, and of an error whose message may quote what it was given only the kind and the
place.
"""

import logging
import os
import traceback
from collections.abc import Iterator
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import cast

from platformdirs import user_log_path

from app.safe_text import safe
from engine.errors import RedlineError

FILE = "redline.log"
MAX_BYTES, OLDER_FILES = 512 << 10, 2  # of one file; beside the newest one
_TELLING = (RedlineError, RuntimeError, MemoryError, TypeError, AttributeError, ImportError, AssertionError)

LOG = logging.getLogger("redline")
LOG.addHandler(logging.NullHandler())  # nothing is written before `open_log`
LOG.propagate = False


def logs_dir() -> Path:
    """Returns where the log is by default: on macOS ~/Library/Logs/Redline."""
    return user_log_path("Redline", appauthor=False)


def open_log(folder: Path) -> Path | None:
    """Has LOG write to a file in `folder`, which is made if need be. Returns the file, None where none can be written:
    Redline then runs without."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handler = _PrivateFile(folder / FILE, maxBytes=MAX_BYTES, backupCount=OLDER_FILES, encoding="utf-8")
    except OSError:
        return None
    handler.setFormatter(_Formatter("%(asctime)s %(levelname)s %(message)s"))
    close_log()
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    return Path(handler.baseFilename)


def close_log() -> None:
    """Closes the file; what is logged from now on goes nowhere."""
    for handler in [handler for handler in LOG.handlers if isinstance(handler, _PrivateFile)]:
        LOG.removeHandler(handler)
        with suppress(OSError, ValueError):  # what could not be written is lost
            handler.close()


def traceback_of(error: BaseException) -> str:
    """Returns the traceback of an error and of those that led to it, the first one first. Messages that may quote what
    the user or a model wrote are left out."""
    return "".join(_parts(error, set())).rstrip()


def name_of(error: BaseException) -> str:
    """Returns the kind of an error, with its message where that cannot quote a conversation."""
    kind = type(error).__name__
    if isinstance(error, OSError):
        return f"{kind}: {error.strerror}"
    return f"{kind}: {error}" if isinstance(error, _TELLING) else kind


def without_home(text: str) -> str:
    """Returns a text in which the user's home folder, which names the user, is written as ~."""
    return text.replace(str(Path.home()), "~")


def _parts(error: BaseException, seen: set[int]) -> Iterator[str]:
    """seen: ids of the errors that were told already, as two may name each other as their cause."""
    seen.add(id(error))
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if before is not None and id(before) not in seen:
        yield from _parts(before, seen)
        yield "\n\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield name_of(error)


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return safe(without_home(super().format(record)))


class _PrivateFile(RotatingFileHandler):
    def _open(self) -> TextIOWrapper:
        def opener(path: str, flags: int) -> int:
            return os.open(path, flags, 0o600)

        stream = open(self.baseFilename, self.mode, encoding=self.encoding, opener=opener)  # noqa: SIM115  kept open
        return cast(TextIOWrapper, stream)

    def handleError(self, record: logging.LogRecord) -> None:
        """Does nothing: a log that cannot be written must not disturb what it is about."""
