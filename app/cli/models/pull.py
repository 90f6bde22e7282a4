"""`redline models pull`: downloads a model or continues a download.

On a terminal it shows a bar for the whole and one for each file, in a pipe a line for what matters, and with --json an
event per line (`app.protocol.download_events`).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Column
from rich.text import Text

from app.cli.terminal.keyboard import terminated_like_interrupted
from app.cli.terminal.output import output_console
from app.command_line import INTERRUPTED, OK, add_command, notify, print_json
from app.duration_text import duration_words
from app.inference.hub_token import read_token
from app.model_words import pace
from app.protocol.download_events import (
    Discarded,
    Done,
    DownloadEvent,
    DownloadProgress,
    Failed,
    Fetched,
    Paused,
    Planned,
    Resolving,
    Verifying,
    Waiting,
    to_line,
)
from app.reply_statistics import count
from app.safe_text import safe, safe_line
from engine.errors import HubError, RedlineError, UsageError
from models.catalogue.entries import read_catalogue
from models.size_text import size_words

if TYPE_CHECKING:
    from app.command_line import Commands
    from models.hub.client import Hub

MAIN = "main"
_HEAD_SHARDS = "head-shards"  # in the cache: downloads of heads that are not finished
_SIMILARITY = 0.8  # of a name that may have been meant
_LINE_EVERY_S = 10.0
_NAME_WIDTHS = (20, 34)  # the narrower on a terminal of 80 columns
_BAR_WIDTH = 13
_NUMBERS_WIDTH = 19  # "999 bytes of 999 GB"; every width is fixed, so that nothing jumps
_NOTE_WIDTH = 25  # "999 MB/s, 9 min 59 s left"
_DESCRIPTION = (
    "Download a model into the shared Hugging Face cache, or continue a download. Fetches only data (safetensors, "
    "JSON, tokenizer, chat template) and verifies every file. If a quantized model lacks its MTP head (a drafter), "
    "the head is fetched from the original model."
)
_EXAMPLES = """examples:
  redline models pull mlx-community/Qwen3-0.6B-4bit
  redline models pull mlx-community/Qwen3-0.6B-4bit --verify     check the downloaded files
  redline models pull mlx-community/Qwen3-0.6B-4bit --discard    delete an unfinished download

