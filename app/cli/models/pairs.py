"""`redline models pairs`: shows which installed drafters work with which targets, and why others do not."""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.terminal.safe_text import safe
from app.command_line import FAILURE, OK
from app.protocol.model_documents import DrafterVerdict, PairVerdicts, TargetVerdicts, document_json
from engine.errors import ModelError, UsageError

if TYPE_CHECKING:
    from models.catalogue import Catalogue
    from models.compatibility import Compatibility
    from models.compatibility.best_drafter import AutoDrafter, UsableModel
    from models.model_folder import ModelFolder

    Read = Callable[[Path], ModelFolder]


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "pairs",
        description="Show which installed drafters work with which targets, and what `--drafter auto` would choose. "
        "Compares token maps, sizes and layers; loads nothing. Exit code 1 if no pair fits.",
    )
    parser.add_argument(
        "target", nargs="?", metavar="TARGET", help="an installed model, by name or folder (default: all)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


@dataclass(frozen=True)
class Judged:
    """A target and what its drafters come to. auto: the drafter that auto takes, and why. trouble: what is wrong with
    the target's own folder, "" for nothing."""

    target: UsableModel
    verdicts: tuple[tuple[UsableModel, Compatibility], ...] = ()
    auto: AutoDrafter | None = None
    trouble: str = ""


def run(args: argparse.Namespace) -> int:
    """Raises UsageError for a target that is not here."""
    from app.inference.pair_resolution import present_models
    from models.catalogue import read_catalogue
    from models.model_folder import check_folder

    here = present_models(args.cache_dir)
    targets = [named(args.target, here)] if args.target else [one for one in here if is_model(one)]
    read = functools.cache(check_folder)
    catalogue = read_catalogue()
    judged = [judge_all(one, here, catalogue, read) for one in targets]
    if args.json:
        print(document_json(PairVerdicts(targets=tuple(document(one) for one in judged))))
    else:
        print("\n".join(_wrapped(line) for line in lines(judged)))
    return OK if any(verdict.fits for one in judged for _, verdict in one.verdicts) else FAILURE


def _wrapped(line: str) -> str:
    """On a terminal, under its own beginning; a pipe gets lines as they are."""
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent=" " * 4) if sys.stdout.isatty() else line


def named(name: str, here: Sequence[UsableModel]) -> UsableModel:
    """The model that `name` means: a folder, a name, or a part of one that no other has. Raises UsageError."""
    from models.compatibility.best_drafter import UsableModel

    exact = [one for one in here if name in (one.name, str(one.path))]
    likely = exact or [one for one in here if name.casefold() in one.name.casefold()]
    if len(likely) == 1:
        return likely[0]
    if not likely and Path(name).is_dir():
        return UsableModel(Path(name).name, Path(name), 0)
    if likely:
        raise UsageError(f"{name!r} matches {', '.join(one.name for one in likely[:4])}: use one full name")
    raise UsageError(f"no model {name!r}: `redline models list` shows the installed ones")


def is_model(one: UsableModel) -> bool:
    """Whether it can be a target: heads and drafters that cannot stand alone cannot."""
    from models.drafters import kind_of, unsupported_kind
    from models.durable_files import read_json_object

    try:
        return kind_of(one.path).stands_alone and not unsupported_kind(read_json_object(one.path / "config.json"))
    except ModelError:
        return False


def judge_all(target: UsableModel, here: Sequence[UsableModel], catalogue: Catalogue, read: Read) -> Judged:
    """Every other of `here` as a drafter for `target`, those that fit first, the smallest of them before the others."""
    from models.builtin import is_builtin
    from models.compatibility.best_drafter import auto_drafter, shipped_drafters
    from models.compatibility.pair_check import check_compatibility

    try:
        folder = read(target.path)
    except ModelError as error:
        return Judged(target, trouble=str(error))
    others = [one for one in here if os.path.realpath(one.path) != os.path.realpath(target.path)]
    others += shipped_drafters() if is_builtin(target.path) else []
    verdicts = [(one, check_compatibility(folder, one.path, read)) for one in others]
    verdicts.sort(key=lambda pair: (not pair[1].fits, pair[0].size_bytes))
    return Judged(target, tuple(verdicts), auto_drafter(folder, here, catalogue))


def document(judged: Judged) -> TargetVerdicts:
    """Returns the verdicts for a target as a document."""
    return TargetVerdicts(
        target=judged.target.name,
        path=str(judged.target.path),
        pairs=tuple(
            DrafterVerdict(
                drafter=one.name,
                path=str(one.path),
                size_bytes=one.size_bytes,
                kind=verdict.kind or None,
                fits=verdict.fits,
                why=verdict.reason,
                notes=tuple(verdict.notes),
            )
            for one, verdict in judged.verdicts
        ),
        auto=judged.auto.spec if judged.auto else None,
        auto_why=judged.auto.why if judged.auto else "",
        trouble=judged.trouble or None,
    )


def lines(judged: Sequence[Judged]) -> Iterator[str]:
    """For people: each target, its drafters with a verdict, and what auto takes."""
    if not judged:
        yield "no target is installed: `redline models search` shows some to pull"
    for one in judged:
        yield safe(one.target.name)
        if one.trouble:
            yield f"  {safe(one.trouble)}"
        for drafter, verdict in one.verdicts:
            yield f"  {'✓' if verdict.fits else '✗'} {safe(drafter.name)}: {safe(verdict.line)}"
        if one.auto:
            yield f"  auto takes {safe(one.auto.why)}"
