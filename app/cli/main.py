"""The `redline` command: arguments to a command, errors to one line and an exit code. Without a command, the window.

    0  done        1  failure        2  usage        130  stopped by Ctrl-C

A command is a module, imported only when it runs, so that help and usage errors are quick. Its `add_parser` adds the
options and the function that runs it; its one line of help stands here.
"""

import argparse
import errno
import importlib
import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from app.command_line import FAILURE, INTERRUPTED, OK, USAGE, Parser, lost_machine, notify
from app.macos import activity
from app.safe_text import guard_streams
from engine.errors import BackendError, RedlineError, UsageError
from models.package_versions import version_of

COMMANDS = {
    "chat": "chat with a model, or get one reply to --prompt",
    "race": "compare plain and speculative decoding side by side",
    "bench": "compare drafters and temperatures on a file of prompts",
    "predict": "predict the speed-up of a drafter before you use it",
    "fit": "train a drafter for a target on this machine",
    "models": "show what this machine can run; download, import and remove models",
    "verify": "check an exported conversation against plain decoding",
    "serve": "serve a model to other programs over the OpenAI and Anthropic protocols",
    "cluster": "find, check and measure the machines that share a model",
    "doctor": "check this machine and suggest fixes",
}
AWAKE = {"serve", "race", "bench", "predict", "fit", "models", "verify"}  # they run by themselves, perhaps for hours
_NATIVE = ("mlx", "mlx_lm", "transformers", "tokenizers", "numpy")


class _Version(argparse.Action):
    """Looks the version up only when --version is given."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"redline {version_of('redline')}")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code. A bug shows its traceback."""
    _replace_unencodable()
    guard_streams()
    try:
        code = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code
    except RedlineError as error:
        return _fail(error)
    except RuntimeError as error:
        return _fail(lost_machine(error))
    except ImportError as error:
        return _fail(_missing_library(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the flush at exit complains again
        return FAILURE
    except (OSError, ValueError) as error:
        return _fail(_bad_name(error))


def _run(words: list[str]) -> int:
    parser = _parser(next((word for word in words if word in COMMANDS), None))
    try:
        args = parser.parse_args(words)
    except SystemExit as done:
        return done.code if isinstance(done.code, int) else OK
    with activity(f"redline {args.command}") if args.command in AWAKE else nullcontext():
        return int(args.run(args))


def _parser(chosen: str | None) -> Parser:
    """Returns the parser of all commands; only the `chosen` one has its options."""
    parser = Parser(
        prog="redline",
        description="Local chat with exact speculative decoding. Without a command, opens the window.",
        epilog="`redline COMMAND --help` explains a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    if chosen is None:
        _add_window(parser)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command", parser_class=Parser)
    for name, line in COMMANDS.items():
        if name == chosen:
            importlib.import_module(f"app.cli.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=line)
    return parser


def _add_window(parser: Parser) -> None:
    """Adds the window's own options."""
    add = parser.add_argument_group("the window").add_argument
    add("--data-dir", type=Path, metavar="DIR", help="folder of conversations (default: the user's data folder)")
    add("--replay", type=Path, metavar="FILE", help="replay recorded events instead of a model")
    parser.set_defaults(run=_open_window)


def _open_window(args: argparse.Namespace) -> int:
    from app.window.main_window.start import WindowOptions, run

    return run(WindowOptions(args.data_dir, args.replay))


def _fail(error: RedlineError) -> int:
    notify(str(error))
    return USAGE if isinstance(error, UsageError) else FAILURE


def _missing_library(error: ImportError) -> RedlineError:
    """Returns the error for a native library that cannot be imported. Any other failed import is a bug."""
    if (error.name or "").split(".")[0] not in _NATIVE:
        raise error
    return BackendError(f"{error.name} cannot be loaded ({error}): run `redline doctor` to see what is missing")


def _bad_name(error: OSError | ValueError) -> UsageError:
    """Returns the error for an argument that can name no file. Anything else is a bug, and raised again."""
    if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
        return UsageError(f"{str(error.filename)[:60]}… is too long for the name of a file: check the argument")
    if "null byte" in str(error):
        return UsageError("the name of a file cannot have a NUL character: check the arguments")
    raise error


def _replace_unencodable() -> None:
    """Prints question marks instead of a traceback on a terminal that is not UTF-8."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
