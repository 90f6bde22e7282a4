"""`redline models` and `redline models search`: what this machine can run, and the whole catalogue.

The overview fits on one screen: the machine, and of each family the largest target that fits it, with the best drafter
that Redline loads for it and the speed-up where somebody measured it. A speed-up is never guessed.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

import msgspec
from rich.padding import Padding
from rich.text import Text

from app.cli.terminal.output import output_console, plain_table
from app.command_line import FAILURE, OK, add_command, add_common, print_json
from app.inference.machine import memory, processor
from app.protocol.model_documents import (
    CatalogueEntries,
    CatalogueEntry,
    MachineMemory,
    MachineOverview,
    MeasuredSpeedup,
    RecommendedTarget,
    document_json,
)
from app.reply_statistics import count
from app.safe_text import safe_line
from models.catalogue.entries import Catalogue, Entry, Measured, Target, read_catalogue
from models.catalogue.search import (
    KINDS,
    fit_within,
    needed_bytes,
    read_memory,
    search,
    smallest_mac_gb,
    unwired_bytes,
    wired_bytes,
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
    machine, catalogue, (names, repositories) = this_machine(), read_catalogue(), _installed(args)
    targets = recommended_targets(catalogue, machine, repositories)
    if args.json:
        here = tuple(sorted(repositories))
        print_json(document_json(MachineOverview(machine=machine, here=here, targets=tuple(targets))))
    else:
        _show_overview(targets, catalogue, machine, names)
    return OK


def this_machine() -> MachineMemory:
    """Returns the memory of this machine, how much of it a model may take, and whether weights become 32-bit floats."""
    (total_bytes, _), has_gpu = memory(), sys.platform == "darwin"
    limit_bytes = wired_bytes(total_bytes) if has_gpu else unwired_bytes(total_bytes)
    return MachineMemory(
        processor=processor(), memory_bytes=total_bytes, for_models_bytes=limit_bytes, in_float32=not has_gpu
    )


def _installed(args: argparse.Namespace) -> tuple[list[str], set[str]]:
    """Returns the names of the installed models, and the repositories of those that have one."""
    from app.inference.pair_resolution import present_models

    models = present_models(args.cache_dir)
    return [one.name for one in models], {one.repository for one in models if one.repository}


def recommended_targets(catalogue: Catalogue, machine: MachineMemory, here: Set[str]) -> list[RecommendedTarget]:
    """Returns the largest target of each family that fits into the memory that a model may take, with its drafter and
    comfortably if one does; the largest first. here: the installed repositories."""
    best: dict[str, tuple[tuple[bool, float, float], RecommendedTarget]] = {}
    for target in catalogue.targets:
        found = _recommended(catalogue, target, machine, here)
        rank = found.room == "good", target.parameters_b, target.bits
        if found.room != "no" and (target.family not in best or rank > best[target.family][0]):
            best[target.family] = rank, found
    return [found for _, found in sorted(best.values(), key=lambda one: -one[0][1])]


def _recommended(catalogue: Catalogue, target: Target, machine: MachineMemory, here: Set[str]) -> RecommendedTarget:
    """Returns a target with the best drafter that loads: an installed one before one that is not."""
    known = [one for one in catalogue.drafters_of(target) if not one.trouble]
    known.sort(key=lambda one: one.repository not in here)
    best = known[0] if known else None
    measured = catalogue.speedups(target, best) if best else []
    return RecommendedTarget(
        target=target.repository,
        name=target.name,
        size_bytes=target.size_bytes,
        size=target.size,
        room=fit_within(needed_bytes([target, *known[:1]], machine.in_float32), machine.for_models_bytes),
        drafter=best.repository if best else LOOKUP,
        target_here=target.repository in here,
        drafter_here=best is None or best.repository in here,
        measured=tuple(map(_measured_speedup, measured)),
    )


def _measured_speedup(measured: Measured) -> MeasuredSpeedup:
    return msgspec.convert(measured, MeasuredSpeedup, from_attributes=True)


def _show_overview(
    found: Sequence[RecommendedTarget], catalogue: Catalogue, machine: MachineMemory, here: Sequence[str]
) -> None:
    """Prints the machine, the table, what was measured where, and what to do next. here: the installed models."""
    console = output_console()
    total, most = memory_words(machine.memory_bytes), memory_words(machine.for_models_bytes)
    about = f", {total} of memory, up to {most} for a model".replace(".0 GB", " GB")
    console.print(Text.assemble((machine.processor, "bold"), about))
    if machine.in_float32:
        console.print("without a GPU, weights are held as 32-bit floats: 4 GB for a billion of them")
    more = f" and {len(here) - _MODELS_NAMED} more (`redline models list`)" if len(here) > _MODELS_NAMED else ""
    names = safe_line(", ".join(here[:_MODELS_NAMED]))
    console.print(Text(f"installed: {names}{more}" if here else "no models are installed"))
    console.print(Text("the built-in SmolLM2 135M needs no download: `redline chat`", "dim"))
    console.print()
    console.print(_overview_table(found, catalogue))
    console.print()
    notes = [
        f"{row.name} with {_drafter_name(row, catalogue)}: {one.speedup:g} times on {one.on} ({one.source})"
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


def _overview_table(found: Sequence[RecommendedTarget], catalogue: Catalogue) -> Table:
    table = plain_table(["this machine can run"], ["size"])
    table.add_column("fits", no_wrap=True)
    table.add_column("best drafter", overflow="fold")
    if measured := any(row.measured for row in found):
        table.add_column("times as fast", justify="right", no_wrap=True)
    for row in found:
        target = catalogue.entries[row.target]
        name = Text(f"{'● ' if row.target_here else '  '}{_title(target)}")
        is_installed = row.drafter_here and row.drafter != LOOKUP
        drafter = Text(f"{'● ' if is_installed else ''}{_drafter_name(row, catalogue)}")
        fits = Text(row.room, "yellow" if row.room == "tight" else "green")
        speedups = [speedup_range(row.measured)] if measured else []
        table.add_row(name, _size(target), fits, drafter, *speedups)
    return table


def _drafter_name(row: RecommendedTarget, catalogue: Catalogue) -> str:
    return LOOKUP if row.drafter == LOOKUP else catalogue.entries[row.drafter].name


def speedup_range(measured: Sequence[MeasuredSpeedup]) -> str:
    """Returns the range that was measured; "" where nothing was."""
    found = sorted({one.speedup for one in measured})
    return " to ".join(f"{speedup:g}" for speedup in (found if len(found) < 2 else (found[0], found[-1])))


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
        entries = tuple(entry_document(one, catalogue, here) for one in found)
        print_json(document_json(CatalogueEntries(entries=entries)))
    elif found:
        _show_entries(found, catalogue, here)
    else:
        print("no match in the catalogue; `redline models search` shows all entries")
    return OK if found else FAILURE


def entry_document(entry: Entry, catalogue: Catalogue, here: Set[str]) -> CatalogueEntry:
    """Returns an entry as a document: a target with the smallest Mac it fits and its measured speed-ups."""
    fields = msgspec.structs.asdict(entry)
    for name in ("obstacle", "head_from", "good_at_source"):
        fields.pop(name, None)
    fields |= {"trouble": entry.trouble or None, "here": entry.repository in here}
    if isinstance(entry, Target):
        fields |= {"kind": "target", "smallest_mac_gb": smallest_mac_gb(entry.size_bytes)}
        found = (one for one in catalogue.measured if one.target == entry.repository)
        fields["measured"] = tuple(map(_measured_speedup, found))
    return CatalogueEntry(**fields)


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
    bits = 16 if entry.bits >= 16 else 8 if entry.bits >= 8 else 4  # without the scales, as repositories are named
    return f"{entry.name} · {bits}-bit"


def _size(entry: Entry) -> str:
    """Returns the size in GB as disks are sold, marked if it is an estimate, or "" if it is unknown."""
    if entry.size_bytes is None:
        return ""
    number = entry.size_bytes / 1e9
    return f"{'~' if entry.size == 'estimated' else ''}{number:.{1 if number >= 1 else 2}f} GB"
