"""Never slower? Compares draft length auto with plain decoding and with every fixed length.

    speed-up   median over the replies of a category; lowest: of the slowest prompt (its median over repeats)
    best       the fixed length with the highest median speed-up, 0 (plain decoding) included
    share      median over replies of auto's speed over the best length's, for the same prompt

Where several lengths are nearly equal, the best one is partly luck, so share is a little too low.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.bench.bench_document import AUTO, BenchRun
from app.bench.contestants import Length
from engine.metrics import median

FLOOR = 0.97  # of plain decoding, and of the best fixed length
ALL = "all"
# MT-bench's eight, of five prompts each in Spec-Bench's half: one task there
_CONVERSATION = frozenset({"writing", "roleplay", "reasoning", "math", "coding", "extraction", "stem", "humanities"})
_Key = tuple[int | str, int, int]


@dataclass(frozen=True)
class AutoVerdict:
    """The results of one drafter in one category. best and share are None without a fixed length."""

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

    @property
    def slower(self) -> bool:
        """Whether it was slower than plain decoding by more than timing noise."""
        return self.speedup < FLOOR

    @property
    def behind(self) -> bool:
        """Whether it was slower than the best fixed length."""
        return self.share is not None and self.share < FLOOR


def category_of(rows: Sequence[BenchRun]) -> Callable[[BenchRun], str]:
    """Returns a function that names a run's category. MT-bench's eight count as one beside other tasks, as in
    Spec-Bench."""
    others = {row.category for row in rows} - _CONVERSATION
    together = bool(others) and len({row.question_id for row in rows}) > len({row.category for row in rows})
    return lambda row: "conversation" if together and row.category in _CONVERSATION else row.category


def categories(rows: Sequence[BenchRun]) -> list[str]:
    """Returns the categories in the order of first appearance, ALL last."""
    name = category_of(rows)
    return [*dict.fromkeys(name(row) for row in rows), ALL]


def verdicts(rows: Sequence[BenchRun]) -> list[AutoVerdict]:
    """Returns the verdicts on every drafter at draft length auto, by category, ALL last."""
    name, by_drafter = category_of(rows), dict[tuple[float, str, bool], list[BenchRun]]()
    for row in rows:
        if not row.peer and row.draft_length is not None:
            by_drafter.setdefault((row.temperature, row.proposer, row.exact), []).append(row)
    found = (
        _verdict(category, [row for row in mine if category in (ALL, name(row))])
        for mine in by_drafter.values()
        for category in categories(rows)
    )
    return [one for one in found if one is not None]


def _verdict(category: str, rows: Sequence[BenchRun]) -> AutoVerdict | None:
    """Returns the verdict on the runs of one drafter, or None without a timed reply at length auto."""
    by_length = _by_length(rows)
    auto = by_length.pop(AUTO, {})
    if not auto:
        return None
    first = rows[0]
    prompts = list(dict.fromkeys(key[:2] for key in auto))
    middle = [median(value for key, value in auto.items() if key[:2] == prompt) or 0.0 for prompt in prompts]
    best, best_speedup, share = _best(auto, by_length, plain=not first.exact)
    return AutoVerdict(
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
    )


def _by_length(rows: Sequence[BenchRun]) -> dict[Length, dict[_Key, float]]:
    """Groups the known speed-ups by draft length and reply."""
    found: dict[Length, dict[_Key, float]] = {}
    for row in rows:
        if row.speedup:
            found.setdefault(row.draft_length, {})[row.question_id, row.turn, row.repeat] = row.speedup
    return found


def _best(
    auto: dict[_Key, float], fixed: Mapping[Length, dict[_Key, float]], plain: bool
) -> tuple[int | None, float | None, float | None]:
    """Returns the best fixed length, its speed-up, and auto's share. plain: add plain decoding as length 0."""
    lengths = {length: found for length, found in fixed.items() if isinstance(length, int) and found}
    if not lengths:
        return None, None, None
    if plain:
        lengths.setdefault(0, dict.fromkeys(auto, 1.0))
    best, found = max(lengths.items(), key=lambda item: median(item[1].values()) or 0.0)
    return best, median(found.values()), median(value / found[key] for key, value in auto.items() if key in found)
