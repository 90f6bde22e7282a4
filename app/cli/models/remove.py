"""`redline models remove`: deletes a model, after saying what is deleted and who shares its files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.models.list import ORIGINS, installed_model
from app.cli.terminal.safe_text import safe
from app.command_line import FAILURE, OK
from app.protocol import model_documents
from app.protocol.model_documents import document_json
from engine.errors import ModelError, UsageError
from models.size_text import size_words

if TYPE_CHECKING:
    from models.local.inventory import Installed
    from models.local.removal import Removal


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "remove",
        description="Delete a model from this machine. Shows what is deleted, what stays and which other programs use "
        "the same files, then asks.",
    )
    parser.add_argument("name", metavar="NAME", help="name in `redline models list`; NAME@COMMIT for one revision")
    parser.add_argument(
        "--from", dest="origin", choices=sorted(ORIGINS), help="where to delete it, if it is in several places"
    )
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="do not ask")
    answer.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tell, ask, delete. Raises UsageError, ModelError, HubError."""
    from models.local.inventory import installed
    from models.local.locations import find_locations
    from models.local.removal import plan_removal, remove

    places = find_locations(Path.home(), args.cache_dir)
    removal = plan_removal(_meant(args.name, args.origin, installed(places)), places)
    if not args.json:
        print(safe(in_words(removal)))
    if args.dry_run:
        freed_bytes = None
    elif args.yes or _agreed(args.json):
        freed_bytes = remove(removal, places)
    else:
        print("Nothing was deleted.")
        return FAILURE
    if args.json:
        print(document_json(document(removal, freed_bytes)))
    elif freed_bytes is not None:
        print(f"Deleted; {size_words(freed_bytes)} are free again.")
    return OK


def document(removal: Removal, freed_bytes: int | None) -> model_documents.Removal:
    """Returns the plan and what it freed; None for a plan that was not carried out."""
    return model_documents.Removal(
        models=tuple(installed_model(model) for model in removal.models),
        frees_bytes=removal.frees_bytes,
        stays_bytes=removal.stays_bytes,
        note=removal.note,
        losers=tuple(removal.losers),
        keepers=tuple(removal.keepers),
        removed=freed_bytes is not None,
        freed_bytes=freed_bytes,
    )


def _meant(name: str, origin: str | None, models: list[Installed]) -> list[Installed]:
    """The model of this name, with all its revisions unless one is named by its commit."""
    base, at, commit = name.partition("@")
    found = [model for model in models if model.name.partition("@")[0] == base]
    found = [model for model in found if not at or (commit and model.revision.startswith(commit))]
    found = [model for model in found if origin in (None, model.origin)]
    if not found:
        raise ModelError(f"no model {name!r}; `redline models list` shows the installed ones")
    origins = sorted({model.origin for model in found})
    if len(origins) > 1:
        raise UsageError(f"{name} is in several places: choose --from {' or --from '.join(origins)}")
    return found if origins == ["hub"] else found[:1]


def in_words(removal: Removal) -> str:
    """Returns what is deleted, from where, who loses it and what stays, to be shown before the question."""
    model = removal.models[0]
    name = model.name.partition("@")[0] if len(removal.models) > 1 else model.name
    revisions = f", {len(removal.models)} revisions" if len(removal.models) > 1 else ""
    lines = [f"{name}{revisions}: {size_words(removal.frees_bytes)} will be free"]
    lines += [f"  {model.path}" for model in removal.models]
    if removal.losers:
        lines.append(f"  Shared with {', '.join(removal.losers)}: gone for them too.")
    if removal.keepers:
        lines.append(f"  {size_words(removal.stays_bytes)} stay, as {', '.join(removal.keepers)} has the same files.")
    if removal.note:
        lines.append(f"  {removal.note[0].upper()}{removal.note[1:]}.")
    return "\n".join(lines)


def _agreed(as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise UsageError("no terminal to confirm the deletion: use --yes")
    return input("Delete? [y/N] ").strip().lower() in ("y", "yes")
