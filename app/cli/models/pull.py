"""`redline models pull`: downloads a model or continues a download, and reports events."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from app.command_line import INTERRUPTED, OK
from app.inference.hub_token import read_token
from app.protocol.download_events import (
    Discarded,
    DownloadEvent,
    DownloadProgress,
    Failed,
    Paused,
    Planned,
    Resolving,
    to_line,
)
from engine.errors import HubError, RedlineError, UsageError

if TYPE_CHECKING:
    from app.cli.models.pull_view import View

_EXAMPLES = """examples:
  redline models pull mlx-community/Qwen3-0.6B-4bit
  redline models pull mlx-community/Qwen3-0.6B-4bit --verify     check the downloaded files
  redline models pull mlx-community/Qwen3-0.6B-4bit --discard    delete an unfinished download

Ctrl-C pauses; run the same command to continue. The variables of huggingface_hub apply: HF_HOME and HF_HUB_CACHE
set the folder, HF_ENDPOINT a mirror, HTTPS_PROXY a proxy, HF_TOKEN a token for one command.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "pull",
        description="Download a model to the shared Hugging Face cache, or continue a download. Fetches only data "
        "(safetensors, JSON, tokenizer, chat template) and verifies every file.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("repo", metavar="OWNER/NAME", help="name of the model on the hub, or the address of its page")
    add("--revision", metavar="R", help="branch, tag or commit (default: main)")
    actions = parser.add_mutually_exclusive_group()
    actions.add_argument(
        "--verify", action="store_true", help="check the downloaded files and fetch damaged ones again"
    )
    actions.add_argument("--discard", action="store_true", help="delete an unfinished download")
    add("--json", action="store_true", help="print events, one JSON object per line")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Downloads or discards. Raises UsageError, HubError."""
    with closing(_events(args)) as events, _terminated_like_interrupted():
        if args.json:
            return _print_lines(events, args.repo)
        from app.cli.models.pull_view import choose_view

        return _show(events, choose_view(sys.stdout.isatty()))


def _events(args: argparse.Namespace) -> Generator[DownloadEvent]:
    """Yields the events of the download. Raises UsageError, HubError."""
    from models.hub.client import Hub, default_hub

    plain = default_hub()
    reference = read_reference(args.repo, args.revision, plain.endpoint)
    if args.discard:
        from models.hub.repo_cache import discard

        yield Discarded(reference.repo, discard(plain.cache, reference.repo))
        return
    from models.hub.download import pull

    hub = Hub(plain.endpoint, plain.cache, read_token(plain.endpoint))
    try:
        with closing(pull(hub, reference.repo, reference.revision, args.verify)) as events:
            yield from events
    except HubError as error:
        raise with_a_guess(error, reference.repo) from error


def _print_lines(events: Generator[DownloadEvent], repo: str) -> int:
    """Prints each event as it comes, and a last one for the end."""
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


def _print_line(event: DownloadEvent) -> None:
    """Prints an event in one write, so that readers get whole lines."""
    sys.stdout.write(f"{to_line(event)}\n")
    sys.stdout.flush()


def _if_paused(event: DownloadEvent, before: Paused) -> Paused:
    """Returns the last event if the download were paused after `event`."""
    if isinstance(event, Planned):
        return Paused(event.repo, event.present_bytes, event.total_bytes)
    return Paused(before.repo, event.done_bytes, event.total_bytes) if isinstance(event, DownloadProgress) else before


def _show(events: Generator[DownloadEvent], view: View) -> int:
    with view:
        try:
            for event in events:
                view.show(event)
                if isinstance(event, Resolving) and (trouble := known_trouble(event.repo)):
                    print(f"redline: {trouble}; downloading anyway", file=sys.stderr)
        except KeyboardInterrupt:
            view.paused()
            return INTERRUPTED
    return OK


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """Makes SIGTERM pause as Ctrl-C does."""

    def interrupt(_: int, __: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


MAIN = "main"
_LIKE = 0.8


@dataclass(frozen=True)
class HubReference:
    """A repository of the hub and a revision of it, neither checked yet."""

    repo: str
    revision: str


def read_reference(argument: str, revision: str | None, endpoint: str) -> HubReference:
    """`owner/name`, or what a browser shows at `endpoint`: its address, with /tree/REVISION where there is one.

    Raises UsageError for two revisions.
    """
    text = argument.strip()
    if not text.startswith(f"{endpoint}/"):
        return HubReference(text, revision or MAIN)
    parts = text.removeprefix(f"{endpoint}/").partition("?")[0].strip("/").split("/")
    shown = "/".join(parts[3:]) if parts[2:3] == ["tree"] else ""
    if shown and revision not in (None, shown):
        raise UsageError(f"the address names the revision {shown!r}, --revision another: give one of them")
    return HubReference("/".join(parts[:2]), revision or shown or MAIN)


def known_trouble(repo: str) -> str:
    """Why Redline cannot load this model, as the catalogue says; "" where it does not."""
    from models.catalogue import read_catalogue

    entry = read_catalogue().entries.get(repo)
    return entry.trouble if entry is not None else ""


def with_a_guess(error: HubError, repo: str) -> HubError:
    """`error`, with the model of the catalogue that may have been meant where there is none of this name."""
    if error.reason not in ("missing", "token"):
        return error
    from models.catalogue import read_catalogue

    known = read_catalogue().entries
    names = {name.rpartition("/")[2].casefold(): name for name in known}
    close = get_close_matches(repo.rpartition("/")[2].casefold(), names, n=1, cutoff=_LIKE)
    if repo in known or not close:
        return error
    return HubError(f"{error}; did you mean {names[close[0]]}?", error.reason)
