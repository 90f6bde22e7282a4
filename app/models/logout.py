"""`redline models logout`: forget the hub's token."""

from __future__ import annotations

import argparse

from app.cli import OK
from app.models.tokens import forget_token


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser("logout", description="Take the hub's token out of the keychain.")
    parser.set_defaults(run=run)


def run(_: argparse.Namespace) -> int:
    """Delete it. Raises HubError where there is no keychain."""
    from models.hub.hub import default_hub

    endpoint = default_hub().endpoint
    print(f"The token of {endpoint} is forgotten." if forget_token(endpoint) else f"There was no token of {endpoint}.")
    return OK
