"""`redline models pairs` and `fits`: which drafters work with which targets, and whether a pair fits in memory.

Nothing is loaded.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.terminal.output import output_console, plain_table
from app.command_line import FAILURE, OK, add_command, add_common, print_json
from app.inference.options import AUTO, KV_BITS, Options
from app.protocol.model_documents import (
    DrafterVerdict,
    MemoryAtContext,
    MemoryFit,
    PairVerdicts,
    TargetVerdicts,
    document_json,
)
from app.safe_text import safe_line
from engine.errors import ModelError, UsageError
from models.paths import BUILTIN, name_of

if TYPE_CHECKING:
    from app.command_line import Commands
    from models.catalogue.entries import Catalogue
    from models.compatibility.best_drafter import UsableModel
    from models.drafters.drafter_kind import Compatibility
    from models.memory.memory_verdict import AvailableMemory, Footprint, FootprintAt, MemoryVerdict
    from models.model_folder import ModelFolder

    Read = Callable[[Path], ModelFolder]

CONTEXTS = (512, 2048, 8192, 32768, 131072)


# --- pairs


def add_pairs(commands: Commands) -> None:
    about = (
        "Show which installed drafters work with which targets, and what `--drafter auto` would choose. "
        "Compares token maps, sizes and layers; loads nothing. Exit status 1 if no pair works."
    )
    parser = add_command(commands, "pairs", run_pairs, about)
    installed = "an installed model, by name or folder (default: all)"
    parser.add_argument("target", nargs="?", metavar="TARGET", help=installed)
    add_common(parser)


def run_pairs(args: argparse.Namespace) -> int:
    """Prints the verdicts; returns 1 if no pair works. Raises UsageError or ModelError for a target that is not
    installed."""
    from app.inference.pair_resolution import present_models
    from models.catalogue.entries import read_catalogue
    from models.model_folder import check_folder

    root = args.cache_dir
    here = present_models(root)
    targets = [_named(args.target, here, root)] if args.target else [one for one in here if _can_be_target(one)]
    read, catalogue = functools.cache(check_folder), read_catalogue()
    found = PairVerdicts(targets=tuple(_judge_all(one, here, catalogue, read, root) for one in targets))
    if args.json:
        print_json(document_json(found))
    else:
        print("\n".join(map(_wrapped, _pair_lines(found.targets))))
    return OK if any(pair.fits for one in found.targets for pair in one.pairs) else FAILURE


def _named(name: str, here: Sequence[UsableModel], cache_root: Path | None) -> UsableModel:
    """Returns the model that `name` means: a folder, a name, or a part of only one name. Raises UsageError for a part
    of several names, and what `target_folder` raises for an unknown name."""
    from app.inference.pair_resolution import target_folder
    from models.compatibility.best_drafter import UsableModel

    exact = [one for one in here if name in (one.name, str(one.path))]
    likely = exact or [one for one in here if name.casefold() in one.name.casefold()]
    if len(likely) == 1:
        return likely[0]
    if likely:
        raise UsageError(f"{name!r} matches {', '.join(one.name for one in likely[:4])}: use one full name")
    folder = target_folder(Options(name, cache_root=cache_root))
    return UsableModel(BUILTIN if name == BUILTIN else name_of(folder), folder, 0)


def _can_be_target(one: UsableModel) -> bool:
    """Returns whether a model is more than a head or another drafter that cannot stand alone."""
    from models.drafters import kind_of

    try:
        return kind_of(one.path).stands_alone
    except ModelError:
        return False


def _judge_all(
    target: UsableModel, here: Sequence[UsableModel], catalogue: Catalogue, read: Read, cache_root: Path | None
) -> TargetVerdicts:
    """Returns the verdict on every other model as a drafter; those that fit come first, the smallest before others."""
    from models.builtin import is_builtin
    from models.compatibility.best_drafter import auto_drafter, shipped_drafters
    from models.compatibility.pair_check import check_compatibility

    try:
        folder = read(target.path)
    except ModelError as error:
        return TargetVerdicts(target=target.name, path=str(target.path), trouble=str(error))
    others = [one for one in here if os.path.realpath(one.path) != os.path.realpath(target.path)]
    others += shipped_drafters() if is_builtin(target.path) else []
    pairs = [_verdict(one, check_compatibility(folder, one.path, read)) for one in others]
    pairs.sort(key=lambda pair: (not pair.fits, pair.size_bytes))
    auto = auto_drafter(folder, here, catalogue, cache_root)
    return TargetVerdicts(
        target=target.name,
        path=str(target.path),
        pairs=tuple(pairs),
        auto=auto.spec if auto else None,
        auto_why=auto.why if auto else "",
    )


def _verdict(drafter: UsableModel, found: Compatibility) -> DrafterVerdict:
    return DrafterVerdict(
        drafter=drafter.name,
        path=str(drafter.path),
        size_bytes=drafter.size_bytes,
        kind=found.kind or None,
        fits=found.fits,
        why=found.reason,
        notes=tuple(found.notes),
    )


def _pair_lines(found: Sequence[TargetVerdicts]) -> Iterator[str]:
    """Yields each target, its drafters with a verdict, and what auto chooses."""
    if not found:
        yield "no target is installed: `redline models search` shows some to pull"
    for one in found:
        yield safe_line(one.target)
        if one.trouble:
            yield f"  {safe_line(one.trouble)}"
        for pair in one.pairs:
            verdict = pair.why if pair.fits else f"Incompatible: {pair.why}"
            yield f"  {'✓' if pair.fits else '✗'} {safe_line('; '.join((f'{pair.drafter}: {verdict}', *pair.notes)))}"
        if one.auto_why:
            yield f"  auto chooses {safe_line(one.auto_why)}"


def _wrapped(line: str) -> str:
    """Returns a line with a hanging indent on a terminal; in a pipe, as it is."""
    width = shutil.get_terminal_size().columns
    return textwrap.fill(line, width, subsequent_indent=" " * 4) if sys.stdout.isatty() else line


# --- fits


_EXAMPLES = """examples:
  redline models fits                                       the built-in model with its automatic drafter
  redline models fits mlx-community/Qwen3-8B-4bit --context 32768
  redline models fits mlx-community/Qwen3-8B-4bit --kv-bits 8
