"""`redline models`: what can this machine run, which drafter goes with it, how much faster is that?

One screen: the machine, and of each family the largest target that fits it, with the best drafter that Redline loads
for it and the speed-up where somebody measured it. A speed-up is never guessed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.models.search import measured_speedup, size_of, title
from app.command_line import OK
from app.inference.machine import memory, processor
from app.protocol.model_documents import MachineMemory, MachineOverview, RecommendedTarget, document_json
from models.catalogue import Catalogue, Measured, Target, read_catalogue
from models.catalogue.mac_memory import GIB, MacFit, room, wired_bytes

if TYPE_CHECKING:
    from rich.table import Table

_UNKNOWN_BYTES = 16 * GIB  # where the system does not say
LOOKUP = "lookup"


@dataclass(frozen=True)
class Row:
    """A target for this machine. drafter: the name of the best that loads, or lookup; drafter_repository: None for
    lookup. here: whether target and drafter are on this machine. measured: what others found for the pair."""

    target: Target
    room: MacFit
    drafter: str
    drafter_repository: str | None
    here: tuple[bool, bool]
    measured: tuple[Measured, ...]


def run(args: argparse.Namespace) -> int:
    """Prints the answer. Needs no network."""
    from app.inference.pair_resolution import present_models

    total_bytes = memory()[0] or _UNKNOWN_BYTES
    here = {one.repository for one in present_models(args.cache_dir) if one.repository}
    found = rows(read_catalogue(), total_bytes, here)
    if args.json:
        print(document_json(document(found, total_bytes, here)))
    else:
        show(found, total_bytes, len(here))
    return OK


def rows(catalogue: Catalogue, memory_bytes: int, here: set[str]) -> list[Row]:
    """The largest target of each family that fits with its drafter, the largest first: comfortably if one does."""
    best: dict[str, Row] = {}
    for target in catalogue.targets:
        row = _row(catalogue, target, memory_bytes, here)
        other = best.get(target.family)
        if row.room != "no" and (other is None or _rank(row) > _rank(other)):
            best[target.family] = row
    return sorted(best.values(), key=lambda row: -row.target.parameters_b)


def _rank(row: Row) -> tuple[bool, float, float]:
    return row.room == "good", row.target.parameters_b, row.target.bits


def _row(catalogue: Catalogue, target: Target, memory_bytes: int, here: set[str]) -> Row:
    """With the best drafter that loads: one that is here before one that is not."""
    known = [one for one in catalogue.drafters_of(target) if not one.trouble]
    known.sort(key=lambda one: one.repository not in here)
    best = known[0] if known else None
    both_bytes = target.size_bytes + ((best.size_bytes or 0) if best else 0)
    return Row(
        target,
        room(both_bytes, memory_bytes),
        best.name if best else LOOKUP,
        best.repository if best else None,
        (target.repository in here, best is None or best.repository in here),
        tuple(catalogue.speedups(target, best)) if best else (),
    )


def document(found: Sequence[Row], memory_bytes: int, here: set[str]) -> MachineOverview:
    """Returns the overview as a document."""
    machine = MachineMemory(
        processor=processor(), memory_bytes=memory_bytes, for_models_bytes=wired_bytes(memory_bytes)
    )
    targets = tuple(
        RecommendedTarget(
            target=row.target.repository,
            name=row.target.name,
            size_bytes=row.target.size_bytes,
            size=row.target.size,
            room=row.room,
            drafter=row.drafter_repository or row.drafter,
            target_here=row.here[0],
            drafter_here=row.here[1],
            measured=tuple(measured_speedup(one) for one in row.measured),
        )
        for row in found
    )
    return MachineOverview(machine=machine, here=tuple(sorted(here)), targets=targets)


def show(found: Sequence[Row], memory_bytes: int, here: int) -> None:
    """The machine, the table, what was measured where, and what to do next."""
    from rich.console import Console
    from rich.text import Text

    from app.reply_statistics import count

    console = Console(highlight=False)
    most = f"up to {wired_bytes(memory_bytes) / GIB:.0f} GB for a model"
    console.print(Text.assemble((processor(), "bold"), f", {memory_bytes / GIB:.0f} GB of memory, {most}"))
    console.print(f"{count(here, 'model')} from the hub installed" if here else "no models from the hub are installed")
    console.print(Text("the built-in SmolLM2 135M needs no download: `redline chat`", "dim"))
    console.print()
    console.print(_table(found))
    console.print()
    for row in found:
        for one in row.measured:
            where = f"{row.target.name} with {row.drafter}: {one.speedup:g} times on {one.on}"
            console.print(Text(f"{where} ({one.source})", "dim"))
    notes = (
        "● installed; ~ estimated; tight: close other programs and use a short context",
        "-: not measured; `redline race` measures it here",
        "`redline models search` shows all; `redline models pull REPOSITORY` downloads one",
    )
    for note in notes:
        console.print(Text(note, "dim"))


def _table(found: Sequence[Row]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("this machine can run", overflow="fold")
    table.add_column("size", justify="right", no_wrap=True)
    table.add_column("fits", no_wrap=True)
    table.add_column("best drafter", overflow="fold")
    table.add_column("times as fast", justify="right", no_wrap=True)
    for row in found:
        name = Text(f"{'● ' if row.here[0] else '  '}{title(row.target)}")
        drafter = Text(f"{'● ' if row.drafter_repository and row.here[1] else ''}{row.drafter}")
        fits = Text(row.room, "yellow" if row.room == "tight" else "green")
        table.add_row(name, size_of(row.target), fits, drafter, speedup(row.measured))
    return table


def speedup(measured: Sequence[Measured]) -> str:
    """The range that was measured, "-" for nothing."""
    if not measured:
        return "-"
    low, high = min(one.speedup for one in measured), max(one.speedup for one in measured)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"
