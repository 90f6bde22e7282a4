"""`redline models fits`: the memory of a model and its drafter by context, before anything is loaded."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from app.command_line import FAILURE, OK
from app.inference.options import AUTO, BUILTIN, KV_BITS, Options
from app.protocol.model_documents import MemoryAtContext, MemoryFit, document_json

if TYPE_CHECKING:
    from models.memory import AvailableMemory, FitVerdict, Footprint, FootprintAt

CONTEXTS = (512, 2048, 8192, 32768, 131072)
_EXAMPLES = """examples:
  redline models fits                                       the built-in model with its automatic drafter
  redline models fits mlx-community/Qwen3-8B-4bit --context 32768
  redline models fits mlx-community/Qwen3-8B-4bit --kv-bits 8
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    parser = subparsers.add_parser(
        "fits",
        description="Show whether a model and its drafter fit in memory: weights, keys and values by context, and "
        "working memory. Loads nothing. Exit code 1 if they do not fit.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="an installed model, by name or folder")
    add("--drafter", default=AUTO, metavar="NAME|FOLDER", help="as for `redline chat` (default: auto)")
    add("--context", type=int, metavar="N", help="tokens of prompt and reply (default: the model's own)")
    add("--kv-bits", type=int, choices=KV_BITS, metavar="N", help="bits of keys and values, 8 or 4")
    add("--json", action="store_true", help="print one JSON document")
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the answer. Raises UsageError, ModelError."""
    from app.inference.memory_fit import declared_context, this_room, verdict_of
    from app.inference.pair_resolution import chosen, drafter_folders, target_folder
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
    drafter = chosen(folder)[0] if args.drafter == AUTO else args.drafter
    drafters, wanted = drafter_folders(drafter, folder), declared_context(folder, args.context)
    verdict, taken = verdict_of(folder, drafters, options), pair_footprint(folder, drafters, options.kv_bits)
    fit = document(folder.path.name, drafter, wanted, taken, verdict, this_room())
    if args.json:
        print(document_json(fit))
    else:
        show(fit, taken(verdict.context))
    return FAILURE if verdict.level == "refused" else OK


def document(
    target: str, drafter: str, wanted: int, taken: FootprintAt, verdict: FitVerdict, room: AvailableMemory
) -> MemoryFit:
    """Returns the verdict as a document. wanted: tokens as declared or requested."""
    from models.memory import judge_fit

    footprint, contexts = taken(verdict.context), sorted({*CONTEXTS, verdict.context, wanted})
    return MemoryFit(
        target=target,
        drafter=drafter,
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
                context=context, needed_bytes=taken(context).total, level=judge_fit(taken, context, room).level
            )
            for context in contexts
            if context <= wanted
        ),
    )


def show(fit: MemoryFit, footprint: Footprint) -> None:
    """The verdict, its parts, and a line for each context."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from models.size_text import memory_words

    console, colours = Console(highlight=False), {"good": "green", "tight": "yellow", "refused": "red"}
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
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("context", "memory"):
        table.add_column(title, justify="right")
    table.add_column("fits")
    for row in fit.contexts:
        level = Text(row.level, colours[row.level])
        table.add_row(f"{row.context:,}", memory_words(row.needed_bytes), level)
    console.print(table)
