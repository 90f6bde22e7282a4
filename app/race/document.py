"""A race as a JSON document: everything that a replay needs.

    {"format": "redline race", "version": 1, "created_s", "prompt", "law",
     "contestants": [{"side", "name", "said"}, ...],    the two sides
     "environment": {...},                              versions, machine, target
     "runs": [{"side", "number", "prompt_tokens", "told": [{"round", ...}], "finished"}],   as they were made: AB BA AB
     "receipts": [{"run", "promised", "tokens", "parting", "same_bits"}],                   one for each pair of runs
     "results": {...}}                                  medians for readers; they follow from the rest, and are not read

Fields are those of `app.protocol.racing`, rounds those of `engine.events`. Unknown fields are ignored.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec

from app.protocol import Law, Struct
from app.protocol.racing import Contestant, Environment, PairReceipt, Run
from app.race.results import Results, results_of
from engine.errors import RedlineError
from models import disk

FORMAT = "redline race"
VERSION = 1
LARGEST_BYTES = 256 * 1024 * 1024

Time = Annotated[float, msgspec.Meta(ge=0, lt=253402300800)]  # to the year 9999


class RaceError(RedlineError):
    """A race cannot be read, written or drawn."""


class Head(Struct, frozen=True, kw_only=True):
    """Read first: the rest may be of another version."""

    format: str
    version: Annotated[int, msgspec.Meta(ge=1, lt=10**6)]


class RaceDocument(Struct, frozen=True, kw_only=True):
    """A race with at least one pair of runs. created_s: Unix seconds, 0 where that is not known."""

    prompt: str
    law: Law
    contestants: tuple[Contestant, ...]
    environment: Environment
    runs: tuple[Run, ...]
    receipts: tuple[PairReceipt, ...]
    created_s: Time = 0.0

    def run(self, side: int, number: int) -> Run:
        """Of pair `number`."""
        return next(run for run in self.runs if (run.side, run.number) == (side, number))

    @property
    def pairs(self) -> int:
        return len(self.receipts)

    @property
    def results(self) -> Results:
        return results_of(self.runs)


def read_race(data: bytes) -> RaceDocument:
    """Raises RaceError: what is wrong, in a line."""
    from app.race.faults import fault_of

    try:
        head = msgspec.json.decode(data, type=Head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RaceError("this is no race saved by Redline: choose another file") from error
    if head.format != FORMAT:
        raise RaceError("this is no race saved by Redline: choose another file")
    if head.version > VERSION:
        raise RaceError(f"this race was saved by a newer Redline (version {head.version}): update Redline")
    try:
        document = msgspec.json.decode(data, type=RaceDocument)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise refused(str(error)) from error
    if why := fault_of(document):
        raise refused(why)
    return document


def open_race(path: Path) -> RaceDocument:
    """The race in a file. Raises RaceError."""
    try:
        if not path.is_file():
            raise RaceError(f"there is no file {path.name}: give a race that was saved")
        if path.stat().st_size > LARGEST_BYTES:
            raise RaceError(f"{path.name} is too large to be a race: choose another file")
        return read_race(path.read_bytes())
    except OSError as error:
        raise RaceError(f"{path.name} cannot be read ({error.strerror}): choose another file") from error


def race_json(document: RaceDocument) -> bytes:
    """The inverse of `read_race`, with results for readers."""
    head = {"format": FORMAT, "version": VERSION}
    fields = {name: getattr(document, name) for name in RaceDocument.__struct_fields__}
    return msgspec.json.encode({**head, **fields, "results": summary_of(document)}) + b"\n"


def write_file(path: Path, data: bytes) -> None:
    """Whole or not at all; of a race, or of a picture of one. Raises RaceError."""
    try:
        disk.replace_file(path, data)
    except OSError as error:
        raise RaceError(f"{path.name} cannot be written ({error.strerror}): choose another place") from error


def summary_of(document: RaceDocument) -> dict[str, Any]:
    """What a program wants to know of a race, JSON-ready."""
    found = document.results
    return {
        "pairs": document.pairs,
        "speedup": found.decode and found.decode._asdict(),
        "speedup_total": found.total and found.total._asdict(),
        "shown_pair": found.shown,
        "identical": [_identity(receipt) for receipt in document.receipts],
        "sides": [msgspec.to_builtins(side) for side in found.sides],
    }


def _identity(receipt: PairReceipt) -> bool | None:
    """None where it was not promised."""
    return receipt.parting is None if receipt.promised else None


def refused(why: str) -> RaceError:
    """Of a document that is a race, but not sound."""
    return RaceError(f"this race cannot be read, {' '.join(why.split())}: choose another file, or race again")
