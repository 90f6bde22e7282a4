"""`redline models pull`: download a model, or go on with a download; everything it does is told as events."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from app.cli import INTERRUPTED, OK
from app.models.asked import asked_for, known_trouble, with_a_guess
from app.models.events import Asking, Discarded, Failed, Paused, Planned, Progress, Told, to_line
from app.models.tokens import read_token
from engine.errors import HubError, RedlineError

if TYPE_CHECKING:
    from app.models.pull_view import View

_EXAMPLES = """examples:
  redline models pull mlx-community/Qwen3-0.6B-4bit
  redline models pull mlx-community/Qwen3-0.6B-4bit --verify     read what is here again
  redline models pull mlx-community/Qwen3-0.6B-4bit --discard    throw a half of it away

Ctrl-C pauses: the same command goes on where it was. Settings of huggingface_hub hold here too: HF_HOME and
HF_HUB_CACHE say where models go, HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy, HF_TOKEN a token for one command.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "pull",
        description="Download a model into the Hugging Face cache, which other programs share, or go on with a "
        "download. Only data is fetched (safetensors, JSON, tokenizer, chat template), and every file is verified.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("repo", metavar="OWNER/NAME", help="the model, as the hub calls it, or its page's address")
    add("--revision", metavar="R", help="a branch, a tag or a commit (default: main)")
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--verify", action="store_true", help="read again what is here, fetch anew what is damaged")
    ways.add_argument("--discard", action="store_true", help="throw an unfinished download of it away instead")
    add("--json", action="store_true", help="print what happens as events, one JSON object a line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Download, or discard. Raises UsageError, HubError."""
    with closing(_events(args)) as events, _terminated_like_interrupted():
        if args.json:
            return _print_lines(events, args.repo)
        from app.models.pull_view import choose_view

        return _show(events, choose_view(sys.stdout.isatty()))


def _events(args: argparse.Namespace) -> Generator[Told]:
    """Whatever happens. Raises UsageError, HubError."""
    from models.hub.hub import Hub, default_hub

    plain = default_hub()
    asked = asked_for(args.repo, args.revision, plain.endpoint)
    if args.discard:
        from models.hub.discard import discard

        yield Discarded(asked.repo, discard(plain.cache, asked.repo))
        return
    from models.hub.pull import pull

    hub = Hub(plain.endpoint, plain.cache, read_token(plain.endpoint))
    try:
        with closing(pull(hub, asked.repo, asked.revision, args.verify)) as events:
            yield from events
    except HubError as error:
        raise with_a_guess(error, asked.repo) from error


def _print_lines(events: Generator[Told], repo: str) -> int:
    """Each event the moment it comes; how it ends is an event too."""
    paused = Paused(repo, 0, 0)
    try:
        for event in events:
            paused = _if_paused(event, paused)
            _print_line(event)
    except KeyboardInterrupt:
        events.close()
        _print_line(paused)
        return INTERRUPTED
    except RedlineError as error:
        reason = error.reason if isinstance(error, HubError) else "usage"
        _print_line(Failed(reason, " ".join(str(error).split())))
        raise
    return OK


def _print_line(event: Told) -> None:
    """In one write, so that a reader never has half of it for long."""
    sys.stdout.write(f"{to_line(event)}\n")
    sys.stdout.flush()


def _if_paused(event: Told, before: Paused) -> Paused:
    """What the last line would be if the download ended after `event`."""
    if isinstance(event, Planned):
        return Paused(event.repo, event.present_bytes, event.total_bytes)
    return Paused(before.repo, event.done_bytes, event.total_bytes) if isinstance(event, Progress) else before


def _show(events: Generator[Told], view: View) -> int:
    with view:
        try:
            for event in events:
                view.show(event)
                if isinstance(event, Asking) and (trouble := known_trouble(event.repo)):
                    print(f"redline: {trouble}; it is downloaded all the same", file=sys.stderr)
        except KeyboardInterrupt:
            view.paused()
            return INTERRUPTED
    return OK


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM pauses as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
