"""A race as a JSON document, with everything that a replay needs; and what builds one while a race is measured.

    {"format": "redline race", "version": 1, "created_s", "prompt", "sampling",
     "sides": [{"side", "name", "note"}, ...],          the two of them
     "environment": {...},                              versions, machine, target
     "runs": [{"side", "number", "prompt_tokens", "rounds": [{"round", ...}], "finished", "report"}],        as made
     "again", "order_seed", "pause_s",                  with a server: the side that began, run again at the end
     "receipts": [{"run", "promised", "tokens", "divergence", "same_bits"}],                one for each pair of runs
     "results": {...}}                                  medians for readers; they follow from the rest, and are not read

Fields are those of `app.protocol.race_messages`, rounds those of `engine.events`. Unknown fields are ignored.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec

from app.protocol import (
    AnyAnswer,
    PairCompared,
    RaceDone,
    RaceProgress,
    RaceReady,
    RoundDone,
    RunPart,
    SamplingSettings,
    Struct,
)
from app.protocol.race_messages import (
    MAX_PAUSE_S,
    MAX_RUNS,
    SIDES,
    Divergence,
    Environment,
    PairReceipt,
    Race,
    ReadySide,
    Run,
    has_server,
)
from app.store.json_export import UNREADABLE, fault_of_sampling, read_header
from app.store.records import Time
from app.store.round_encoding import fault_of_round
from engine.audit.receipt import first_difference
from engine.errors import RedlineError
from engine.events import PromptProgress
from engine.metrics import Metrics, decode_speedup, median, total_speedup
from models.durable_files import disk_errors, replace_file

FORMAT = "redline race"
VERSION = 1
LARGEST_BYTES = 256 * 1024 * 1024
SHORTEST_S, LONGEST_S = 1e-7, 24 * 3600.0  # between two rounds, of a run
MAX_TOKENS = 1_000_000  # of all runs together
MAX_DRAFTED = 10_000  # tokens a round may draft


class RaceError(RedlineError):
    """A race cannot be read, written or drawn."""


class Spread(NamedTuple):
    """A number over all pairs of runs. shown: of the pair that is replayed, None if it is undefined there."""

    median: float
    least: float
    most: float
    shown: float | None


@dataclass(frozen=True)
class SideResult:
    """Medians over the runs of one side; None if a number is undefined. tokens, passes, mean_acceptance_length: of the
    run that is shown."""

    tokens: int
    passes: int
    mean_acceptance_length: float | None
    tokens_per_s: float | None
    ttft_s: float | None
    total_s: float | None


@dataclass(frozen=True)
class Results:
    """What a race found. decode, total: the speed-ups of the second side over the first, by `engine.metrics`.
    shown: the number of the pair whose total speed-up is the median (the lesser of the middle two), which is replayed.
    pairs: how many there are."""

    pairs: int
    decode: Spread | None
    total: Spread | None
    shown: int
    sides: tuple[SideResult, ...]


class RaceDocument(Struct, frozen=True, kw_only=True):
    """A race with at least one pair of runs. created_s: Unix seconds, 0 if unknown. order_seed, pause_s: as in `Race`.
    again: the run of the side that began, at the end of a race with a server; None if it was stopped before.

    Raises ValueError, which msgspec reports while it decodes, if the parts do not fit together.
    """

    prompt: str
    sampling: SamplingSettings
    sides: tuple[ReadySide, ReadySide]
    environment: Environment
    runs: Annotated[tuple[Run, ...], msgspec.Meta(min_length=SIDES, max_length=SIDES * MAX_RUNS)]
    receipts: tuple[PairReceipt, ...]
    created_s: Time = 0.0
    order_seed: int = 0
    pause_s: Annotated[float, msgspec.Meta(ge=0, le=MAX_PAUSE_S)] = 0.0
    again: Run | None = None

    def __post_init__(self) -> None:
        why = _fault_of_settings(self) or _fault_of_runs(self.runs) or _fault_of_receipts(self) or _fault_of_again(self)
        if why:
            raise ValueError(why)

    def run(self, side: int, number: int) -> Run:
        """Returns the run of one side in pair `number`."""
        return next(run for run in self.runs if (run.side, run.number) == (side, number))

    @property
    def pairs(self) -> int:
        """How many pairs of runs there are."""
        return len(self.receipts)

    @property
    def has_server(self) -> bool:
        """Whether one of the sides is a server."""
        return has_server(one.side for one in self.sides)

    @property
    def order(self) -> list[int]:
        """Which side went first in each pair of runs."""
        return [self.runs[SIDES * number].side for number in range(self.pairs)]

    @property
    def drift(self) -> float | None:
        """The decode speed of the side that began, at the end of the race over its first; None if unknown."""
        first = metrics_of(self.runs[0]).pass_speed
        last = metrics_of(self.again).pass_speed if self.again is not None else None
        return last / first if first and last else None

    @property
    def results(self) -> Results:
        """Medians over the runs."""
        return results_of(self.runs)


def read_race(data: bytes) -> RaceDocument:
    """Returns the race of a document. Raises RaceError: what is wrong, in a line."""
    head = read_header(data)
    if head is None or head.format != FORMAT:
        raise RaceError("this is not a race saved by Redline: choose another file")
    if head.version > VERSION:
        raise RaceError(f"this race was saved by a newer Redline (version {head.version}): update Redline")
    try:
        return msgspec.json.decode(data, type=RaceDocument)
    except UNREADABLE as error:
        why = " ".join(str(error).split())
        raise RaceError(f"this race cannot be read ({why}): choose another file, or race again") from error


DEMONSTRATION = Path(str(resources.files("resources"))) / "races" / "demonstration.json"  # of the built-in pair


def open_race(path: Path) -> RaceDocument:
    """Returns the race in a file. Raises RaceError."""
    with disk_errors(lambda why: RaceError(f"{path.name} cannot be read ({why}): choose another file")):
        if not path.is_file():
            raise RaceError(f"there is no file {path.name}: give a race that was saved")
        if path.stat().st_size > LARGEST_BYTES:
            raise RaceError(f"{path.name} is too large to be a race: choose another file")
        return read_race(path.read_bytes())


def race_json(document: RaceDocument) -> bytes:
    """Returns the document of a race, with results for readers: the inverse of `read_race`."""
    head = {"format": FORMAT, "version": VERSION}
    fields: dict[str, Any] = msgspec.to_builtins(document)
    return msgspec.json.encode({**head, **fields, "results": _results_json(document)}) + b"\n"


def write_file(path: Path, data: bytes) -> None:
    """Writes a race, or a picture of one, whole or not at all. Raises RaceError."""
    with disk_errors(lambda why: RaceError(f"{path.name} cannot be written ({why}): choose another place")):
        replace_file(path, data)


def tokens_of(run: Run) -> tuple[int, ...]:
    """Returns the ids of a run's tokens in order."""
    return tuple(token for one in run.rounds for token in one.round.tokens)


