"""`redline models check`: checks on the hub that everything in the catalogue still exists."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from app.cli.terminal.safe_text import safe
from app.command_line import FAILURE, OK
from app.inference.hub_token import read_token

if TYPE_CHECKING:
    from models.catalogue import Entry
    from models.catalogue.hub_check import EntryState, State
    from models.hub.client import Hub

_CLEAR_LINE = "\r\x1b[K"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "check",
        description="Check on the hub that every entry of the catalogue still exists at its revision. Downloads "
        "nothing. Exit code 1 if an entry is gone or could not be checked.",
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="check only entries with all these words")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Raises HubError where the way to the hub is at fault; UsageError where no entry has the words."""
    from engine.errors import UsageError
    from models.catalogue import read_catalogue
    from models.catalogue.search import search
    from models.hub.client import default_hub

    entries = search(read_catalogue(), args.words)
    if not entries:
        raise UsageError(f"nothing in the catalogue is called {' '.join(args.words)!r}: see `redline models search`")
    hub = default_hub()
    found = list(ask(replace(hub, token=read_token(hub.endpoint)), entries))
    if args.json:
        print(json.dumps({"entries": [asdict(one) for one in found]}, indent=1, ensure_ascii=False))
    else:
        print("\n".join(lines(found)))
    return FAILURE if any(one.state in ("gone", "unknown") for one in found) else OK


def ask(hub: Hub, entries: Sequence[Entry]) -> Iterator[EntryState]:
    """The standings, with a line that counts them on a terminal."""
    from models.catalogue.hub_check import check_entries

    shows = sys.stderr.isatty()
    try:
        for number, one in enumerate(check_entries(hub, entries, time.sleep), 1):
            if shows:
                print(f"{_CLEAR_LINE}checked {number} of {len(entries)}", end="", file=sys.stderr, flush=True)
            yield one
    finally:
        if shows:
            print(_CLEAR_LINE, end="", file=sys.stderr, flush=True)


def lines(found: Sequence[EntryState]) -> list[str]:
    """What is not as the catalogue says, the gone first, and a summary."""
    order: dict[State, int] = {"gone": 0, "unknown": 1, "gated": 2, "there": 3}
    shown = sorted((one for one in found if one.reason), key=lambda one: order[one.state])
    states = Counter(one.state for one in found)
    counted = [f"{states[state]} {state}" for state in order if states[state]]
    entries = "1 entry" if len(found) == 1 else f"{len(found)} entries"
    summary = f"{entries}: {', '.join(reversed(counted))}"
    return [*(f"{one.state:8}{one.repository}\n        {safe(one.reason)}" for one in shown), summary]
