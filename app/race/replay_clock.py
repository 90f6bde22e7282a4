"""The clock of a replay: plays, pauses, jumps, goes slower. Where real time comes from is for whoever makes it."""

from __future__ import annotations

from collections.abc import Callable

SPEEDS = (0.25, 0.5, 1.0, 2.0)


class Player:
    """now: seconds, never falling. end_s: of what is played. position_s: where it stands, which `tick` brings up to
    date."""

    def __init__(self, end_s: float, now: Callable[[], float]) -> None:
        self.end_s = end_s
        self.position_s = 0.0
        self.playing = False
        self.speed = 1.0
        self._now = now
        self._since_s = 0.0

    def play(self) -> None:
        """On from here; from the start where it has ended."""
        if self.position_s >= self.end_s:
            self.position_s = 0.0
        self._since_s = self._now()
        self.playing = self.end_s > 0

    def pause(self) -> None:
        self.tick()
        self.playing = False

    def seek(self, time_s: float) -> None:
        """There at once; it goes on playing if it does."""
        self.position_s = min(max(time_s, 0.0), self.end_s)
        self._since_s = self._now()

    def set_speed(self, speed: float) -> None:
        """Times as fast as it was, from here on."""
        self.tick()
        self.speed = speed

    def tick(self) -> float:
        """How far it is by now; at its end it stops."""
        if self.playing:
            now_s = self._now()
            self.position_s = min(self.end_s, self.position_s + (now_s - self._since_s) * self.speed)
            self._since_s = now_s
            self.playing = self.position_s < self.end_s
        return self.position_s
