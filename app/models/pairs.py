"""`redline models pairs`: which drafters that are here may serve which targets that are here, and why not."""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli import FAILURE, OK
from app.safe_text import safe
from engine.errors import ModelError, UsageError

if TYPE_CHECKING:
    from models.catalogue import Catalogue
    from models.folder import ModelFolder
    from models.pairing import Verdict
    from models.pairing.auto import Auto
    from models.pairing.present import Present

    Read = Callable[[Path], ModelFolder]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "pairs",
        description="Which of the drafters on this machine may serve which of its targets: token maps, sizes and "
        "layers are compared, nothing is loaded. Says why not, and what `--drafter auto` would take. Exit code 1 when "
        "no pair fits.",
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="a model that is here, by name or folder (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print the verdicts as one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept")
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class Judged:
    """A target and what its drafters come to. auto: the drafter that auto takes, and why. trouble: what is wrong with
    the target's own folder, "" for nothing."""

    target: Present
    verdicts: tuple[tuple[Present, Verdict], ...] = ()
    auto: Auto | None = None
    trouble: str = ""


def run(args: argparse.Namespace) -> int:
    """Raises UsageError for a target that is not here."""
    from app.models.present import present_models
    from models.catalogue import read_catalogue
    from models.folder import check_folder

    here = present_models(args.cache_dir)
    targets = [named(args.target, here)] if args.target else [one for one in here if is_model(one)]
    read = functools.cache(check_folder)
    catalogue = read_catalogue()
    judged = [judge_all(one, here, catalogue, read) for one in targets]
    if args.json:
        print(json.dumps({"targets": [document(one) for one in judged]}, indent=1, ensure_ascii=False))
    else:
        print("\n".join(_wrapped(line) for line in lines(judged)))
    return OK if any(verdict.fits for one in judged for _, verdict in one.verdicts) else FAILURE


def _wrapped(line: str) -> str:
    """On a terminal, under its own beginning; a pipe gets lines as they are."""
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent=" " * 4) if sys.stdout.isatty() else line


def named(name: str, here: Sequence[Present]) -> Present:
    """The model that `name` means: a folder, a name, or a part of one that no other has. Raises UsageError."""
    from models.pairing.present import Present

    exact = [one for one in here if name in (one.name, str(one.path))]
    likely = exact or [one for one in here if name.casefold() in one.name.casefold()]
    if len(likely) == 1:
        return likely[0]
    if not likely and Path(name).is_dir():
        return Present(Path(name).name, Path(name), 0)
    if likely:
        raise UsageError(f"{name!r} may be {', '.join(one.name for one in likely[:4])}: give one of them in full")
    raise UsageError(f"no model called {name!r} is here: `redline models list` shows those that are")


def is_model(one: Present) -> bool:
    """Whether it can be a target: heads and drafters that cannot stand alone cannot."""
    from models.disk import read_json_object
    from models.kinds import kind_of
    from models.pairing.judging import unknown_kind

    try:
        return kind_of(one.path) == "model" and not unknown_kind(read_json_object(one.path / "config.json"))
    except ModelError:
        return False


def judge_all(target: Present, here: Sequence[Present], catalogue: Catalogue, read: Read) -> Judged:
    """Every other of `here` as a drafter for `target`, those that fit first, the smallest of them before the others."""
    from models.builtin import is_builtin
    from models.pairing.auto import auto, shipped
    from models.pairing.judging import judge

    try:
        folder = read(target.path)
    except ModelError as error:
        return Judged(target, trouble=str(error))
    others = [one for one in here if os.path.realpath(one.path) != os.path.realpath(target.path)]
    others += shipped() if is_builtin(target.path) else []
    verdicts = [(one, judge(folder, one.path, read)) for one in others]
    verdicts.sort(key=lambda pair: (not pair[1].fits, pair[0].size_bytes))
    return Judged(target, tuple(verdicts), auto(folder, here, catalogue))


def document(judged: Judged) -> dict[str, Any]:
    """As JSON."""
    pairs = [
        {"drafter": one.name, "path": str(one.path), "size_bytes": one.size_bytes, "kind": verdict.kind or None}
        | {"fits": verdict.fits, "why": verdict.why, "notes": list(verdict.notes)}
        for one, verdict in judged.verdicts
    ]
    value: dict[str, Any] = {"target": judged.target.name, "path": str(judged.target.path), "pairs": pairs}
    value |= {"auto": judged.auto.spec, "auto_why": judged.auto.why} if judged.auto else {"auto": None}
    return value | {"trouble": judged.trouble or None}


def lines(judged: Sequence[Judged]) -> Iterator[str]:
    """For people: each target, its drafters with a verdict, and what auto takes."""
    if not judged:
        yield "no model is here that could be a target: `redline models search` shows some to pull"
    for one in judged:
        yield safe(one.target.name)
        if one.trouble:
            yield f"  {safe(one.trouble)}"
        for drafter, verdict in one.verdicts:
            yield f"  {'✓' if verdict.fits else '✗'} {safe(drafter.name)}: {safe(verdict.line)}"
        if one.auto:
            yield f"  auto takes {safe(one.auto.why)}"
