"""What the plot shows, as numbers: knows no picture. Only replies of the lowest temperature, none in exact-verify."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import quantiles
from typing import TypeVar

from app.bench.contestants import PLAIN
from app.bench.document import by_position
from app.bench.rows import AUTO, Document, Row
from app.bench.verdicts import ALL, categories, category_of, verdicts
from app.speedup import median
from engine.costs import Costs

VERIFYING = "verifying"
TELLING = 10  # rounds that got to a place of a draft, for its share to be drawn
_T = TypeVar("_T")


@dataclass(frozen=True)
class Series:
    """name: of a drafter or peer. label: for people. points: by category, position or draft length. spreads: first and
    third quartile of each."""

    name: str
    label: str
    points: dict[str, float]
    spreads: dict[str, tuple[float, float]] = field(default_factory=dict)


@dataclass(frozen=True)
class Strip:
    """Speed-ups of one drafter at auto, a prompt each, ascending. best: the median of the best fixed length."""

    name: str
    values: list[float]
    middle: float
    best: float | None


def drawn(value: Document) -> list[Row]:
    """The replies that are shown."""
    coolest = min((row.temperature for row in value.runs), default=0.0)
    return [row for row in value.runs if row.temperature == coolest and not row.exact]


def proposers(rows: Sequence[Row]) -> list[str]:
    """Drafters of ours."""
    return _unique(row.proposer for row in rows if not row.peer and row.proposer != PLAIN)


def peers(rows: Sequence[Row]) -> list[str]:
    return _unique(row.drafter for row in rows if row.peer)


def speedups(rows: Sequence[Row]) -> list[Series]:
    """Medians by category: each drafter of ours at auto, or at its first length where auto wasn't measured; then the
    peers."""
    found = [_speedup(name, _shown(rows, name)) for name in proposers(rows)]
    found += [_speedup(name, [row for row in rows if row.drafter == name]) for name in peers(rows)]
    return [one for one in found if one.points]


def _speedup(name: str, rows: Sequence[Row]) -> Series:
    category, points, spreads = category_of(rows), dict[str, float](), dict[str, tuple[float, float]]()
    for one in categories(rows):
        values = [row.speedup for row in rows if row.speedup and one in (ALL, category(row))]
        middle = median(values)
        if middle is not None:
            points[one] = middle
            low, _, high = quantiles(values, n=4, method="inclusive") if len(values) > 1 else (middle,) * 3
            spreads[one] = (low, high)
    label = rows[0].drafter if rows[0].peer else f"{name}, {_in_words(rows[0].draft_length)}"
    return Series(name, label, points, spreads)


def _shown(rows: Sequence[Row], name: str) -> list[Row]:
    """Of one drafter: at auto, else at its first length."""
    mine = [row for row in rows if row.proposer == name and not row.peer]
    lengths = [row.draft_length for row in mine]
    length = AUTO if AUTO in lengths else lengths[0]
    return [row for row in mine if row.draft_length == length]


def _in_words(length: int | str | None) -> str:
    return AUTO if length == AUTO else f"{length} a round"


def acceptance(rows: Sequence[Row]) -> list[Series]:
    """By position from 1: of each drafter's longest fixed length, which drafts whatever the chances; of auto where that
    has one position alone, or there is none. Of as many positions as were reached often enough to tell."""
    found = []
    for name in proposers(rows):
        mine = [row for row in rows if row.proposer == name and not row.peer]
        longest = max((row.draft_length for row in mine if isinstance(row.draft_length, int)), default=0)
        length = AUTO if longest < 2 and any(row.draft_length == AUTO for row in mine) else longest
        shares = by_position([row for row in mine if row.draft_length == length], TELLING)
        if shares:
            points = {str(place): share for place, share in enumerate(shares, 1)}
            found.append(Series(name, f"{name}, {_in_words(length)}", points))
    return found


def costs(rows: Sequence[Row], lengths: int) -> list[Series]:
    """Of rounds of 0 to `lengths` - 1 tokens, in plain passes: verifying alone, then with each drafter. Medians over
    prompts, as each was measured beside its own plain pass."""
    verifying, found = [row for row in rows if row.costs is not None], list[Series]()
    if not any(row.drafted for row in verifying):
        return []
    found.append(Series(VERIFYING, VERIFYING, _prices(verifying, lengths, drafting=False)))
    for name in proposers(rows):
        mine = [row for row in verifying if row.proposer == name]
        points = _prices(mine, lengths, drafting=True)
        if points:
            found.append(Series(name, f"with {name}", points))
    return found


def _prices(rows: Sequence[Row], lengths: int, drafting: bool) -> dict[str, float]:
    """No further than what was measured: beyond the widest pass there is only a guess."""
    found: dict[str, list[float]] = {}
    for row in rows:
        own = _costs(row)
        if own is None:
            continue
        for length in range(min(lengths, own.verify[-1][0])):
            price = own.pass_s(length + 1) if length and not drafting else _round_s(own, length)
            found.setdefault(str(length), []).append(price / own.plain_s)
    return {length: median(values) or 0.0 for length, values in found.items()}


def _round_s(own: Costs, length: int) -> float:
    """As draft length auto has it: one token is drafted without asking how sure it is."""
    return own.ungated_s(length) if length == 1 else own.round_s(length)


def _costs(row: Row) -> Costs | None:
    if row.costs is None:
        return None
    verify, draft = (
        tuple(sorted((int(key), seconds) for key, seconds in of.items()))
        for of in (row.costs.pass_s, row.costs.draft_s)
    )
    return Costs(verify, draft, plain=row.costs.plain_s, eager=row.costs.ungated_s)


def chosen(rows: Sequence[Row]) -> list[Series]:
    """Share of the rounds by how many tokens were drafted at auto."""
    found = []
    for name in proposers(rows):
        counts: Counter[int] = Counter()
        for row in rows:
            if (row.proposer, row.draft_length) == (name, AUTO):
                counts.update({int(length): rounds for length, rounds in row.drafts.items()})
        whole = counts.total()
        if whole:
            points = {str(length): count / whole for length, count in sorted(counts.items())}
            found.append(Series(name, name, points))
    return found


def losses(rows: Sequence[Row]) -> list[Strip]:
    """How every prompt fared at auto."""
    found = []
    best = {one.proposer: one.best_speedup for one in verdicts(rows) if one.category == ALL and not one.exact}
    for name in proposers(rows):
        mine = [row for row in rows if (row.proposer, row.draft_length) == (name, AUTO) and row.speedup]
        keys = _unique((row.question_id, row.turn) for row in mine)
        values = sorted(
            median(row.speedup for row in mine if (row.question_id, row.turn) == key) or 0.0 for key in keys
        )
        if values:
            found.append(Strip(name, values, median(values) or 0.0, best.get(name)))
    return found


def _unique(values: Iterable[_T]) -> list[_T]:
    return list(dict.fromkeys(values))
