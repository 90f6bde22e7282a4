"""`redline models search`: the catalogue, by words, kind and size of Mac."""

from __future__ import annotations

import argparse
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

from app.command_line import FAILURE, OK
from app.protocol.model_documents import CatalogueEntries, CatalogueEntry, MeasuredSpeedup, document_json

if TYPE_CHECKING:
    from rich.text import Text

    from models.catalogue import Catalogue, Entry, Measured

_WIDEST = 100  # columns, beyond which an eye loses its line
_NAMED = 4

_EXAMPLES = """examples:
  redline models search --fits 16GB --kind target      what a Mac with 16 GB can run
  redline models search qwen3 8b                       by words, in any order
  redline models search llama --kind eagle3            heads that draft for Llama
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command."""
    from models.catalogue.search import KINDS

    parser = subparsers.add_parser(
        "search",
        description="Search targets and drafters for Apple Silicon, and see which drafter goes with which target. "
        "Works offline; `redline models check` checks that they still exist.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("words", nargs="*", metavar="WORD", help="show only entries with all these words")
    add("--fits", metavar="MEMORY", help="show only what fits a Mac with this memory, such as 16GB")
    add("--kind", choices=KINDS, help="show only one kind; draft: small models that draft for others")
    add("--json", action="store_true", help="print one JSON document, with sources")
    add("--cache-dir", type=Path, metavar="DIR", help="folder of imported models")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 1 where nothing is found. Raises UsageError for a memory that is none."""
    from app.inference.pair_resolution import present_models
    from models.catalogue import read_catalogue
    from models.catalogue.mac_memory import read_memory
    from models.catalogue.search import search

    catalogue = read_catalogue()
    memory_bytes = None if args.fits is None else read_memory(args.fits)
    found = search(catalogue, args.words, args.kind, memory_bytes)
    here = {one.repository for one in present_models(args.cache_dir) if one.repository}
    if args.json:
        print(document_json(CatalogueEntries(entries=tuple(document(one, catalogue, here) for one in found))))
    elif found:
        show(found, catalogue, here)
    else:
        print("no match in the catalogue; `redline models search` shows all entries")
    return OK if found else FAILURE


def document(entry: Entry, catalogue: Catalogue, here: Set[str | None]) -> CatalogueEntry:
    """Returns an entry as a document: with the smallest Mac for a target, and what was measured with its drafters."""
    import msgspec

    from models.catalogue import Target
    from models.catalogue.mac_memory import smallest_mac_gb

    fields = msgspec.structs.asdict(entry)
    fields.pop("obstacle", None)
    fields |= {"trouble": entry.trouble or None, "here": entry.repository in here}
    if isinstance(entry, Target):
        fields |= {"kind": "target", "smallest_mac_gb": smallest_mac_gb(entry.size_bytes)}
        found = (one for one in catalogue.measured if one.target == entry.repository)
        fields["measured"] = tuple(measured_speedup(one) for one in found)
    return CatalogueEntry(**fields)


def measured_speedup(measured: Measured) -> MeasuredSpeedup:
    """Returns a measurement as documents have it."""
    return MeasuredSpeedup(
        target=measured.target,
        drafter=measured.drafter,
        speedup=measured.speedup,
        on=measured.on,
        source=measured.source,
    )


def show(found: Sequence[Entry], catalogue: Catalogue, here: Set[str | None]) -> None:
    """Three lines each: what it is, its size and the smallest Mac; its repository, and whether it is `here`; what it is
    known to go with."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    from app.reply_statistics import count

    console = Console(highlight=False)
    for entry in found:
        console.print(_first(entry, min(console.width, _WIDEST)))
        repository = Text(f"{entry.repository}{' ●' if entry.repository in here else ''}", "dim", overflow="fold")
        console.print(Padding(repository, (0, 0, 0, 2), expand=False))
        if partners := _partners(entry, catalogue):
            console.print(Padding(partners, (0, 0, 0, 2), expand=False))
    console.print()
    console.print(Text(f"{count(len(found), 'model')}; ● here, ~ estimated, † not loaded by Redline yet", "dim"))
    console.print(Text("`redline models pull REPOSITORY` downloads one", "dim"))


def _first(entry: Entry, width: int) -> Text:
    from rich.text import Text

    from models.catalogue import Target
    from models.catalogue.mac_memory import smallest_mac_gb

    mac = smallest_mac_gb(entry.size_bytes) if isinstance(entry, Target) else None
    numbers = f"{size_of(entry):>9}" + (f"  {mac:>3} GB Mac" if mac else " " * 12)
    name = Text(title(entry), "bold")
    name.truncate(width - len(numbers) - 1, overflow="ellipsis", pad=True)
    return Text.assemble(name, " ", numbers)


def title(entry: Entry) -> str:
    """What it is: a target with the bits of its weights."""
    from models.catalogue import Target

    return f"{entry.name} · {bits(entry.bits)}" if isinstance(entry, Target) else entry.name


def bits(number: float) -> str:
    """Bits of a weight without its scales: what the name of a repository says."""
    return "16-bit" if number >= 16 else "8-bit" if number >= 8 else "4-bit"


def size_of(entry: Entry) -> str:
    """In GB as disks are sold, with a mark where it is an estimate; nothing where it is not known."""
    if entry.size_bytes is None:
        return ""
    number = entry.size_bytes / 1e9
    return f"{'~' if entry.size == 'estimated' else ''}{number:.{1 if number >= 1 else 2}f} GB"


def _partners(entry: Entry, catalogue: Catalogue) -> Text | None:
    """Drafters of a target, or the targets of a drafter; those that do not load yet are marked and dim."""
    from rich.text import Text

    from models.catalogue import Target

    drafters: list[Entry] = catalogue.drafters_of(entry) if isinstance(entry, Target) else []
    if drafters:
        names = [Text(one.name + (" †" if one.trouble else ""), "dim" if one.trouble else "") for one in drafters]
        return Text.assemble("with ", Text(", ").join(names))
    served = list(dict.fromkeys(one.name for one in catalogue.targets_of(entry)))
    if not served:
        return None
    more = f" and {len(served) - _NAMED} more" if len(served) > _NAMED else ""
    why = f" († {entry.trouble})" if entry.trouble else ""
    return Text(f"drafts for {', '.join(served[:_NAMED])}{more}{why}")
