"""What is wrong with a race from elsewhere that its types do not tell: whoever shows one may rely on all of this. Each
check says what it found, or ""."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from app.protocol.racing import MOST_RUNS, SIDES, PairReceipt, Run
from app.race.document import RaceDocument
from app.race.replaying import tokens_of
from app.store.faults import fault_of_law, fault_of_round, fault_of_told
from engine.receipt import first_difference

SHORTEST_S, LONGEST_S = 1e-7, 24 * 3600.0  # between two rounds, of a run
MOST_TOKENS = 1_000_000  # of all runs together
MOST_DRAFTED = 10_000  # tokens a round may draft


def fault_of(document: RaceDocument) -> str:
    """Of all of it."""
    if len(document.contestants) != SIDES:
        return f"it has {len(document.contestants)} sides, a race has {SIDES}"
    if any(not 0 <= (one.side.draft_length or 0) <= MOST_DRAFTED for one in document.contestants):
        return "a side has an impossible draft length"
    if why := fault_of_law(document.law):
        return f"it {why}"
    return _fault_of_runs(document.runs) or _fault_of_receipts(document)


def _fault_of_runs(runs: Sequence[Run]) -> str:
    pairs = len(runs) // SIDES
    expected = {(side, number) for side in range(SIDES) for number in range(1, pairs + 1)}
    if not 1 <= pairs <= MOST_RUNS or {(run.side, run.number) for run in runs} != expected or len(runs) % SIDES:
        return "its runs are no pairs"
    if sum(len(one.round.tokens) for run in runs for one in run.told) > MOST_TOKENS:
        return f"it has more than {MOST_TOKENS:,} tokens"
    for run in runs:
        if why := _fault_of_run(run):
            return f"run {run.number} of side {run.side + 1} {why}"
    return ""


def _fault_of_run(run: Run) -> str:
    times = [one.round.time_s for one in run.told]
    for number, one in enumerate(run.told):
        if one.round.index != number:
            return f"has a round {one.round.index} in the place of {number}"
        if why := fault_of_round(one.round) or fault_of_told(one):
            return f"has a round {number} {why}"
        if len(one.round.texts) != len(one.round.tokens) or len(one.round.drafted) > MOST_DRAFTED:
            return f"has a round {number} whose parts do not fit together"
    if not any(one.round.tokens for one in run.told):
        return "says nothing"
    if not 0 <= run.prompt_tokens <= MOST_TOKENS:
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
    position, parting = first_difference(first, second), receipt.parting
    if position is None or parting is None:
        return position is None and parting is None and receipt.tokens == len(first)
    tokens = tuple(ids[position] if position < len(ids) else None for ids in (first, second))
    return (
        position == parting.position == receipt.tokens
        and parting.tokens == tokens
        and [text is None for text in parting.texts] == [token is None for token in tokens]
        and all(gap is None or abs(gap) < 1e30 for gap in (parting.gap_ulps, parting.noise_ulps))
    )
