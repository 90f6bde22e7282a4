"""`redline models where`: every place where Redline stores or finds files, on one screen."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from app.cli.terminal.safe_text import safe
from app.command_line import OK
from models.size_text import size_words


@dataclass(frozen=True)
class Place:
    """what: lies there. path: where; for the token, what keeps it. size_bytes: None where nothing is there. owner: who
    else writes there, or ""."""

    what: str
    path: str
    size_bytes: int | None
    owner: str = ""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "where", description="Show where Redline's files are, how large they are, and who shares them."
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the answer."""
    found = places(args.cache_dir)
    if args.json:
        print(json.dumps({"places": [asdict(place) for place in found]}, indent=2, ensure_ascii=False))
    else:
        print(in_words(found))
    return OK


def places(root: Path | None) -> list[Place]:
    """Every place, whether or not something is there. root: of Redline's cache, None for the user's."""
    from app.inference.hub_token import keychain_name
    from app.store import store_path
    from models.local.locations import find_locations
    from models.paths import cache_dir

    found = find_locations(Path.home(), root)
    studios = [_place("LM Studio's models", path, "LM Studio") for path in found.lm_studio]
    return [
        _place("models of the hub", found.hub, "shared: HF_HOME or HF_HUB_CACHE move it"),
        *(studios or [Place("LM Studio's models", "not found", None)]),
        _place("imported models", found.own),
        _place("other caches", cache_dir(root), less=found.own),
        _place("conversations", store_path()),
        Place("the hub's token", keychain_name() or "no keychain on this machine", None),
    ]


def in_words(found: list[Place]) -> str:
    """A line each, and under it whose it is."""
    width = max(len(place.what) for place in found)
    lines = []
    for place in found:
        size = "" if place.size_bytes is None else f"  {size_words(place.size_bytes)}"
        lines.append(f"{place.what:{width}}  {safe(place.path)}{size}")
        if place.owner:
            lines.append(f"{'':{width}}  ({place.owner})")
    return "\n".join(lines)


def _place(what: str, path: Path, owner: str = "", less: Path | None = None) -> Place:
    size_bytes = _size(path, less) if path.exists() else None
    return Place(what, str(path), size_bytes, owner)


def _size(path: Path, less: Path | None = None) -> int:
    """Bytes of a file, or of everything in a folder but `less`; a file that has several names counts once."""
    if path.is_file():
        return path.stat().st_size
    seen: set[tuple[int, int]] = set()
    total = 0
    for folder, folders, files in os.walk(path):
        folders[:] = [name for name in folders if Path(folder, name) != less]
        for name in files:
            try:
                status = os.lstat(Path(folder, name))
            except OSError:
                continue
            if (status.st_dev, status.st_ino) not in seen:
                seen.add((status.st_dev, status.st_ino))
                total += status.st_size
    return total
