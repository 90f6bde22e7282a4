"""Never slower? Draft length auto against plain decoding and against every fixed length that was measured beside it.

    speed-up   median over the replies of a category; lowest: of the prompt that fared worst (its median over repeats)
    best       the fixed length with the highest median speed-up there, 0 (plain decoding) included: known afterwards
    share      median over replies of auto's speed over the best one's, each pair of the same prompt and minute
    ideal      the same share by what passes cost in isolation (`app.measure`), the best length by that too: what the
               choices were worth on a machine that other work makes stutter

Where several lengths are all but equal, the best of them owes a little to luck: share is then a little too low.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from app.bench.contestants import Length
from app.bench.rows import AUTO, Row
from app.speedup import median

FLOOR = 0.97  # of plain decoding, and of the best fixed length
ALL = "all"
# MT-bench's eight, of five prompts each in Spec-Bench's half: one task there
_CONVERSATION = frozenset({"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"})
_Key = tuple[int | str, int, int]


@dataclass(frozen=True)
class Verdict:
    """Of one drafter on one category, or on ALL. best, share and ideal: None where no fixed length was measured."""

    proposer: str
    exact: bool
    temperature: float
    category: str
    prompts: int
    speedup: float
    lowest: float
    best: int | None = None
    best_speedup: float | None = None
    share: float | None = None
    ideal: float | None = None

    @property
    def slower(self) -> bool:
        """Than plain decoding, by more than a clock's noise."""
        return self.speedup < FLOOR

    @property
    def behind(self) -> bool:
        """The best fixed length."""
        return self.share is not None and self.share < FLOOR


def category_of(rows: Sequence[Row]) -> Callable[[Row], str]:
    """Names for the categories of `rows`: as in their file, but MT-bench's eight are one where other tasks stand beside
    them, as in Spec-Bench."""
    others = {row.category for row in rows} - _CONVERSATION
    together = bool(others) and len({row.question_id for row in rows}) > len({row.category for row in rows})
    return lambda row: "conversation" if together and row.category in _CONVERSATION else row.category


def categories(rows: Sequence[Row]) -> list[str]:
    """In the order of first appearance, ALL last."""
    name = category_of(rows)
    return [*dict.fromkeys(name(row) for row in rows), ALL]


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Of every drafter that drafted at length auto, category by category, ALL last."""
    return list(_verdicts(rows))


def _verdicts(rows: Sequence[Row]) -> Iterator[Verdict]:
    name, ways = category_of(rows), dict[tuple[float, str, bool], list[Row]]()
    for row in rows:
        if not row.peer and row.draft_length is not None:
            ways.setdefault((row.temperature, row.proposer, row.exact), []).append(row)
    for mine in ways.values():
        for category in categories(rows):
            found = _verdict(category, [row for row in mine if category in (ALL, name(row))])
            if found is not None:
                yield found


def _verdict(category: str, rows: Sequence[Row]) -> Verdict | None:
    """rows: of one drafter. None without a reply at length auto that took any time."""
    by_length = _by_length(rows, lambda row: row.speedup)
    auto = by_length.pop(AUTO, {})
    if not auto:
        return None
    first = rows[0]
    prompts = list(dict.fromkeys(key[:2] for key in auto))
    middle = [median(value for key, value in auto.items() if key[:2] == prompt) or 0.0 for prompt in prompts]
    best, best_speedup, share = _best(auto, by_length, plain=not first.exact)
    ideals = _by_length(rows, lambda row: row.speedup_ideal)
    *_, ideal = _best(ideals.pop(AUTO, {}), ideals, plain=not first.exact)
    return Verdict(
        proposer=first.proposer,
        exact=first.exact,
        temperature=first.temperature,
        category=category,
        prompts=len(prompts),
        speedup=median(auto.values()) or 0.0,
        lowest=min(middle),
        best=best,
        best_speedup=best_speedup,
        share=share,
        ideal=ideal,
    )


def _by_length(rows: Sequence[Row], value: Callable[[Row], float | None]) -> dict[Length, dict[_Key, float]]:
    """By draft length and reply, those that there are."""
    found: dict[Length, dict[_Key, float]] = {}
    for row in rows:
        known = value(row)
        if known:
            found.setdefault(row.draft_length, {})[_key(row)] = known
    return found


def _best(
    auto: dict[_Key, float], fixed: Mapping[Length, dict[_Key, float]], plain: bool
) -> tuple[int | None, float | None, float | None]:
    """The best fixed length, its speed-up, and auto's share of it. plain: whether length 0 is plain decoding at 1."""
    lengths = {length: found for length, found in fixed.items() if isinstance(length, int) and found}
    if not lengths:
        return None, None, None
    if plain:
        lengths.setdefault(0, dict.fromkeys(auto, 1.0))
    best, found = max(lengths.items(), key=lambda item: median(item[1].values()) or 0.0)
    return best, median(found.values()), median(value / found[key] for key, value in auto.items() if key in found)


def _key(row: Row) -> _Key:
    return row.question_id, row.turn, row.repeat
