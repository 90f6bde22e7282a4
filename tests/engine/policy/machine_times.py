"""The true times of a machine of the simulation."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

_Line = tuple[tuple[int, float], ...]  # numbers of rows or tokens, rising, and seconds


@dataclass(frozen=True)
class MachineTimes:
    """Seconds.

    verify: by width in rows, between those given straight lines, beyond the last the slope since half as many. draft:
    by draft length likewise, from (0, 0.0). plain: of a step in a run of plain ones; None: a pass of one row.
    """

    verify: _Line
    draft: _Line = ((0, 0.0), (1, 0.0))
    plain: float | None = None

    @property
    def plain_s(self) -> float:
        """One token by plain decoding."""
        return self.pass_s(1) if self.plain is None else self.plain

    def pass_s(self, width: int) -> float:
        """One verify pass of `width` rows."""
        return _line(self.verify, width)

    def draft_s(self, length: int) -> float:
        """Proposing `length` tokens."""
        return _line(self.draft, length)

    def round_s(self, length: int) -> float:
        """Proposing `length` tokens and verifying them; of 0, a plain step."""
        if not length:
            return self.plain_s
        return self.draft_s(length) + self.pass_s(length + 1)


def _line(points: Sequence[tuple[int, float]], x: int) -> float:
    """Straight lines through `points`; beyond the last, with the slope since half as many, as two neighbours on either
    side of a step would point anywhere."""
    if len(points) == 1:
        return points[0][1]
    if x > points[-1][0]:
        x1, y1 = points[-1]
        x0, y0 = next((point for point in reversed(points[:-1]) if point[0] <= x1 / 2), points[0])
    else:
        (x0, y0), (x1, y1) = next(pair for pair in pairwise(points) if x <= pair[1][0])
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
