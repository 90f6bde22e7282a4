"""What every command of the terminal shares: exit codes and the parser.

0  done        1  failure        2  usage        130  stopped by Ctrl-C
"""

from __future__ import annotations

import argparse
from typing import NoReturn

OK, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, where argparse would print all of the usage first."""

    def error(self, message: str) -> NoReturn:
        self.exit(USAGE, f"redline: {message}; see `{self.prog} --help`\n")
