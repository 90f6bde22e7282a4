"""`redline models`: which models there are, what this machine can run, and which drafter goes with it.

Each subcommand lives in a module of its own, imported only when it is asked for. The module offers
`add_parser(subparsers)`, as every command of `app.cli` does; its one line of help stands here. Without a subcommand,
the answer on one screen: `app.models.overview`.

With --json, for programs; fields may be added, none goes or changes its meaning. Exit codes are those of `app.cli`.

    (none)   {"machine": {...}, "here": [REPOSITORY], "targets": [{"target", "name", "size_bytes", "size", "room",
             "drafter", "target_here", "drafter_here", "measured"}]}
    list     {"models": [...]}: the fields of `models.installed.inventory.Installed`
    search   {"entries": [...]}: the fields of `models.catalogue.entries`, and "kind", "trouble" (why it does not load,
             or null), "here"; of a target "smallest_mac_gb" and "measured" too
    pull     one event a line: `app.models.events`
    remove   the fields of `models.installed.removal.Removal`, and "removed", "freed_bytes"; asks nothing: it wants
             --dry-run, which deletes nothing, or --yes
    pairs    {"targets": [{"target", "path", "pairs": [{"drafter", "path", "size_bytes", "kind", "fits", "why",
             "notes"}], "auto", "auto_why", "trouble"}]}: those that fit first; auto is what --drafter takes
    check    {"entries": [...]}: the fields of `models.catalogue.standing.Standing`
    where    {"places": [{"what", "path", "size_bytes", "owner"}]}
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from app.cli import Parser

SUBCOMMANDS = {
    "list": "the models that are here: where, how large, last used",
    "search": "the catalogue: targets and the drafters made for them",
    "pull": "download a model, or go on with a download",
    "import": "make a model folder of a GGUF file or of another model folder",
    "convert": "make an MLX model of a Hugging Face folder, quantized if wanted",
    "remove": "delete a model that is here",
    "fits": "what a model takes of memory here, by context",
    "pairs": "which drafters that are here may serve which targets",
    "check": "ask the hub whether everything in the catalogue still exists",
    "login": "keep a token of the hub in the keychain",
    "logout": "forget it",
    "where": "the places on disk where models are found and kept",
}
_MODULES = {"import": "import_"}  # a word of Python's
_ANYWHERE = ("json", "cache_dir")  # options that may stand before the subcommand too
_DESCRIPTION = (
    "What this machine can run, which drafter goes with it, and how much faster that is. With a subcommand: find, get, "
    "import and remove models."
)


class _Subcommands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Fills in the parser of a subcommand when it is asked for."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        name, given = values[0], {option: getattr(namespace, option, None) for option in _ANYWHERE}
        if name in SUBCOMMANDS:
            del self.choices[name]
            importlib.import_module(f"app.models.{_MODULES.get(name, name)}").add_parser(self)
        super().__call__(parser, namespace, values, option_string)
        for option, value in given.items():  # `models --json list` is `models list --json`
            setattr(namespace, option, getattr(namespace, option, None) or value)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser("models", description=_DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept")
    parser.set_defaults(run=_overview)
    commands = parser.add_subparsers(metavar="SUBCOMMAND", parser_class=Parser, action=_Subcommands)
    for name, line in SUBCOMMANDS.items():
        commands.add_parser(name, help=line)


def _overview(args: argparse.Namespace) -> int:
    from app.models.overview import run

    return run(args)