def divergence_of(first: Sequence[int], second: Sequence[int]) -> Divergence | None:
    """Returns where two replies differ and by which tokens, without their texts; None if they are the same."""
    position = first_difference(first, second)
    if position is None:
        return None
    tokens = tuple(ids[position] if position < len(ids) else None for ids in (first, second))
    return Divergence(position=position, tokens=tokens, texts=())


def metrics_of(run: Run) -> Metrics:
    """Returns the metrics of a whole run."""
    prompt = PromptProgress(run.prompt_tokens, run.prompt_tokens, 0, 0.0)
    return Metrics.of([prompt, *(one.round for one in run.rounds), run.finished])


def results_of(runs: Sequence[Run]) -> Results:
    """Returns the results of complete pairs: as many runs of one side as of the other."""
    metrics = [{run.number: metrics_of(run) for run in runs if run.side == side} for side in range(SIDES)]
    pairs = {number: (metrics[0][number], metrics[1][number]) for number in sorted(metrics[0])}
    totals = {number: total_speedup(*pair) for number, pair in pairs.items()}
    shown = _median_pair(totals)
    return Results(
        pairs=len(pairs),
        decode=_spread({number: decode_speedup(*pair) for number, pair in pairs.items()}, shown),
        total=_spread(totals, shown),
        shown=shown,
        sides=tuple(_side(list(side.values()), side[shown]) for side in metrics),
    )


