"""`redline models` and `redline models search`: what this machine can run, and the whole catalogue.

The overview fits on one screen: the machine, and of each family the largest target that fits it, with the best drafter
that Redline loads for it and the speed-up where somebody measured it. A speed-up is never guessed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import msgspec
from rich.padding import Padding
from rich.text import Text

from app.cli.terminal.output import output_console, plain_table
from app.command_line import FAILURE, OK, add_command, add_common, print_json
from app.inference.machine import this_machine
from app.model_words import bits, size, speedup
from app.protocol.model_documents import document_json
from app.reply_statistics import count
from app.safe_text import safe_line
from models.catalogue.entries import Catalogue, Entry, Target, read_catalogue
from models.catalogue.search import (
    KINDS,
    BestPair,
    MachineMemory,
    read_memory,
    recommended_pairs,
    search,
    smallest_mac_gb,
)
from models.size_text import memory_words

if TYPE_CHECKING:
    from rich.table import Table

    from app.command_line import Commands

LOOKUP = "lookup"
_MAX_WIDTH = 100  # columns of an entry
_TARGETS_NAMED = 4  # of a drafter
_MODELS_NAMED = 6  # installed models


# --- the overview


def run_overview(args: argparse.Namespace) -> int:
    """Prints what this machine can run. Needs no network."""
    machine, catalogue, (names, here) = this_machine(), read_catalogue(), _installed(args)
    found = recommended_pairs(catalogue, machine, here)
    if args.json:
        targets = [_pair_document(pair, here) for pair in found]
        print_json(document_json({"machine": machine, "here": sorted(here), "targets": targets}))
    else:
        _show_overview(found, machine, names, here)
    return OK


def _installed(args: argparse.Namespace) -> tuple[list[str], set[str]]:
    """Returns the names of the installed models, and the repositories of those that have one."""
    from app.inference.pair_resolution import present_models

    models = present_models(args.cache_dir)
    return [one.name for one in models], {one.repository for one in models if one.repository}


def _pair_document(pair: BestPair, here: Set[str]) -> dict[str, object]:
    """Returns a recommended target as a document. room: good or tight, with its drafter. drafter: a repository, or
    "lookup". target_here, drafter_here: whether they are on this machine."""
    target, drafter = pair.target, pair.drafter
    return {
        "target": target.repository,
        "name": target.name,
        "size_bytes": target.size_bytes,
        "size": target.size,
        "room": pair.fit,
        "drafter": drafter.repository if drafter else LOOKUP,
        "target_here": target.repository in here,
        "drafter_here": drafter is None or drafter.repository in here,
        "measured": pair.measured,
    }


def _show_overview(found: Sequence[BestPair], machine: MachineMemory, names: Sequence[str], here: Set[str]) -> None:
    """Prints the machine, the table, what was measured where, and what to do next. names: of the installed models;
    here: the installed repositories."""
    console = output_console()
    total, most = memory_words(machine.memory_bytes), memory_words(machine.for_models_bytes)
    about = f", {total} of memory, up to {most} for a model".replace(".0 GB", " GB")
    console.print(Text.assemble((machine.processor, "bold"), about))
    if machine.in_float32:
        console.print("without a GPU, weights are held as 32-bit floats: 4 GB for a billion of them")
    more = f" and {len(names) - _MODELS_NAMED} more (`redline models list`)" if len(names) > _MODELS_NAMED else ""
    named = safe_line(", ".join(names[:_MODELS_NAMED]))
    console.print(Text(f"installed: {named}{more}" if names else "no models are installed"))
    console.print(Text("the built-in SmolLM2 135M needs no download: `redline chat`", "dim"))
    console.print()
    console.print(_overview_table(found, here))
    console.print()
    notes = [
        f"{row.target.name} with {_drafter_name(row)}: {one.speedup:g} times on {one.on} ({one.source})"
        for row in found
        for one in row.measured
    ]
    notes += [
        "● installed; ~ estimated; tight: close other programs and use a short context",
        "`redline race` measures a pair's speed-up on this machine",
        "`redline models search` shows all; `redline models pull REPOSITORY` downloads one",
    ]
    for note in notes:
        console.print(Text(note, "dim"))


def _overview_table(found: Sequence[BestPair], here: Set[str]) -> Table:
    table = plain_table(["this machine can run"], ["size"])
    table.add_column("fits", no_wrap=True)
    table.add_column("best drafter", overflow="fold")
    if measured := any(row.measured for row in found):
        table.add_column("times as fast", justify="right", no_wrap=True)
    for row in found:
        name = Text(f"{'● ' if row.target.repository in here else '  '}{_title(row.target)}")
        is_installed = row.drafter is not None and row.drafter.repository in here
        drafter = Text(f"{'● ' if is_installed else ''}{_drafter_name(row)}")
        fits = Text(row.fit, "yellow" if row.fit == "tight" else "green")
        speedups = [speedup(row.measured, "")] if measured else []
        table.add_row(name, _size(row.target), fits, drafter, *speedups)
    return table


def _drafter_name(row: BestPair) -> str:
    return row.drafter.name if row.drafter else LOOKUP


# --- search


_EXAMPLES = """examples:
  redline models search --fits 16GB --kind target      what a Mac with 16 GB can run
  redline models search qwen3 8b                       by words, in any order
  redline models search llama --kind eagle3            heads that draft for Llama