"""
_COLOURS = {"good": "green", "tight": "yellow", "refused": "red"}


def add_fits(commands: Commands) -> None:
    about = (
        "Show whether a model and its drafter fit in memory: weights, keys and values by context, and working memory. "
        "Loads nothing. Exit status 1 if they do not fit."
    )
    parser = add_command(commands, "fits", run_fits, about, _EXAMPLES)
    add = parser.add_argument
    add(
        "target",
        nargs="?",
        default=BUILTIN,
        metavar="TARGET",
        help="an installed model, by name or folder (default: the built-in model)",
    )
    add("--drafter", default=AUTO, metavar="NAME|FOLDER", help="as for `redline chat` (default: auto)")
    add("--context", type=int, metavar="N", help="tokens of prompt and reply (default: the model's own)")
    add("--kv-bits", type=int, choices=KV_BITS, metavar="N", help="quantize keys and values to 8 or 4 bits")
    add_common(parser)


def run_fits(args: argparse.Namespace) -> int:
    """Prints the verdict; returns 1 if the pair does not fit. Raises UsageError, ModelError."""
    from app.inference.memory_check import declared_context, this_room, verdict_of
    from app.inference.pair_resolution import drafter_folders, resolve_auto, target_folder
    from models.drafters.pair_footprint import pair_footprint
    from models.model_folder import check_folder

    options = Options(
        target=args.target,
        drafters=(args.drafter,),
        context=args.context,
        kv_bits=args.kv_bits,
        cache_root=args.cache_dir,
    )
    folder = check_folder(target_folder(options))
    drafter = resolve_auto(folder, args.cache_dir)[0] if args.drafter == AUTO else args.drafter
    drafters, wanted = drafter_folders(drafter, folder, args.cache_dir), declared_context(folder, args.context)
    verdict, taken = verdict_of(folder, drafters, options), pair_footprint(folder, drafters, options.kv_bits)
    fit = _fit_document((name_of(folder.path), drafter), wanted, taken, verdict, this_room())
    if args.json:
        print_json(document_json(fit))
    else:
        _show_fit(fit, taken(verdict.context))
    return FAILURE if verdict.level == "refused" else OK


def _fit_document(
    pair: tuple[str, str], wanted: int, taken: FootprintAt, verdict: MemoryVerdict, room: AvailableMemory
) -> MemoryFit:
    """Returns the verdict as a document. pair: target and drafter. wanted: tokens as declared or requested."""
    from models.memory.memory_verdict import judge_memory

    footprint = taken(verdict.context)
    contexts = [context for context in sorted({*CONTEXTS, verdict.context, wanted}) if context <= wanted]
    return MemoryFit(
        target=pair[0],
        drafter=pair[1],
        wanted=wanted,
        context=verdict.context,
        level=verdict.level,
        reason=verdict.reason,
        remedies=tuple(verdict.remedies),
        needed_bytes=verdict.needed,
        most_bytes=room.most,
        weights_bytes=footprint.weights,
        cache_bytes=footprint.cache,
        contexts=tuple(
            MemoryAtContext(
                context=context, needed_bytes=taken(context).total, level=judge_memory(taken, context, room).level
            )
            for context in contexts
        ),
    )


def _show_fit(fit: MemoryFit, footprint: Footprint) -> None:
    """Prints the verdict, its parts, and a line for each context."""
    from rich.text import Text

    from models.size_text import memory_words

    console = output_console()
    console.print(Text.assemble((fit.target, "bold"), f" with {fit.drafter}: ", fit.reason))
    for remedy in fit.remedies:
        console.print(Text(f"  {remedy}", "yellow"))
    if fit.context < fit.wanted:
        made_for = f"made for {fit.wanted:,} tokens; chats use {fit.context:,}, which fit easily"
        console.print(Text(made_for, "dim"))
    parts = {
        "weights": footprint.weights,
        "keys and values": footprint.cache,
        "working memory": footprint.working,
        "program and tokenizers": footprint.process,
    }
    sizes = ", ".join(f"{name} {memory_words(size)}" for name, size in parts.items())
    console.print(Text(f"at {fit.context:,} tokens: {sizes}", "dim"))
    console.print()
    table = plain_table([], ["context", "memory"])
    table.add_column("fits")
    for row in fit.contexts:
        level = Text(row.level, _COLOURS[row.level])
        table.add_row(f"{row.context:,}", memory_words(row.needed_bytes), level)
    console.print(table)
