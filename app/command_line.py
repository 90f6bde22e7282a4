"""What every command of the terminal shares: exit codes and the parser.

0  done        1  failure        2  usage        130  stopped by Ctrl-C
"""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

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
