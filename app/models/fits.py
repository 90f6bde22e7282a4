"""`redline models fits`: what a model and its drafter take of memory here, by context, before anything is loaded."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli import FAILURE, OK
from app.options import AUTO, BUILTIN, KV_BITS, Options

if TYPE_CHECKING:
    from models.memory import Footprint, Footprints, Room, Verdict

CONTEXTS = (512, 2048, 8192, 32768, 131072)
_EXAMPLES = """examples:
  redline models fits                                       the built-in, with the drafter that auto takes
  redline models fits mlx-community/Qwen3-8B-4bit --context 32768
  redline models fits mlx-community/Qwen3-8B-4bit --kv-bits 8
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the tree."""
    parser = subparsers.add_parser(
        "fits",
        description="Whether a model fits here: weights of target and drafter, their keys and values at each context, "
        "and what a pass needs, against what this machine may give. Nothing is loaded. Exit code 1 where it does not.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("target", nargs="?", default=BUILTIN, metavar="TARGET", help="a model that is here, by name or folder")
    add("--drafter", default=AUTO, metavar="NAME|FOLDER", help="as for `redline chat` (default: auto)")
    add("--context", type=int, metavar="N", help="tokens of prompt and reply (default: what the model declares)")
    add("--kv-bits", type=int, choices=KV_BITS, metavar="N", help="bits of a remembered number, 8 or 4")
    add("--json", action="store_true", help="print one JSON document")
    add("--cache-dir", type=Path, metavar="DIR", help="where imported models are kept")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Look and tell. Raises UsageError, ModelError."""
    from app.choosing import chosen, drafter_folders, target_folder
    from app.fits import Asked, declared_context, this_room, verdict_of
    from models.folder import check_folder

    options = Options(
        target=args.target,
        drafters=(args.drafter,),
        context=args.context,
        kv_bits=args.kv_bits,
        cache_root=args.cache_dir,
    )
    folder = check_folder(target_folder(options))
    drafter = chosen(folder)[0] if args.drafter == AUTO else args.drafter
    asked = Asked(folder, drafter_folders(drafter, folder), options)
    verdict, taken, wanted = verdict_of(asked), asked.taken, declared_context(folder, args.context)
    value = document(folder.path.name, drafter, wanted, taken, verdict, this_room())
    if args.json:
        print(json.dumps(value, indent=1, ensure_ascii=False))
    else:
        show(value, taken(verdict.context))
    return FAILURE if verdict.level == "refused" else OK


def document(target: str, drafter: str, wanted: int, taken: Footprints, verdict: Verdict, room: Room) -> dict[str, Any]:
    """As JSON. wanted: tokens as declared or asked for; context: those that fit, for which everything else is said."""
    from models.memory import judge

    footprint, contexts = taken(verdict.context), sorted({*CONTEXTS, verdict.context, wanted})
    return {
        "target": target,
        "drafter": drafter,
        "wanted": wanted,
        "context": verdict.context,
        "level": verdict.level,
        "said": verdict.said,
        "remedies": list(verdict.remedies),
        "needed_bytes": verdict.needed,
        "most_bytes": room.most,
        "weights_bytes": footprint.weights,
        "cache_bytes": footprint.cache,
        "contexts": [
            {"context": context, "needed_bytes": taken(context).total, "level": judge(taken, context, room).level}
            for context in contexts
            if context <= wanted
        ],
    }


def show(value: dict[str, Any], footprint: Footprint) -> None:
    """The verdict, its parts, and a line for each context."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from models.sizes import memory_words

    console, colours = Console(highlight=False), {"good": "green", "tight": "yellow", "refused": "red"}
    console.print(Text.assemble((value["target"], "bold"), f" with {value['drafter']}: ", value["said"]))
    for remedy in value["remedies"]:
        console.print(Text(f"  {remedy}", "yellow"))
    if value["context"] < value["wanted"]:
        made_for = f"made for {value['wanted']:,} tokens; a chat gets {value['context']:,}, as they fit with ease"
        console.print(Text(made_for, "dim"))
    parts = {
        "weights": footprint.weights,
        "keys and values": footprint.cache,
        "a pass": footprint.working,
        "program and tokenizers": footprint.process,
    }
    told = ", ".join(f"{name} {memory_words(size)}" for name, size in parts.items())
    console.print(Text(f"at {value['context']:,} tokens: {told}", "dim"))
    console.print()
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("context", "memory"):
        table.add_column(title, justify="right")
    table.add_column("fits")
    for row in value["contexts"]:
        level = Text(row["level"], colours[row["level"]])
        table.add_row(f"{row['context']:,}", memory_words(row["needed_bytes"]), level)
    console.print(table)