def _median_pair(totals: Mapping[int, float | None]) -> int:
    """Returns the number of the pair that pictures and replays show: the one whose total speed-up is the median."""
    ranked = sorted(totals, key=lambda number: (totals[number] is not None, totals[number] or 0.0, number))
    return ranked[(len(ranked) - 1) // 2]


class RaceDocumentBuilder:
    """Builds the document of a race from the answers that report it; other answers are ignored. progress: what the race
    is doing now, None before anything is known. done: None until the race has ended."""

    def __init__(self, race: Race, created_s: float = 0.0) -> None:
        self.race = race
        self.progress: RaceProgress | None = None
        self._ready: RaceReady | None = None
        self.done: RaceDone | None = None
        self._created_s = created_s
        self._rounds: list[RoundDone] = []
        self._runs: list[Run] = []
        self._receipts: list[PairReceipt] = []

    @property
    def pairs(self) -> int:
        """How many pairs of runs are complete."""
        return len(self._receipts)

    def hear(self, answer: AnyAnswer) -> None:
        """Takes an answer."""
        if isinstance(answer, RaceProgress):
            self.progress = answer
        elif isinstance(answer, RaceReady):
            self._ready = answer
        elif isinstance(answer, RunPart):
            self._hear_run(answer)
        elif isinstance(answer, PairCompared):
            self._receipts.append(answer.receipt)
        elif isinstance(answer, RaceDone):
            self.done = answer

    def document(self) -> RaceDocument | None:
        """Returns the race as far as its pairs of runs are complete; None if none is, or if the answers do not fit
        together."""
        if self._ready is None or len(self._ready.sides) != SIDES:
            return None
        with_server = has_server(one.side for one in self._ready.sides)
        try:
            return RaceDocument(
                prompt=self.race.prompt,
                sampling=self.race.sampling,
                sides=(self._ready.sides[0], self._ready.sides[1]),
                environment=self._ready.environment,
                runs=tuple(run for run in self._runs if run.number <= self.pairs),
                receipts=tuple(self._receipts),
                created_s=self._created_s,
                order_seed=self.race.order_seed if with_server else 0,
                pause_s=self.race.pause_s if with_server else 0.0,
                again=next((run for run in self._runs if self.done and run.number > self.race.runs), None),
            )
        except ValueError:
            return None

    def _hear_run(self, part: RunPart) -> None:
        self._rounds += part.rounds
        if part.finished is not None:
            rounds, self._rounds = tuple(self._rounds), []
            self._runs.append(
                Run(
                    side=part.side,
                    number=part.run,
                    prompt_tokens=part.prompt_tokens,
                    rounds=rounds,
                    finished=part.finished,
                    report=part.report,
                )
            )


def _side(runs: Sequence[Metrics], shown: Metrics) -> SideResult:
    medians = [median(getattr(one, name) for one in runs) for name in ("tokens_per_s", "ttft_s", "last_s")]
    return SideResult(shown.tokens, shown.rounds, shown.mean_acceptance_length, *medians)


def _spread(values: Mapping[int, float | None], shown: int) -> Spread | None:
    """values: of each pair by its number. shown: the number of the pair that is replayed."""
    known = [value for value in values.values() if value is not None]
    found = median(known)
    return None if found is None else Spread(found, min(known), max(known), values[shown])


def _results_json(document: RaceDocument) -> dict[str, Any]:
    found = document.results
    same = [receipt.divergence is None if receipt.promised else None for receipt in document.receipts]
    return {
        "pairs": document.pairs,
        "speedup": found.decode and found.decode._asdict(),
        "speedup_total": found.total and found.total._asdict(),
        "shown_pair": found.shown,
        "drift": document.drift,
        "identical": same,
        "sides": [msgspec.to_builtins(side) for side in found.sides],
    }


# --- what does not fit together ---------------------------------------------------------------


def _fault_of_settings(document: RaceDocument) -> str:
    if any(not 0 <= (one.side.draft_length or 0) <= MAX_DRAFTED for one in document.sides):
        return "a side has an impossible draft length"
    why = fault_of_sampling(document.sampling)
    return f"it {why}" if why else ""


def _fault_of_runs(runs: Sequence[Run]) -> str:
    expected = [(side, number) for side in range(SIDES) for number in range(1, len(runs) // SIDES + 1)]
    if not runs or sorted((run.side, run.number) for run in runs) != expected:
        return "its runs are not in pairs"
    if sum(len(tokens_of(run)) for run in runs) > MAX_TOKENS:
        return f"it has more than {MAX_TOKENS:,} tokens"
    found = ((run, _fault_of_run(run)) for run in runs)
    return next((f"run {run.number} of side {run.side + 1} {why}" for run, why in found if why), "")


def _fault_of_run(run: Run) -> str:
    for number, one in enumerate(run.rounds):
        if one.round.index != number:
            return f"has a round {one.round.index} in the place of {number}"
        if why := fault_of_round(one):
            return f"has a round {number} {why}"
        if len(one.round.texts) != len(one.round.tokens) or len(one.round.drafted) > MAX_DRAFTED:
            return f"has a round {number} whose parts do not fit together"
    if not tokens_of(run):
        return "has no tokens"
    if not 0 <= run.prompt_tokens <= MAX_TOKENS:
        return "has an impossible prompt"
    times = [0.0, *(one.round.time_s for one in run.rounds)]
    steps = [later - earlier for earlier, later in pairwise(times)]
    sound = all(step == 0 or step >= SHORTEST_S for step in steps) and 0 < times[-1] <= LONGEST_S
    return "" if sound else "has impossible times"


def _fault_of_again(document: RaceDocument) -> str:
    if document.again is None:
        return ""
    why = _fault_of_run(document.again)
    if not why and document.again.side != document.runs[0].side:
        why = "is of another side"
    return f"its last run {why}" if why else ""


def _fault_of_receipts(document: RaceDocument) -> str:
    receipts = document.receipts
    if [receipt.run for receipt in receipts] != list(range(1, len(document.runs) // SIDES + 1)):
        return "its receipts are not those of its runs"
    for receipt in receipts:
        first, second = (tokens_of(document.run(side, receipt.run)) for side in range(SIDES))
        if not _is_of(receipt, first, second):
            return f"receipt {receipt.run} does not say what the runs do"
    return ""


def _is_of(receipt: PairReceipt, first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether a receipt compares these two replies."""
    expected, found = divergence_of(first, second), receipt.divergence
    if expected is None or found is None:
        return expected is found and receipt.tokens == len(first)
    return (
        expected.position == found.position == receipt.tokens
        and expected.tokens == found.tokens
        and [text is None for text in found.texts] == [token is None for token in found.tokens]
        and all(gap is None or abs(gap) < 1e30 for gap in (found.gap_ulps, found.noise_ulps))
    )
