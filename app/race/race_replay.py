"""What a race shows at a time: a fold that can be asked for any moment, forward or back, at the same small price.

Both runs of a pair begin at zero, though they were made one after the other. Everything here is a function of the
document and the time alone: playing to a moment and jumping there show the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from app.protocol.race_messages import SIDES, Divergence, Run
from app.race.race_document import RaceDocument, tokens_of
from engine.audit.receipt import first_difference
from engine.metrics import Metrics


@dataclass(frozen=True)
class PaneState:
    """One side at a time. clock_s: the time, as long as the run goes on. of: all tokens of the run. metrics: of what
    has come by then, without acceptance by position."""

    clock_s: float
    tokens: int
    of: int
    done: bool
    metrics: Metrics

    @property
    def share(self) -> float:
        """How much of the run has come, 0 to 1."""
        return self.tokens / self.of if self.of else 1.0


@dataclass(frozen=True)
class State:
    """Both sides at a time. identical: tokens from the start on that both have shown and that are the same. parted:
    where they differ, once both have shown that; None before, and where they never do. done: nothing more will come."""

    time_s: float
    panes: tuple[PaneState, ...]
    identical: int
    parted: int | None
    done: bool


class Track:
    """One run by the times of its rounds."""

    def __init__(self, run: Run) -> None:
        rounds = [one.round for one in run.rounds]
        self.run = run
        self.tokens = tokens_of(run)
        self._times = [round_.time_s for round_ in rounds]
        self._token_counts = _sums(len(round_.tokens) for round_ in rounds)
        self._drafted = _sums(len(round_.drafted) for round_ in rounds)
        self._waits = _sums(round_.waits for round_ in rounds)
        self._accepted = _sums(round_.accepted for round_ in rounds)
        self.end_s = self._times[-1]

    def at(self, time_s: float) -> PaneState:
        """By then."""
        rounds = bisect_right(self._times, time_s)
        done = rounds == len(self._times)
        return PaneState(
            min(time_s, self.end_s), self._token_counts[rounds], self._token_counts[-1], done, self._metrics(rounds)
        )

    def time_of(self, token: int) -> float:
        """When that many tokens, and one more, had come; the end where they never did."""
        place = bisect_right(self._token_counts, token) - 1
        return self._times[min(place, len(self._times) - 1)]

    def _metrics(self, rounds: int) -> Metrics:
        """What `Metrics.of` makes of the first rounds, but in no time."""
        return Metrics(
            prompt_tokens=self.run.prompt_tokens,
            tokens=self._token_counts[rounds],
            rounds=rounds,
            waits=self._waits[rounds],
            drafted=self._drafted[rounds],
            accepted=self._accepted[rounds],
            first_tokens=self._token_counts[1] if rounds else 0,
            first_s=self._times[0] if rounds else None,
            last_s=self._times[rounds - 1] if rounds else None,
        )


class Replay:
    """The pair of runs that stands for a race: the one whose speed-up is the median."""

    def __init__(self, document: RaceDocument) -> None:
        self.document = document
        self.results = document.results
        shown = self.results.shown
        self.tracks = tuple(Track(document.run(side, shown)) for side in range(SIDES))
        self.receipt = document.receipts[shown - 1]
        self.end_s = max(track.end_s for track in self.tracks)
        first, second = (track.tokens for track in self.tracks)
        self._parts_at = first_difference(first, second)
        self._same = len(first) if self._parts_at is None else self._parts_at

    @property
    def parting(self) -> Divergence | None:
        """Where the two differ, and why."""
        return self.receipt.divergence

    @property
    def parts_s(self) -> float | None:
        """When that has been seen in both; None where they never differ."""
        position = self._parts_at
        return None if position is None else max(track.time_of(position) for track in self.tracks)

    def at(self, time_s: float) -> State:
        """time_s: since the common start; what lies outside the replay is its beginning or its end."""
        time_s = min(max(time_s, 0.0), self.end_s)
        panes = tuple(track.at(time_s) for track in self.tracks)
        identical = min(self._same, *(pane.tokens for pane in panes))
        position = self._parts_at
        seen = position is not None and all(pane.tokens > position or pane.done for pane in panes)
        return State(time_s, panes, identical, position if seen else None, all(pane.done for pane in panes))


def _sums(values: Iterable[int]) -> list[int]:
    """Running sums, with the 0 before the first."""
    return [0, *accumulate(values)]