Ctrl-C pauses; run the same command to continue. The variables of huggingface_hub apply: HF_HOME and HF_HUB_CACHE
set the folder, HF_ENDPOINT a mirror, HTTPS_PROXY a proxy, HF_TOKEN a token for one command.
"""


def add_pull(commands: Commands) -> None:
    parser = add_command(commands, "pull", run, _DESCRIPTION, _EXAMPLES)
    add = parser.add_argument
    add("repo", metavar="OWNER/NAME", help="name of the model on the hub, or the address of its page")
    add("--revision", metavar="R", help="branch, tag or commit (default: main)")
    add("--no-head", action="store_true", help="do not fetch the MTP head that a quantized model lacks")
    action = parser.add_mutually_exclusive_group().add_argument
    action("--verify", action="store_true", help="check the downloaded files and fetch damaged ones again")
    action("--discard", action="store_true", help="delete an unfinished download")
    add("--json", action="store_true", help="print events, one JSON object per line")
    add("--cache-dir", type=Path, metavar="DIR", help="folder for an unfinished MTP head (default: the user's cache)")


def run(args: argparse.Namespace) -> int:
    """Downloads or discards. Raises UsageError, HubError."""
    with closing(_events(args)) as events, terminated_like_interrupted():
        if args.json:
            return _print_events(events, args.repo)
        with Bars(output_console()) if sys.stdout.isatty() else Lines() as view:
            return _show(events, view)


def _events(args: argparse.Namespace) -> Generator[DownloadEvent]:
    """Yields the events of the download. Raises UsageError, HubError."""
    from models.hub.client import Hub, default_hub

    plain = default_hub()
    reference = read_reference(args.repo, args.revision, plain.endpoint)
    if args.discard:
        from models.hub.repo_cache import discard

        yield Discarded(
            reference.repo, discard(plain.cache, reference.repo) + _discard_head(reference.repo, args.cache_dir)
        )
        return
    from models.hub.download import pull

    hub = Hub(plain.endpoint, plain.cache, read_token(plain.endpoint))
    try:
        with closing(pull(hub, reference.repo, reference.revision, args.verify)) as events:
            for event in events:
                if isinstance(event, Done) and not args.no_head:
                    yield from _head_events(hub, event, args.cache_dir)
                yield event
    except HubError as error:
        raise with_suggestion(error, reference.repo) from error


def _head_events(hub: Hub, done: Done, root: Path | None) -> Generator[DownloadEvent]:
    """Fetches the MTP head that a downloaded model lacks, if the catalogue knows where it is. Without it the model is
    complete too, so that a failure is only said."""
    original = _original(done)
    if original is None:
        return
    from models.convert.stored_head import fetch_head
    from models.paths import cache_dir

    notify(f"fetching the MTP head of {done.repo} from {original} (skip it with --no-head)")
    try:
        yield from fetch_head(hub, original, Path(done.path), cache_dir(root) / _HEAD_SHARDS)
    except (RedlineError, OSError) as error:
        reason = " ".join(str(error).split())
        notify(f"the MTP head was not fetched ({reason}); the model works without it; pull again to retry")


def _discard_head(repo: str, root: Path | None) -> int:
    """Deletes what an unfinished fetch of the head of `repo` has left; returns the number of bytes freed."""
    from models.convert.stored_head import discard_head
    from models.paths import cache_dir

    entry = read_catalogue().target(repo)
    return discard_head(entry.head_from, cache_dir(root) / _HEAD_SHARDS) if entry and entry.head_from else 0


def _original(done: Done) -> str | None:
    """Returns the repository whose MTP head the downloaded model lacks, None where it has one or none is known."""
    from models.drafters import own_head

    entry = read_catalogue().target(done.repo)
    return entry.head_from if entry is not None and own_head(Path(done.path)) is None else None


def _print_events(events: Generator[DownloadEvent], repo: str) -> int:
    """Prints each event as it comes, and a last one for the end."""
    paused, spelled = Paused(repo, 0, 0), ""
    try:
        for event in events:
            if isinstance(event, Planned):
                spelled = spelled or event.repo  # the repository of a head comes later
                paused = Paused(spelled, event.present_bytes, event.total_bytes)
            elif isinstance(event, DownloadProgress):
                paused = Paused(paused.repo, event.done_bytes, event.total_bytes)
            _print_event(event)
    except KeyboardInterrupt:
        events.close()
        _print_event(paused)
        return INTERRUPTED
    except RedlineError as error:
        reason = error.reason if isinstance(error, HubError) else "usage"
        _print_event(Failed(reason, " ".join(str(error).split())))
        raise
    return OK


def _print_event(event: DownloadEvent) -> None:
    print_json(to_line(event))


def _show(events: Generator[DownloadEvent], view: Lines) -> int:
    try:
        for event in events:
            view.show(event)
            if isinstance(event, Resolving) and (trouble := known_trouble(event.repo)):
                notify(f"{trouble}; downloading anyway")
    except KeyboardInterrupt:
        view.paused()
        return INTERRUPTED
    return OK


# --- what is downloaded


@dataclass(frozen=True)
class HubReference:
    """A repository of the hub and a revision of it, neither checked yet."""

    repo: str
    revision: str


def read_reference(argument: str, revision: str | None, endpoint: str) -> HubReference:
    """Reads `owner/name`, or the address of a page at `endpoint`, which may contain /tree/REVISION.

    Raises UsageError for two revisions.
    """
    text = argument.strip()
    if not text.startswith(f"{endpoint}/"):
        return HubReference(text, revision or MAIN)
    parts = text.removeprefix(f"{endpoint}/").partition("?")[0].strip("/").split("/")
    shown = "/".join(parts[3:]) if parts[2:3] == ["tree"] else ""
    if shown and revision not in (None, shown):
        raise UsageError("the address and --revision name different revisions: give only one")
    return HubReference("/".join(parts[:2]), revision or shown or MAIN)


def known_trouble(repo: str) -> str:
    """Returns why Redline cannot load this model according to the catalogue, or ""."""
    entry = read_catalogue().entries.get(repo)
    return entry.trouble if entry is not None else ""


def with_suggestion(error: HubError, repo: str) -> HubError:
    """Returns `error`, with the model of the catalogue that may have been meant if there is none of this name."""
    if error.reason not in ("missing", "token"):
        return error
    known = read_catalogue().entries
    names = {name.rpartition("/")[2].casefold(): name for name in known}
    close = get_close_matches(repo.rpartition("/")[2].casefold(), names, n=1, cutoff=_SIMILARITY)
    if repo in known or not close:
        return error
    return HubError(f"{error}; did you mean {names[close[0]]}?", error.reason)


# --- what is shown


class Lines:
    """Shows a line for what matters; nothing is written over."""

    def __init__(self) -> None:
        self._printed_s = time.monotonic()
        self._last: DownloadProgress | None = None

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        """Leaves nothing to tidy up."""

    def show(self, event: DownloadEvent) -> None:
        """Shows an event."""
        if isinstance(event, DownloadProgress):
            self._last = event
            if time.monotonic() - self._printed_s < _LINE_EVERY_S:
                return
        if line := event_text(event):
            self._printed_s = time.monotonic()
            self.print(line)

    def paused(self) -> None:
        """Shows that Ctrl-C was pressed."""
        last = self._last
        share = f" at {size_words(last.done_bytes)} of {size_words(last.total_bytes)}" if last else ""
        self.print(f"Paused{share}; run the same command to continue.")

    def print(self, line: str) -> None:
        """Prints a line."""
        print(safe(line), flush=True)


class Bars(Lines):
    """Shows a bar for the whole download, and one for each file that is being fetched."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        rest = _BAR_WIDTH + _NUMBERS_WIDTH + _NOTE_WIDTH + 3
        self._name_width = max(_NAME_WIDTHS[0], min(_NAME_WIDTHS[1], console.width - rest))
        numbers = Column(no_wrap=True, justify="right", width=_NUMBERS_WIDTH)
        self._bars = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(width=self._name_width)),
            BarColumn(_BAR_WIDTH),
            TextColumn("{task.fields[numbers]}", justify="right", table_column=numbers),
            TextColumn("{task.fields[note]}", "dim", table_column=Column(no_wrap=True, width=_NOTE_WIDTH)),
            console=console,
            transient=True,
        )
        self._tasks: dict[str, TaskID] = {}  # by file, "" for the whole

    def __enter__(self) -> Bars:
        self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()

    def show(self, event: DownloadEvent) -> None:
        if isinstance(event, Planned):
            self.print(event_text(event))
            self._move("", event.present_bytes, event.total_bytes)
        elif isinstance(event, DownloadProgress):
            self._last = event
            self._move("", event.done_bytes, event.total_bytes, ", ".join(_pace(event)))
            if event.file_bytes < event.file_total_bytes or event.file in self._tasks:
                self._move(event.file, event.file_bytes, event.file_total_bytes)
        elif isinstance(event, Verifying):
            self._move(event.file, 0, None, f"verifying {size_words(event.size_bytes)}")
        elif isinstance(event, Fetched):
            if event.file in self._tasks:
                self._bars.remove_task(self._tasks.pop(event.file))
        elif line := event_text(event):
            if isinstance(event, Done | Discarded):
                self._clear()
            self.print(line)

    def paused(self) -> None:
        self._clear()
        super().paused()

    def print(self, line: str) -> None:
        self._console.print(Text(line), soft_wrap=True)

    def _move(self, file: str, done_bytes: int, total_bytes: int | None, note: str = "") -> None:
        """Moves the bar of a file, "" for the whole. total_bytes: None if there is no measure of what is done."""
        if file not in self._tasks:
            name = safe_line(self._short(file)) if file else "total"
            self._tasks[file] = self._bars.add_task(name, total=None, numbers="", note="")
        numbers = "" if total_bytes is None else f"{size_words(done_bytes)} of {size_words(total_bytes)}"
        self._bars.update(self._tasks[file], completed=done_bytes, total=total_bytes, numbers=numbers, note=note)

    def _short(self, name: str) -> str:
        """Shortens a file name to the width of its column, but keeps "00001-of-00003", which distinguishes shards."""
        stem = name.removesuffix(".safetensors")
        return stem if len(stem) <= self._name_width else "…" + stem[-self._name_width + 1 :]

    def _clear(self) -> None:
        """Removes the bars, so that the last words stand alone."""
        for task in list(self._bars.task_ids):
            self._bars.remove_task(task)
        self._bars.stop()