"""


def add_search(commands: Commands) -> None:
    about = (
        "Search targets and drafters for Apple Silicon, and see which drafter goes with which target. "
        "Works offline; `redline models check` checks that they still exist."
    )
    parser = add_command(commands, "search", run_search, about, _EXAMPLES)
    add = parser.add_argument
    add("words", nargs="*", metavar="WORD", help="show only entries with all these words")
    add("--fits", metavar="MEMORY", help="show only what fits a Mac with this memory, such as 16GB")
    add("--kind", choices=KINDS, help="show only one kind; draft: small models that draft for others")
    add_common(parser)


def run_search(args: argparse.Namespace) -> int:
    """Prints the entries found; returns 1 if there are none. Raises UsageError for an invalid memory size."""
    catalogue = read_catalogue()
    memory_bytes = None if args.fits is None else read_memory(args.fits)
    found, here = search(catalogue, args.words, args.kind, memory_bytes), _installed(args)[1]
    if args.json:
        print_json(document_json({"entries": [_entry_document(one, catalogue, here) for one in found]}))
    elif found:
        _show_entries(found, catalogue, here)
    else:
        print("no match in the catalogue; `redline models search` shows all entries")
    return OK if found else FAILURE


def _entry_document(entry: Entry, catalogue: Catalogue, here: Set[str]) -> dict[str, object]:
    """Returns an entry as a document: its fields, whether it is here, and for a target the smallest Mac that it fits,
    None where not even the largest does, and its measured speed-ups. A drafter has the same fields."""
    fields = {"family": "", "good_at": "", "architecture": "", "drafters": (), **msgspec.structs.asdict(entry)}
    for name in ("obstacle", "head_from", "good_at_source"):
        fields.pop(name, None)
    return fields | {
        "kind": "target" if isinstance(entry, Target) else entry.kind,
        "trouble": entry.trouble or None,
        "here": entry.repository in here,
        "smallest_mac_gb": smallest_mac_gb(entry.size_bytes) if isinstance(entry, Target) else None,
        "measured": [one for one in catalogue.measured if one.target == entry.repository],
    }


def _show_entries(found: Sequence[Entry], catalogue: Catalogue, here: Set[str]) -> None:
    """Prints up to four lines for each entry: its name, size and smallest Mac; its repository; what it is good at; and
    what it works with."""
    console = output_console()
    for entry in found:
        mac = smallest_mac_gb(entry.size_bytes) if isinstance(entry, Target) else None
        numbers = f"{_size(entry):>9}" + (f"  {mac:>3} GB Mac" if mac else " " * 12)
        name = Text(_title(entry), "bold")
        name.truncate(min(console.width, _MAX_WIDTH) - len(numbers) - 1, overflow="ellipsis", pad=True)
        console.print(Text.assemble(name, " ", numbers))
        repository = Text(f"{entry.repository}{' ●' if entry.repository in here else ''}", "dim", overflow="fold")
        good_at = Text(f"good at {entry.good_at}") if isinstance(entry, Target) and entry.good_at else None
        for line in filter(None, (repository, good_at, _partners(entry, catalogue))):
            console.print(Padding(line, (0, 0, 0, 2), expand=False))
    console.print()
    legend = "● installed, ~ estimated, † not supported by Redline yet"
    console.print(Text(f"{count(len(found), 'model')}; {legend}", "dim"))
    console.print(Text("`redline models pull REPOSITORY` downloads one", "dim"))


def _partners(entry: Entry, catalogue: Catalogue) -> Text | None:
    """Returns the drafters of a target, or the targets of a drafter; those that do not load yet are marked and dim."""
    drafters: list[Entry] = catalogue.drafters_of(entry) if isinstance(entry, Target) else []
    if drafters:
        names = [Text(one.name + (" †" if one.trouble else ""), "dim" if one.trouble else "") for one in drafters]
        return Text.assemble("with ", Text(", ").join(names))
    targets = list(dict.fromkeys(one.name for one in catalogue.targets_of(entry)))
    if not targets:
        return None
    more = f" and {len(targets) - _TARGETS_NAMED} more" if len(targets) > _TARGETS_NAMED else ""
    why = f" († {entry.trouble})" if entry.trouble else ""
    return Text(f"drafts for {', '.join(targets[:_TARGETS_NAMED])}{more}{why}")


def _title(entry: Entry) -> str:
    """Returns the name of an entry, with the bits of its weights if it is a target."""
    if not isinstance(entry, Target):
        return entry.name
    return f"{entry.name} · {bits(entry.bits)}"


def _size(entry: Entry) -> str:
    return size(entry.size_bytes, entry.size == "estimated")
