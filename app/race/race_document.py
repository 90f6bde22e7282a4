"""A race as a JSON document: everything that a replay needs.

    {"format": "redline race", "version": 1, "created_s", "prompt", "law",
     "contestants": [{"side", "name", "said"}, ...],    the two sides
     "environment": {...},                              versions, machine, target
     "runs": [{"side", "number", "prompt_tokens", "told": [{"round", ...}], "finished"}],   as they were made: AB BA AB
     "receipts": [{"run", "promised", "tokens", "parting", "same_bits"}],                   one for each pair of runs
     "results": {...}}                                  medians for readers; they follow from the rest, and are not read

Fields are those of `app.protocol.race_messages`, rounds those of `engine.events`. Unknown fields are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import msgspec

from app.protocol import SamplingSettings, Struct
from app.protocol.race_messages import MAX_RUNS, SIDES, Contestant, Environment, PairReceipt, Run
from app.race.race_results import Results, results_of
from app.store.json_export import fault_of_sampling
from app.store.reply_rounds import fault_of_round
from engine.audit.receipt import first_difference
from engine.errors import RedlineError
from models import durable_files

FORMAT = "redline race"
VERSION = 1
LARGEST_BYTES = 256 * 1024 * 1024
SHORTEST_S, LONGEST_S = 1e-7, 24 * 3600.0  # between two rounds, of a run
MAX_TOKENS = 1_000_000  # of all runs together
MAX_DRAFTED = 10_000  # tokens a round may draft

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
    sampling: SamplingSettings = msgspec.field(name="law")
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
    fields = {
        key: getattr(document, name)
        for key, name in zip(RaceDocument.__struct_encode_fields__, RaceDocument.__struct_fields__, strict=True)
    }
    return msgspec.json.encode({**head, **fields, "results": summary_of(document)}) + b"\n"


def write_file(path: Path, data: bytes) -> None:
    """Whole or not at all; of a race, or of a picture of one. Raises RaceError."""
    try:
        durable_files.replace_file(path, data)
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
    return receipt.divergence is None if receipt.promised else None


def refused(why: str) -> RaceError:
    """Of a document that is a race, but not sound."""
    return RaceError(f"this race cannot be read, {' '.join(why.split())}: choose another file, or race again")


def tokens_of(run: Run) -> tuple[int, ...]:
    """Returns the ids of a run's tokens in order."""
    return tuple(token for one in run.rounds for token in one.round.tokens)


def fault_of(document: RaceDocument) -> str:
    """Of all of it."""
    if len(document.contestants) != SIDES:
        return f"it has {len(document.contestants)} sides, a race has {SIDES}"
    if any(not 0 <= (one.side.draft_length or 0) <= MAX_DRAFTED for one in document.contestants):
        return "a side has an impossible draft length"
    if why := fault_of_sampling(document.sampling):
        return f"it {why}"
    return _fault_of_runs(document.runs) or _fault_of_receipts(document)


def _fault_of_runs(runs: Sequence[Run]) -> str:
    pairs = len(runs) // SIDES
    expected = {(side, number) for side in range(SIDES) for number in range(1, pairs + 1)}
    if not 1 <= pairs <= MAX_RUNS or {(run.side, run.number) for run in runs} != expected or len(runs) % SIDES:
        return "its runs are no pairs"
    if sum(len(one.round.tokens) for run in runs for one in run.rounds) > MAX_TOKENS:
        return f"it has more than {MAX_TOKENS:,} tokens"
    for run in runs:
        if why := _fault_of_run(run):
            return f"run {run.number} of side {run.side + 1} {why}"
    return ""


def _fault_of_run(run: Run) -> str:
    times = [one.round.time_s for one in run.rounds]
    for number, one in enumerate(run.rounds):
        if one.round.index != number:
            return f"has a round {one.round.index} in the place of {number}"
        if why := fault_of_round(one):
            return f"has a round {number} {why}"
        if len(one.round.texts) != len(one.round.tokens) or len(one.round.drafted) > MAX_DRAFTED:
            return f"has a round {number} whose parts do not fit together"
    if not any(one.round.tokens for one in run.rounds):
        return "says nothing"
    if not 0 <= run.prompt_tokens <= MAX_TOKENS:
        return "has an impossible prompt"
    steps = [later - earlier for earlier, later in pairwise([0.0, *times])]
    if any(step < 0 or 0 < step < SHORTEST_S for step in steps) or not 0 < times[-1] <= LONGEST_S:
        return "has impossible times"
    return ""


def _fault_of_receipts(document: RaceDocument) -> str:
    numbers = [receipt.run for receipt in document.receipts]
    if numbers != list(range(1, len(document.runs) // SIDES + 1)):
        return "its receipts are not those of its runs"
    for receipt in document.receipts:
        if not _is_of(receipt, [document.run(side, receipt.run) for side in range(SIDES)]):
            return f"receipt {receipt.run} does not say what the runs do"
    return ""


def _is_of(receipt: PairReceipt, runs: Sequence[Run]) -> bool:
    """Whether a receipt is of these two runs."""
    first, second = (tokens_of(run) for run in runs)
    position, parting = first_difference(first, second), receipt.divergence
    if position is None or parting is None:
        return position is None and parting is None and receipt.tokens == len(first)
    tokens = tuple(ids[position] if position < len(ids) else None for ids in (first, second))
    return (
        position == parting.position == receipt.tokens
        and parting.tokens == tokens
        and [text is None for text in parting.texts] == [token is None for token in tokens]
        and all(gap is None or abs(gap) < 1e30 for gap in (parting.gap_ulps, parting.noise_ulps))
    )