def event_text(event: DownloadEvent) -> str:
    """Returns an event as text, or "" if it needs none."""
    match event:
        case Waiting():
            return f"Waiting {duration_words(event.wait_s)}: {event.why} ({event.attempt} of {event.attempts})"
        case Planned():
            missing, files = event.total_bytes - event.present_bytes, count(len(event.files), "file")
            here = f", {size_words(event.present_bytes)} already downloaded" if event.present_bytes and missing else ""
            return f"{event.repo} at {event.commit[:8]}: {files}, {size_words(event.total_bytes)}{here}"
        case DownloadProgress():
            done = f"{size_words(event.done_bytes)} of {size_words(event.total_bytes)}"
            return ", ".join((done, *_pace(event)))
        case Verifying():
            return f"Verifying the {size_words(event.size_bytes)} of {event.file} already downloaded"
        case Done():
            return _done_text(event)
        case Discarded():
            if not event.freed_bytes:
                return f"There is no unfinished download of {event.repo}."
            return f"Deleted the unfinished download of {event.repo}: {size_words(event.freed_bytes)} freed."
        case _:
            return ""


def _pace(event: DownloadProgress) -> list[str]:
    return pace(event.bytes_per_s or None, event.eta_s)


def _done_text(event: Done) -> str:
    """Returns the last lines. A download counts as verified if all of it was read in this pull."""
    ready = "Verified and ready" if event.verified_bytes == event.total_bytes else "Ready"
    speed = event.fetched_bytes / event.seconds if event.seconds else 0.0
    fetched = f" in {duration_words(event.seconds)}, {size_words(speed)}/s"
    how = fetched if event.fetched_bytes else ": already downloaded"
    return f"{ready}{how}\n  {event.path}\n  redline chat --target {event.repo}"
