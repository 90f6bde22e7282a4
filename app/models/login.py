"""`redline models login`: keep a token of the hub in the keychain, for models that are gated or private."""

from __future__ import annotations

import argparse
import getpass
import sys

from app.cli import OK
from app.models.tokens import check_token, keep_token, keychain_name
from engine.errors import UsageError

_LONGEST_LINE = 4096


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "login",
        description="Keep a token of the hub in the keychain, for models that are gated or private. A token that may "
        "read is enough; make one at huggingface.co, Settings, Access Tokens.",
    )
    parser.add_argument("--token-stdin", action="store_true", help="read the token from standard input, do not ask")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Ask for the token, show it to the hub, keep it. Raises UsageError, HubError."""
    from models.hub.account import who
    from models.hub.hub import default_hub

    token = check_token(_asked(args.token_stdin))
    hub = default_hub(token)
    name = who(hub)
    keep_token(hub.endpoint, token)
    print(f"Logged in to {hub.endpoint} as {name}. The token is in the keychain ({keychain_name()}).")
    return OK


def _asked(from_stdin: bool) -> str:
    if from_stdin:
        return sys.stdin.readline(_LONGEST_LINE).strip()
    if not sys.stdin.isatty():
        raise UsageError("there is no terminal to ask at: give --token-stdin and the token on standard input")
    return getpass.getpass("Token (not shown): ").strip()
