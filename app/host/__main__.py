"""The command line of the host: `python -m app.host`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from app.command_line import USAGE, Parser, notify
from app.host.engine_loop import open_model_worker
from app.host.server import AnswerWriter, Server, take_streams
from app.safe_text import guard_streams
from engine.errors import RedlineError, UsageError

if TYPE_CHECKING:
    from app.host.engine_loop import WorkerFactory

_HINT = """redline: this is the engine's host; it reads requests as JSON lines (app/protocol says which), for example
{"type": "Load", "id": 1, "pair": {}}
{"type": "Reply", "id": 2, "messages": [{"role": "user", "content": "Why is the sky blue?"}], "sampling": {}}
{"type": "Stop", "id": 2}
redline: Ctrl-D leaves
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the host until there is nobody to answer; returns the exit code. Raises SystemExit for wrong arguments."""
    guard_streams()
    args = _parser().parse_args(argv)
    try:
        open_worker, record = _worker_factory(args), _open_record(args.record)
    except RedlineError as error:
        notify(str(error))
        return USAGE
    requests, answers = take_streams()
    if os.isatty(requests):
        print(_HINT, end="", file=sys.stderr)
    return Server(requests, AnswerWriter(answers, record), open_worker, args.finish).run()


def _worker_factory(args: argparse.Namespace) -> WorkerFactory:
    """Returns what opens the worker. Raises UsageError for what is not a recording."""
    if args.replay is None:
        return partial(open_model_worker, args.cache_dir)
    from app.host.recording_player import RecordingPlayer

    player = RecordingPlayer.read(args.replay, args.speed)
    return lambda: player


def _open_record(path: Path | None) -> BinaryIO | None:
    """Returns the file to record to. Raises UsageError."""
    try:
        return None if path is None else path.open("wb")
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror}): record to another file") from error


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m app.host",
        description="Runs the engine, which reads requests and writes answers as JSON lines (see app/protocol).",
    )
    add = parser.add_argument
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models and caches (default: the user's)")
    add("--finish", action="store_true", help="at the end of input, finish the waiting requests before leaving")
    add("--record", type=Path, metavar="FILE", help="write a copy of every answer, to be replayed")
    add("--replay", type=Path, metavar="FILE", help="answer from a recording, with no model")
    add("--speed", type=float, default=1.0, metavar="X", help="speed of a replay; 0: without pauses (default: 1)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
