"""The commands of `redline`: run in this process, or on a terminal of their own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple


class Outcome(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on standard output."""
        return json.loads(self.out)

    @property
    def events(self) -> list[Any]:
        """The documents on standard output, one a line."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def complaint(self) -> str:
        """The last line on standard error."""
        return self.err.splitlines()[-1]

    @property
    def only_line(self) -> str:
        """The one line on standard error, with nothing on standard output."""
        assert self.out == "" and self.err.startswith("redline: ") and self.err.count("\n") == 1, self
        return self.err


Redline = Callable[..., Outcome]


def run_on_terminal(*words: object, **environment: str) -> tuple[int, str]:
    """Runs a command in a process with a terminal of its own. Returns the exit code and what the terminal was sent."""
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "app", *map(str, words)]
    surroundings = os.environ | {"TERM": "xterm-256color", "COLUMNS": "200", "LINES": "30"} | environment
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=surroundings) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # Linux's word for the end of a terminal
            while piece := os.read(ours, 1 << 16):
                seen += piece
    os.close(ours)
    return process.returncode, seen.decode(errors="replace")
