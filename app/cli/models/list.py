"""`redline models list`: the installed models, from Redline and from other programs."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.terminal.safe_text import safe
from app.command_line import OK
from app.duration_text import ago_words
from app.protocol.model_documents import InstalledModel, InstalledModels, document_json
from models.size_text import size_words

if TYPE_CHECKING:
    from models.local.inventory import Installed

ORIGINS = {"hub": "Hugging Face", "lm-studio": "LM Studio", "redline": "Redline", "builtin": "with Redline"}
_NONE = "No models are installed. `redline models search` finds models, `redline models pull OWNER/NAME` downloads one."


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "list",
        description="List the models in the Hugging Face cache, LM Studio's folder and Redline's own. "
        "Use their names with --target and --drafter.",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the answer."""
    from models.local.inventory import installed
    from models.local.locations import find_locations

    models = installed(find_locations(Path.home(), args.cache_dir))
    if args.json:
        print(document_json(InstalledModels(models=tuple(installed_model(model) for model in models))))
    else:
        print(in_words(models, time.time(), _width()))
    return OK


def installed_model(model: Installed) -> InstalledModel:
    """Returns a model as documents have it."""
    return InstalledModel(**{**asdict(model), "path": str(model.path)})


def in_words(models: list[Installed], now_s: float, width: int) -> str:
    """A table of what is whole, then what is not and what to do about it. width: columns of the terminal."""
    if not models:
        return _NONE
    whole, partial = ([model for model in models if model.complete is wanted] for wanted in (True, False))
    lines = _table([_row(model, now_s) for model in whole], width) if whole else []
    if len(whole) > 1:
        lines.append(f"{len(whole)} models, {size_words(sum(model.size_bytes for model in whole))}")
    if partial:
        lines += [*([""] if lines else []), "Not whole:"]
        lines += [line for model in partial for line in _partial(model)]
    return "\n".join(safe(line) for line in lines)


def _row(model: Installed, now_s: float) -> tuple[str, str, str, str]:
    name = model.name if model.kind in ("model", "unknown") else f"{model.name} ({model.kind} head)"
    return name, size_words(model.size_bytes), ago_words(model.last_used_s, now_s), ORIGINS[model.origin]


def _table(rows: list[tuple[str, str, str, str]], width: int) -> list[str]:
    """Under titles, columns as wide as they must be; a name that is too long for the terminal goes over its line."""
    rows = [("NAME", "SIZE", "LAST USED", "FROM"), *rows]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    widths[0] = min(widths[0], max(24, width - sum(widths[1:]) - 6))
    return [
        f"{name:{widths[0]}}  {size:>{widths[1]}}  {used:{widths[2]}}  {origin}".rstrip()
        for name, size, used, origin in rows
    ]


def _partial(model: Installed) -> list[str]:
    lines = [f"  {model.name}: {model.trouble}"]
    if model.origin == "hub":
        lines.append(f"    redline models pull {model.name.partition('@')[0]}")
    elif model.kind == "gguf":
        lines.append(f"    {model.path}")
    return lines


def _width() -> int:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else 200
