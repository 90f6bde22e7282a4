"""`redline models list`, `remove` and `where`: the installed models, deleting one, and where everything is stored."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.command_line import FAILURE, OK, add_command, add_common, print_json
from app.duration_text import ago_words
from app.model_words import removal_lines
from app.protocol import model_documents
from app.protocol.model_documents import InstalledModel, InstalledModels, document_json
from app.safe_text import safe_line
from app.spelling_suggestion import did_you_mean
from engine.errors import ModelError, UsageError
from models.size_text import size_words

if TYPE_CHECKING:
    from app.command_line import Commands
    from models.local.inventory import Installed
    from models.local.removal import Removal

ORIGINS = {"hub": "Hugging Face", "lm-studio": "LM Studio", "redline": "Redline", "builtin": "with Redline"}
_NONE = "No models are installed. `redline models search` finds models, `redline models pull OWNER/NAME` downloads one."
_PIPE_COLUMNS = 200  # where standard output is not a terminal


# --- list


def add_list(commands: Commands) -> None:
    about = (
        "List the models in the Hugging Face cache, LM Studio's folder and Redline's own. "
        "Use their names with --target and --drafter."
    )
    add_common(add_command(commands, "list", run_list, about))


def run_list(args: argparse.Namespace) -> int:
    """Prints the installed models."""
    from models.local.inventory import installed
    from models.local.locations import find_locations

    models = installed(find_locations(Path.home(), args.cache_dir))
    if args.json:
        print_json(document_json(InstalledModels(models=tuple(map(installed_model, models)))))
    else:
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPE_COLUMNS
        print(list_text(models, time.time(), width))
    return OK


def installed_model(model: Installed) -> InstalledModel:
    """Returns a model as documents have it."""
    return InstalledModel(**{**asdict(model), "path": str(model.path)}, reference=_reference(model))


def _reference(model: Installed) -> str:
    """Returns what the architecture of a model was compared with, "" where its files do not say which it is."""
    from models.architecture_references import reference_line
    from models.durable_files import read_json_object

    if model.kind != "model" or not model.complete:
        return ""
    try:
        return reference_line(read_json_object(model.path / "config.json"))
    except ModelError:
        return ""


def list_text(models: Sequence[Installed], now_s: float, width: int) -> str:
    """Returns a table of the complete models, then the incomplete ones and what to do about them. width: columns of the
    terminal."""
    if not models:
        return _NONE
    complete = [model for model in models if model.complete]
    lines = _table([_row(model, now_s) for model in complete], width) if complete else []
    if len(complete) > 1:
        lines.append(f"{len(complete)} models, {size_words(sum(model.size_bytes for model in complete))}")
    if len(complete) < len(models):
        lines += [*([""] if lines else []), "Incomplete:"]
    for model in models:
        if not model.complete:
            lines.append(f"  {safe_line(model.name)}: {safe_line(model.trouble)}")
            if model.origin == "hub":
                lines.append(f"    redline models pull {safe_line(model.name.partition('@')[0])}")
            elif model.kind == "gguf":
                lines.append(f"    {safe_line(str(model.path))}")
    return "\n".join(lines)


def _row(model: Installed, now_s: float) -> tuple[str, str, str, str]:
    name = model.name if model.kind in ("model", "unknown") else f"{model.name} ({model.kind} head)"
    return safe_line(name), size_words(model.size_bytes), ago_words(model.last_used_s, now_s), ORIGINS[model.origin]


def _table(rows: list[tuple[str, str, str, str]], width: int) -> list[str]:
    """Returns aligned lines. A name too long for the terminal runs over its column, so that it can be copied."""
    rows = [("NAME", "SIZE", "LAST USED", "FROM"), *rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[0] = min(widths[0], max(24, width - sum(widths[1:]) - 6))
    return [
        f"{name:{widths[0]}}  {size:>{widths[1]}}  {used:{widths[2]}}  {origin}".rstrip()
        for name, size, used, origin in rows
    ]


# --- remove


def add_remove(commands: Commands) -> None:
    about = (
        "Delete a model from this machine. Shows what is deleted, what stays and which other programs use the same "
        "files, then asks."
    )
    parser = add_command(commands, "remove", run_remove, about)
    add = parser.add_argument
    add("name", metavar="NAME", help="name in `redline models list`; NAME@COMMIT for one revision")
    add("--from", dest="origin", choices=sorted(ORIGINS), help="where to delete it from, if it is in several places")
    answer = parser.add_mutually_exclusive_group()
    answer.add_argument("--yes", action="store_true", help="do not ask")
    answer.add_argument("--dry-run", action="store_true", help="only show what would be deleted")
    add_common(parser)


def run_remove(args: argparse.Namespace) -> int:
    """Shows what would be deleted, asks, and deletes it. Raises UsageError, ModelError, HubError."""
    from models.local.inventory import installed
    from models.local.locations import find_locations
    from models.local.removal import plan_removal, remove

    places = find_locations(Path.home(), args.cache_dir)
    removal = plan_removal(_matching(args.name, args.origin, installed(places)), places)
    freed_bytes = None
    if not args.json:
        print(_removal_text(removal))
    if not args.dry_run:
        if not args.yes and not _confirmed(args.json):
            print("Nothing was deleted.")
            return FAILURE
        freed_bytes = remove(removal, places)
    if args.json:
        print_json(document_json(_removal_document(removal, freed_bytes)))
    elif freed_bytes is not None:
        print(f"Deleted: {size_words(freed_bytes)} freed.")
    return OK


def _matching(name: str, origin: str | None, models: list[Installed]) -> list[Installed]:
    """Returns the model of this name, with all its revisions unless one is named by its commit."""
    base, at, commit = name.partition("@")
    found = [
        model
        for model in models
        if model.name.partition("@")[0] == base
        and (not at or (commit and model.revision.startswith(commit)))
        and origin in (None, model.origin)
    ]
    if not found:
        meant = did_you_mean(name, {model.name for model in models})
        raise ModelError(f"no model {name!r}; `redline models list` shows the installed ones{meant}")
    origins = sorted({model.origin for model in found})
    if len(origins) > 1:
        raise UsageError(f"{name} is in several places: choose --from {' or --from '.join(origins)}")
    return found if origins == ["hub"] else found[:1]


def _removal_document(removal: Removal, freed_bytes: int | None) -> model_documents.Removal:
    """Returns the plan and what it freed; None for a plan that was not carried out."""
    fields = {**asdict(removal), "models": tuple(map(installed_model, removal.models))}
    return model_documents.Removal(**fields, removed=freed_bytes is not None, freed_bytes=freed_bytes)


def _removal_text(removal: Removal) -> str:
    """Returns what is deleted, from where, who else loses it and what stays."""
    model, several = removal.models[0], len(removal.models) > 1
    name = f"{model.name.partition('@')[0]}, {len(removal.models)} revisions" if several else model.name
    lines = [f"{name}: frees {size_words(removal.frees_bytes)}"]
    lines += [f"  {safe_line(str(model.path))}" for model in removal.models]
    more = removal_lines(removal.losers, removal.keepers, removal.stays_bytes, removal.note)
    return "\n".join([*lines, *(f"  {line}" for line in more)])


def _confirmed(as_json: bool) -> bool:
    if as_json or not sys.stdin.isatty():
        raise UsageError("no terminal to confirm the deletion: use --yes")
    return input("Delete? [y/N] ").strip().lower() in ("y", "yes")


# --- where


@dataclass(frozen=True)
class Place:
    """A place where files are. path: where, or what keeps the token. size_bytes: None if nothing is there. owner: who
    else writes there, or ""."""

    what: str
    path: str
    size_bytes: int | None
    owner: str = ""


def add_where(commands: Commands) -> None:
    about = "Show where Redline's files are, how large they are, and who shares them."
    add_common(add_command(commands, "where", run_where, about))


def run_where(args: argparse.Namespace) -> int:
    """Prints every place, whether or not something is there."""
    found = _places(args.cache_dir)
    if args.json:
        print_json(json.dumps({"places": [asdict(place) for place in found]}, indent=2, ensure_ascii=False))
        return OK
    width = max(len(place.what) for place in found)
    for place in found:
        size = "" if place.size_bytes is None else f"  {size_words(place.size_bytes)}"
        print(f"{place.what:{width}}  {safe_line(place.path)}{size}")
        if place.owner:
            print(f"{'':{width}}  ({place.owner})")
    return OK


def _places(root: Path | None) -> list[Place]:
    """Returns every place. root: of Redline's cache, None for the user's."""
    from app.inference.hub_token import keychain_name
    from app.store import store_path
    from models.local.locations import find_locations
    from models.paths import cache_dir

    found = find_locations(Path.home(), root)
    studios = [_place("LM Studio's models", path, "LM Studio") for path in found.lm_studio]
    return [
        _place("Hugging Face models", found.hub, "shared: HF_HOME or HF_HUB_CACHE move it"),
        *(studios or [Place("LM Studio's models", "not found", None)]),
        _place("imported models", found.own),
        _place("other caches", cache_dir(root), without=found.own),
        _place("conversations", store_path()),
        Place("Hugging Face token", keychain_name() or "no keychain on this machine", None),
    ]


def _place(what: str, path: Path, owner: str = "", without: Path | None = None) -> Place:
    return Place(what, str(path), _size(path, without) if path.exists() else None, owner)


def _size(path: Path, without: Path | None = None) -> int:
    """Returns the bytes of a file, or of a folder without one of its parts. A file with several names counts once."""
    if path.is_file():
        return path.stat().st_size
    sizes: dict[tuple[int, int], int] = {}
    below = [path]  # os.walk of Python 3.11 recurses, and folders can be nested deeper than that
    while below:
        with suppress(OSError), os.scandir(below.pop()) as entries:
            for entry in entries:
                if not entry.is_dir(follow_symlinks=False):
                    status = entry.stat(follow_symlinks=False)
                    sizes[status.st_dev, status.st_ino] = status.st_size
                elif Path(entry.path) != without:
                    below.append(Path(entry.path))
    return sum(sizes.values())
