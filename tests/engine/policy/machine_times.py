"""The true times of a machine of the simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

READING = 1 / 16  # of a drafting step: what reading one more token costs, at most

_Line = tuple[tuple[int, float], ...]  # numbers of rows or tokens, rising, and seconds


@dataclass(frozen=True)
class MachineTimes:
    """Seconds, measured in isolation.

    verify: by width in rows, at the measured widths; between them straight lines, beyond the last the slope since half
    as many. draft: by draft length likewise, from (0, 0.0). members: of several drafters, the costs of each; `draft` is
    then that of the last. plain: of a step in a run of plain ones; None: a pass of one row.
    eager: of a whole round with one token, whose pass is built while the device drafts; None: the sum of its parts.
    """

    verify: _Line
    draft: _Line = ((0, 0.0), (1, 0.0))
    members: tuple[MachineTimes, ...] = ()
    plain: float | None = None
    eager: float | None = None

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

    @property
    def saved_s(self) -> float:
        """What a round with a draft saves because the pass is built while the last token is drafted. It was measured
        with one token, and is taken to be the same for more."""
        return 0.0 if self.eager is None else max(0.0, self.draft_s(1) + self.pass_s(2) - self.eager)

    def round_s(self, length: int) -> float:
        """Proposing `length` tokens and verifying them; of 0, a plain step."""
        if not length:
            return self.plain_s
        return self.draft_s(length) + self.pass_s(length + 1) - self.saved_s

    def reading_s(self, unread: int) -> float:
        """Reading all but the last of `unread` tokens, which every draft begins with."""
        rows = self.pass_s(unread) / self.pass_s(1) - 1
        return self.draft_s(1) * max(0.0, min(rows, READING * (unread - 1)))

    def of(self, member: int) -> MachineTimes:
        """With one of several drafters, or with the only one."""
        return self.members[member] if self.members else self


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
