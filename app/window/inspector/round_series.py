"""The rounds of one reply, folded as they arrive: numbers by `engine.metrics`, rows, series to plot. Knows no Qt.

A round is known by its index, which goes on where a stopped reply is resumed, as its time does. One heard twice counts
once, one that comes late goes where it belongs, and one that contradicts itself (it keeps more than was drafted, say)
is left out and counted in `unsound`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import nan

from app.protocol import RoundDone
from app.store.records import Statistics
from engine.events import Round
from engine.metrics import Metrics

WINDOW_S = 2.0  # seconds that the speed is an average over


def _doubles() -> array[float]:
    return array("d")


@dataclass
class PlotSeries:
    """One value a row; nan where there is none. clock_s: seconds since the request, never falling.
    tokens_per_s, tokens_per_pass: over the last WINDOW_S. draft_ms, verify_ms: as measured. whole_ms: from the round
    before to this one."""

    clock_s: array[float] = field(default_factory=_doubles)
    tokens_per_s: array[float] = field(default_factory=_doubles)
    tokens_per_pass: array[float] = field(default_factory=_doubles)
    draft_ms: array[float] = field(default_factory=_doubles)
    verify_ms: array[float] = field(default_factory=_doubles)
    whole_ms: array[float] = field(default_factory=_doubles)


class RoundSeries:
    """rows: the rounds in order. timed: whether draft and verify were measured apart in any of them. unsound: rounds
    left out."""

    def __init__(self) -> None:
        self._heard: set[int] = set()
        self.unsound = 0
        self._start()

    def add(self, round_done: Sequence[RoundDone]) -> bool:
        """Take what is new. False: a round came late, so that rows have moved."""
        fresh = [one for one in round_done if self._is_new(one.round)]
        ordered = all(a.round.index < b.round.index for a, b in pairwise([*self.rows[-1:], *fresh]))
        if not ordered:
            fresh = sorted([*self.rows, *fresh], key=lambda one: one.round.index)
            self._start()
        for one in fresh:
            self._append(one)
        return ordered

    @property
    def statistics(self) -> Statistics:
        """The numbers of the rounds so far."""
        return Statistics.of(self.metrics)

    def _start(self) -> None:
        self.rows: list[RoundDone] = []
        self.series = PlotSeries()
        self.metrics = Metrics()
        self.timed = False
        self._token_counts = array("q")  # tokens up to and with each row
        self._tail = 0  # the last row before the window of the speed

    def _is_new(self, round_: Round) -> bool:
        if not is_sound(round_):
            self.unsound += 1
            return False
        new = round_.index not in self._heard
        self._heard.add(round_.index)
        return new

    def _append(self, round_done: RoundDone) -> None:
        row, round_, series = len(self.rows), round_done.round, self.series
        resumed = row > 0 and round_done.id != self.rows[-1].id
        self.metrics.add(round_)
        self._token_counts.append((self._token_counts[-1] if row else 0) + len(round_.tokens))
        self.rows.append(round_done)
        series.clock_s.append(max(round_.time_s, series.clock_s[-1]) if row else round_.time_s)
        if resumed:  # what lies between is no part of the speed
            self._tail = row
        self._append_speed(row)
        series.draft_ms.append(_ms(round_.draft_s))
        series.verify_ms.append(_ms(round_.verify_s))
        known = row > 0 and not resumed
        series.whole_ms.append(_ms(series.clock_s[row] - series.clock_s[row - 1]) if known else nan)
        self.timed = self.timed or round_.verify_s is not None

    def _append_speed(self, row: int) -> None:
        """Tokens behind the row at the window's beginning, by the time and the passes since."""
        clock = self.series.clock_s
        while self._tail + 1 < row and clock[self._tail + 1] <= clock[row] - WINDOW_S:
            self._tail += 1
        tokens, seconds = self._token_counts[row] - self._token_counts[self._tail], clock[row] - clock[self._tail]
        self.series.tokens_per_s.append(tokens / seconds if seconds > 0 else nan)
        self.series.tokens_per_pass.append(tokens / (row - self._tail) if row > self._tail else nan)


def is_sound(round_: Round) -> bool:
    """Whether a round can be: nothing kept that was not drafted, parents before their children."""
    drafted, accepted = len(round_.drafted), round_.accepted
    if not 0 <= accepted <= min(drafted, len(round_.tokens)) or round_.index < 0:
        return False
    if round_.parents is None:
        return True
    return (
        len(round_.parents) == drafted
        and len(round_.path) >= accepted
        and all(0 <= node < drafted for node in round_.path)
        and all(-1 <= parent < node for node, parent in enumerate(round_.parents))
    )


def _ms(seconds: float | None) -> float:
    return nan if seconds is None else seconds * 1000
