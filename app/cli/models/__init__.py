"""`redline models`: which models there are, what this machine can run, and which drafter goes with it.

The module of a subcommand is imported only when it is needed, so that help is quick. Without a subcommand,
`app.cli.models.catalogue` shows an overview on one screen.

With --json, for programs, each prints a document of `app.protocol.model_documents`, or of its own module where the
window does not read it; `pull` prints one event per line (`app.protocol.download_events`), `check` the fields of
`models.catalogue.hub_check.EntryState`, and `where` {"places": [{"what", "path", "size_bytes", "owner"}]}. Fields may
be added; none is removed or changes its meaning.
"""

from __future__ import annotations

import argparse
import importlib
from typing import TYPE_CHECKING, Any, NamedTuple

from app.command_line import Parser, add_command, add_common

if TYPE_CHECKING:
    from app.command_line import Commands


class Subcommand(NamedTuple):
    """A subcommand: its line of help, and the module that has its `add_NAME`."""

    line: str
    module: str


SUBCOMMANDS = {
    "list": Subcommand("list the installed models", "local_models"),
    "search": Subcommand("search the catalogue of targets and drafters", "catalogue"),
    "pull": Subcommand("download a model or continue a download", "pull"),
    "import": Subcommand("import a GGUF file or a model folder", "import_"),
    "convert": Subcommand("convert a Hugging Face folder to MLX, optionally quantized", "import_"),
    "remove": Subcommand("delete a model", "local_models"),
    "fits": Subcommand("show whether a model fits in memory, by context", "pairs"),
    "pairs": Subcommand("show which installed drafters work with which targets", "pairs"),
    "check": Subcommand("check that everything in the catalogue still exists", "hub"),
    "login": Subcommand("save a Hugging Face token in the keychain", "hub"),
    "logout": Subcommand("delete the Hugging Face token", "hub"),
    "where": Subcommand("show where models and other files are stored", "local_models"),
}
_ANYWHERE = ("json", "cache_dir")  # options that may stand before the subcommand too
_DESCRIPTION = (
    "Show what this machine can run, the best drafter for each model, and its speed-up. Subcommands find, download, "
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
            module = importlib.import_module(f"app.cli.models.{SUBCOMMANDS[name].module}")
            getattr(module, f"add_{name}")(self)
        super().__call__(parser, namespace, values, option_string)
        for option, value in given.items():  # `models --json list` is `models list --json`
            setattr(namespace, option, getattr(namespace, option, None) or value)


def add_parser(commands: Commands) -> None:
    parser = add_command(commands, "models", _overview, _DESCRIPTION)
    add_common(parser)
    subcommands = parser.add_subparsers(metavar="SUBCOMMAND", parser_class=Parser, action=_Subcommands)
    for name, subcommand in SUBCOMMANDS.items():
        subcommands.add_parser(name, help=subcommand.line)


def _overview(args: argparse.Namespace) -> int:
    from app.cli.models.catalogue import run_overview

    return run_overview(args)
