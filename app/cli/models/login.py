"""`redline models login` and `logout`: keep a token of the hub in the keychain, or delete it."""

from __future__ import annotations

import argparse
import getpass
import sys

from app.command_line import OK
from app.inference.hub_token import check_token, forget_token, keep_token, keychain_name
from engine.errors import UsageError

_LONGEST_LINE = 4096


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command `login`."""
    parser = subparsers.add_parser(
        "login",
        description="Save a token of the hub in the keychain, for gated or private models. A token with read access "
        "is enough; create one at huggingface.co, Settings, Access Tokens.",
    )
    parser.add_argument("--token-stdin", action="store_true", help="read the token from standard input")
    parser.set_defaults(run=run)


def add_logout_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command `logout`."""
    parser = subparsers.add_parser("logout", description="Delete the hub's token from the keychain.")
    parser.set_defaults(run=run_logout)


def run(args: argparse.Namespace) -> int:
    """Reads a token, checks it with the hub and saves it. Raises UsageError, HubError."""
    from models.hub.client import account_name, default_hub

    token = check_token(_read_token(args.token_stdin))
    hub = default_hub(token)
    name = account_name(hub)
    keep_token(hub.endpoint, token)
    print(f"Logged in to {hub.endpoint} as {name}. The token is in the keychain ({keychain_name()}).")
    return OK


def run_logout(_: argparse.Namespace) -> int:
    """Deletes the token. Raises HubError without a keychain."""
    from models.hub.client import default_hub

    endpoint = default_hub().endpoint
    print(f"Deleted the token of {endpoint}." if forget_token(endpoint) else f"No token of {endpoint} was saved.")
    return OK


def _read_token(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline(_LONGEST_LINE).strip()
    if not sys.stdin.isatty():
        raise UsageError("no terminal to ask for the token: use --token-stdin")
    return getpass.getpass("Token (not shown): ").strip()
