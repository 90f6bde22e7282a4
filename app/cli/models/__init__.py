"""`redline models`: which models there are, what this machine can run, and which drafter goes with it.

The module of a subcommand is imported only when it is needed, so that help is quick. It offers `add_parser`, as every
command of `app.cli.main` does. Without a subcommand, `app.cli.models.overview` answers on one screen.

With --json, for programs: fields may be added, none is removed or changes its meaning.

    (none)   {"machine": {...}, "here": [REPOSITORY], "targets": [{"target", "name", "size_bytes", "size", "room",
             "drafter", "target_here", "drafter_here", "measured"}]}
    list     {"models": [...]}: the fields of `models.local.inventory.Installed`
    search   {"entries": [...]}: the fields of `models.catalogue.entries`, and "kind", "trouble" (why it does not load,
             or null), "here"; of a target "smallest_mac_gb" and "measured" too
    pull     one event a line: `app.protocol.download_events`
    remove   the fields of `models.local.removal.Removal`, and "removed", "freed_bytes"; asks nothing: it wants
             --dry-run, which deletes nothing, or --yes
    pairs    {"targets": [{"target", "path", "pairs": [{"drafter", "path", "size_bytes", "kind", "fits", "why",
             "notes"}], "auto", "auto_why", "trouble"}]}: those that fit first; auto is what --drafter takes
    check    {"entries": [...]}: the fields of `models.catalogue.hub_check.Standing`
    where    {"places": [{"what", "path", "size_bytes", "owner"}]}
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path
from typing import Any

from app.command_line import Parser

SUBCOMMANDS = {
    "list": "list the installed models",
    "search": "search the catalogue of targets and drafters",
    "pull": "download a model or continue a download",
    "import": "import a GGUF file or a model folder",
    "convert": "convert a Hugging Face folder to MLX, optionally quantized",
    "remove": "delete a model",
    "fits": "show whether a model fits in memory, by context",
    "pairs": "show which installed drafters work with which targets",
    "check": "check that everything in the catalogue still exists",
    "login": "save a token of the hub in the keychain",
    "logout": "delete the token",
    "where": "show where models and other files are stored",
}
_ADDERS = {  # of subcommands whose module has another name
    "import": ("import_", "add_parser"),
    "convert": ("import_", "add_convert_parser"),
    "logout": ("login", "add_logout_parser"),
}
_ANYWHERE = ("json", "cache_dir")  # options that may stand before the subcommand too
_DESCRIPTION = (
    "Show what this machine can run, the best drafter for each model, and the speed-up. Subcommands find, download, "
    "import and remove models."
)


class _Subcommands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Adds the parser of a subcommand when it is used."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        name, given = values[0], {option: getattr(namespace, option, None) for option in _ANYWHERE}
        if name in SUBCOMMANDS:
            del self.choices[name]
            module, adder = _ADDERS.get(name, (name, "add_parser"))
            getattr(importlib.import_module(f"app.cli.models.{module}"), adder)(self)
        super().__call__(parser, namespace, values, option_string)
        for option, value in given.items():  # `models --json list` is `models list --json`
            setattr(namespace, option, getattr(namespace, option, None) or value)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser("models", description=_DESCRIPTION)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=_overview)
    commands = parser.add_subparsers(metavar="SUBCOMMAND", parser_class=Parser, action=_Subcommands)
    for name, line in SUBCOMMANDS.items():
        commands.add_parser(name, help=line)


def _overview(args: argparse.Namespace) -> int:
    from app.cli.models.overview import run

    return run(args)
