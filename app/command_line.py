"""What every command of the terminal shares: exit codes, parser, options, notices, and checks of files to write.

0  done        1  failure        2  usage        130  stopped by Ctrl-C
"""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from app.safe_text import safe_json, safe_line
from app.spelling_suggestion import did_you_mean
from engine.backend import raise_if_machine_lost
from engine.errors import MachineLostError, RedlineError, UsageError

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

OK, FAILURE, USAGE, INTERRUPTED = 0, 1, 2, 130
NOTICE, AGAIN = "redline: ", ": start Redline again"  # begins a notice; ends one, where the window starts it itself


def lost_machine(error: RuntimeError) -> RedlineError:
    """Returns the error for a machine that MLX has lost. Anything else is a bug, and raised again."""
    try:
        raise_if_machine_lost(error)
    except MachineLostError as lost:
        return lost
    raise error


class HelpFormatter(argparse.HelpFormatter):
    """Wraps paragraphs, and prints texts of several lines, such as examples, as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """Reports an error in one line, where argparse would print all of the usage first, and says what was probably
    meant."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter} | arguments)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        try:
            super()._check_value(action, value)
        except argparse.ArgumentError as error:
            error.message += did_you_mean(str(value), map(str, action.choices or ()))
            raise

    def error(self, message: str) -> NoReturn:
        if message.startswith("unrecognized arguments: -"):
            message += did_you_mean(message.split()[2].partition("=")[0], _option_names(self))
        see = " See" if message.endswith("?") else "; see"
        self.exit(USAGE, f"redline: {safe_line(message)}{see} `{self.prog} --help`\n")


def _option_names(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yields the options of a parser and of its commands; only those of the command that was chosen are known."""
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _option_names(command)


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    description: str,
    examples: str | None = None,
) -> argparse.ArgumentParser:
    """Adds a command and returns its parser. run: does the work and returns the exit code."""
    parser = commands.add_parser(name, description=description, epilog=examples)
    parser.set_defaults(run=run)
    return parser


def add_common(parser: argparse.ArgumentParser) -> None:
    """Adds the options that the commands about models share."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--cache-dir", type=Path, metavar="DIR", help="folder of imported models (default: the user's cache)"
    )


def notify(text: str) -> None:
    """Prints untrusted text as a line on standard error, where it does not mix with the output."""
    print(f"{NOTICE}{safe_line(text)}", file=sys.stderr, flush=True)


def print_json(text: str) -> None:
    """Prints a JSON text on standard output in one write, so that readers get whole lines."""
    sys.stdout.write(safe_json(text.removesuffix("\n")) + "\n")
    sys.stdout.flush()


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
