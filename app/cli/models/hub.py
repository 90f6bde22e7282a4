"""`redline models check`, `login` and `logout`: whether the catalogue still holds on the hub, and the hub's token."""

from __future__ import annotations

import argparse
import getpass
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from app.cli.terminal.progress import Status
from app.command_line import FAILURE, OK, add_command, print_json
from app.inference.hub_token import check_token, forget_token, keep_token, keychain_name, read_token
from app.safe_text import safe_line
from engine.errors import UsageError

if TYPE_CHECKING:
    from app.command_line import Commands
    from models.catalogue.hub_check import EntryState, State

_LONGEST_LINE = 4096
_WORST_FIRST: tuple[State, ...] = ("gone", "unknown", "gated", "there")


# --- check


def add_check(commands: Commands) -> None:
    about = (
        "Check on the hub that every entry of the catalogue still exists at its revision. Downloads nothing. "
        "Exit status 1 if an entry is gone or could not be checked."
    )
    parser = add_command(commands, "check", run_check, about)
    parser.add_argument("words", nargs="*", metavar="WORD", help="check only entries with all these words")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run_check(args: argparse.Namespace) -> int:
    """Checks the entries. Raises HubError if the hub cannot be asked, UsageError if no entry has the words."""
    from models.catalogue.entries import read_catalogue
    from models.catalogue.hub_check import check_entries
    from models.catalogue.search import search
    from models.hub.client import default_hub

    entries = search(read_catalogue(), args.words)
    if not entries:
        raise UsageError(f"nothing in the catalogue is called {' '.join(args.words)!r}: see `redline models search`")
    hub = default_hub()
    found = []
    with Status(sys.stderr) as status:
        for one in check_entries(replace(hub, token=read_token(hub.endpoint)), entries, time.sleep):
            found.append(one)
            status(f"checked {len(found)} of {len(entries)}")
    if args.json:
        print_json(json.dumps({"entries": [asdict(one) for one in found]}, indent=1, ensure_ascii=False))
    else:
        _show(found)
    return FAILURE if any(one.state in ("gone", "unknown") for one in found) else OK


def _show(found: Sequence[EntryState]) -> None:
    """Prints what the catalogue should say otherwise, the worst first, and a summary."""
    for one in sorted((one for one in found if one.reason), key=lambda one: _WORST_FIRST.index(one.state)):
        print(f"{one.state:8}{one.repository}\n        {safe_line(one.reason)}")
    states = Counter(one.state for one in found)
    counted = [f"{states[state]} {state}" for state in reversed(_WORST_FIRST) if states[state]]
    entries = "1 entry" if len(found) == 1 else f"{len(found)} entries"
    print(f"{entries}: {', '.join(counted)}")


# --- login and logout


def add_login(commands: Commands) -> None:
    about = (
        "Save a Hugging Face token in the keychain, for gated or private models. A token with read access is enough; "
        "create one at huggingface.co under Settings > Access Tokens."
    )
    parser = add_command(commands, "login", run_login, about)
    parser.add_argument("--token-stdin", action="store_true", help="read the token from standard input")


def add_logout(commands: Commands) -> None:
    add_command(commands, "logout", run_logout, "Delete the Hugging Face token from the keychain.")


def run_login(args: argparse.Namespace) -> int:
    """Reads a token, checks it with the hub and saves it. Raises UsageError, HubError."""
    from models.hub.client import account_name, default_hub

    if args.token_stdin:
        token = sys.stdin.readline(_LONGEST_LINE).strip()
    elif sys.stdin.isatty():
        token = getpass.getpass("Token (not shown): ").strip()
    else:
        raise UsageError("no terminal to ask for the token: use --token-stdin")
    token = check_token(token)
    hub = default_hub(token)
    name = account_name(hub)
    keep_token(hub.endpoint, token)
    print(f"Logged in to {hub.endpoint} as {name}. The token is in the keychain ({keychain_name()}).")
    return OK


def run_logout(_: argparse.Namespace) -> int:
    """Deletes the token. Raises HubError without a keychain."""
    from models.hub.client import default_hub

    endpoint = default_hub().endpoint
    deleted = forget_token(endpoint)
    print(f"Deleted the token for {endpoint}." if deleted else f"There was no saved token for {endpoint}.")
    return OK
