"""The replay of a race: what both sides show at a time, and the clock that plays it.

Both runs of a pair begin at zero, though they were made one after the other. What is shown follows from the document
and the time alone: playing to a moment and jumping there show the same.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from app.protocol.race_messages import SIDES, Run
from app.race.race_document import RaceDocument, tokens_of
from engine.audit.receipt import first_difference
from engine.metrics import Metrics

SPEEDS = (0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True)
class PaneState:
    """One side at a time. clock_s: the time, until the run ends. of: all tokens of the run. metrics: of the rounds by
    then, without acceptance by position. is_server: whether it is a server's, whose passes nobody sees."""

    clock_s: float
    of: int
    done: bool
    metrics: Metrics
    is_server: bool = False

    @property
    def tokens(self) -> int:
        """How many tokens are shown."""
        return self.metrics.tokens

    @property
    def share(self) -> float:
        """How much of the run is shown, 0 to 1."""
        return self.tokens / self.of if self.of else 1.0


@dataclass(frozen=True)
class State:
    """Both sides at a time. identical: how many tokens from the start are the same and shown by both. differs_at: where
    they differ, once both have shown that; None before, and if they never do. done: nothing more will come."""

    time_s: float
    panes: tuple[PaneState, ...]
    identical: int
    differs_at: int | None
    done: bool


class Track:
    """One run by the times of its rounds."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.tokens = tokens_of(run)
        self._times = [one.round.time_s for one in run.rounds]
        self.end_s = self._times[-1]
        metrics = Metrics(prompt_tokens=run.prompt_tokens)
        self._metrics = [_counts(metrics)]  # after each number of rounds
        for one in run.rounds:
            metrics.add(one.round)
            self._metrics.append(_counts(metrics))

    def at(self, time_s: float) -> PaneState:
        """Returns what is shown at a time."""
        rounds = bisect_right(self._times, time_s)
        done = rounds == len(self._times)
        is_server = self.run.report is not None
        return PaneState(min(time_s, self.end_s), self._metrics[-1].tokens, done, self._metrics[rounds], is_server)

    def time_of(self, token: int) -> float:
        """Returns when the token of this number, from 0, is shown; the end if it never is."""
        rounds = bisect_right(self._metrics, token, key=lambda metrics: metrics.tokens) - 1
        return self._times[min(rounds, len(self._times) - 1)]


def _counts(metrics: Metrics) -> Metrics:
    """Returns the numbers so far, without what a later round changes in place."""
    return replace(metrics, reached=[], kept=[], plain_reasons=Counter())


class Replay:
    """The pair of runs that stands for a race: the one whose speed-up is the median. differs_s: when both have shown
    where their texts differ; None if they never do."""

    def __init__(self, document: RaceDocument) -> None:
        self.document = document
        self.results = document.results
        shown = self.results.shown
        self.tracks = tuple(Track(document.run(side, shown)) for side in range(SIDES))
        self.receipt = document.receipts[shown - 1]
        self.end_s = max(track.end_s for track in self.tracks)
        first, second = (track.tokens for track in self.tracks)
        self._differs_at = position = first_difference(first, second)
        self._same = len(first) if position is None else position
        self.differs_s = None if position is None else max(track.time_of(position) for track in self.tracks)

    def at(self, time_s: float) -> State:
        """Returns what is shown at a time since the common start; the beginning or the end for a time outside."""
        time_s = min(max(time_s, 0.0), self.end_s)
        panes = tuple(track.at(time_s) for track in self.tracks)
        identical = min(self._same, *(pane.tokens for pane in panes))
        position = self._differs_at
        seen = position is not None and all(pane.tokens > position or pane.done for pane in panes)
        return State(time_s, panes, identical, position if seen else None, all(pane.done for pane in panes))


class Player:
    """The clock of a replay of `end_s` seconds. now: returns seconds that never fall. position_s: the moment that is
    shown, which `tick` brings up to date."""

    def __init__(self, end_s: float, now: Callable[[], float]) -> None:
        self.end_s = end_s
        self.position_s = 0.0
        self.playing = False
        self.speed = 1.0
        self._now = now
        self._since_s = 0.0

    def play(self) -> None:
        """Plays on from here; from the start if it has ended."""
        if self.position_s >= self.end_s:
            self.position_s = 0.0
        self._since_s = self._now()
        self.playing = self.end_s > 0

    def pause(self) -> None:
        """Stops at this moment."""
        self.tick()
        self.playing = False

    def seek(self, time_s: float) -> None:
        """Jumps to a time, and goes on playing if it does."""
        self.position_s = min(max(time_s, 0.0), self.end_s)
        self._since_s = self._now()

    def set_speed(self, speed: float) -> None:
        """Sets the speed from here on, in times the real one."""
        self.tick()
        self.speed = speed

    def tick(self) -> float:
        """Returns the moment that is reached by now; at its end the clock stops."""
        if self.playing:
            now_s = self._now()
            self.position_s = min(self.end_s, self.position_s + (now_s - self._since_s) * self.speed)
            self._since_s = now_s
            self.playing = self.position_s < self.end_s
        return self.position_s
