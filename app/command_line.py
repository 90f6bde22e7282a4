"""What every command of the terminal shares: exit codes, the parser, and the check of a file to write.

0  done        1  failure        2  usage        130  stopped by Ctrl-C
"""

from __future__ import annotations

import argparse
import os
import stat
from pathlib import Path
from typing import Any, NoReturn

from engine.errors import UsageError

OK, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, and prints texts of several lines, such as examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, where argparse would print all of the usage first."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter} | arguments)

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"redline: {message}; see `{self.prog} --help`\n")


def check_writable(path: Path, option: str) -> None:
    """Raises UsageError where `option` cannot write a file: before its contents take minutes to compute."""
    try:
        fits = _is_writable(path)
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        fits = False
    if not fits:
        raise UsageError(f"{str(path)!r} cannot be written: give {option} a file in a folder of yours")


def _is_writable(path: Path) -> bool:
    """Whether the folder takes a new file, and what stands at `path`, if anything, is a file that may be replaced."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return os.access(path.parent, os.W_OK)
    return stat.S_ISREG(mode) and os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
