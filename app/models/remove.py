"""`redline models remove`: delete a model that is here, after saying what goes and who shares its files."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli import FAILURE, OK
from app.models.list import ORIGINS, as_json
from app.safe_text import safe
from engine.errors import ModelError, UsageError
from models.sizes import size_words

if TYPE_CHECKING:
    from models.installed.inventory import Installed
    from models.installed.removal import Removal


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "remove",
        description="Delete a model from this machine. Says first what goes, what stays, and which other programs use "
        "the same files; then asks.",
    )
    parser.add_argument("name", metavar="NAME", help="as `redline models list` has it; NAME@COMMIT for one revision")
    parser.add_argument("--from", dest="origin", choices=sorted(ORIGINS), help="where, if it is in several places")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="do not ask")
    answer.add_argument("--dry-run", action="store_true", help="only say what would go")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Tell, ask, delete. Raises UsageError, ModelError, HubError."""
    from models.installed.inventory import installed
    from models.installed.places import find_places
    from models.installed.removal import plan_removal, remove

    places = find_places(Path.home(), args.cache_dir)
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
        print(json.dumps(document(removal, freed_bytes), indent=2, ensure_ascii=False))
    elif freed_bytes is not None:
        print(f"Deleted; {size_words(freed_bytes)} are free again.")
    return OK


def document(removal: Removal, freed_bytes: int | None) -> dict[str, Any]:
    """As JSON: the plan, and what it freed; None for a plan that was not carried out."""
    value: dict[str, Any] = {"models": [as_json(model) for model in removal.models]}
    value |= {"frees_bytes": removal.frees_bytes, "stays_bytes": removal.stays_bytes, "note": removal.note}
    value |= {"losers": list(removal.losers), "keepers": list(removal.keepers)}
    return value | {"removed": freed_bytes is not None, "freed_bytes": freed_bytes}


def _meant(name: str, origin: str | None, models: list[Installed]) -> list[Installed]:
    """The model of this name, with all its revisions unless one is named by its commit."""
    base, at, commit = name.partition("@")
    found = [model for model in models if model.name.partition("@")[0] == base]
    found = [model for model in found if not at or (commit and model.revision.startswith(commit))]
    found = [model for model in found if origin in (None, model.origin)]
    if not found:
        raise ModelError(f"{name!r} is not here; `redline models list` shows what is")
    origins = sorted({model.origin for model in found})
    if len(origins) > 1:
        raise UsageError(f"{name} is in several places: say --from {' or --from '.join(origins)}")
    return found if origins == ["hub"] else found[:1]


def in_words(removal: Removal) -> str:
    """What goes, from where, who loses it and what stays: said before anything is asked."""
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
        raise UsageError("deleting asks first, and nobody is there to answer: say --yes")
    return input("Delete? [y/N] ").strip().lower() in ("y", "yes")
