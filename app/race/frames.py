"""Which moments an animation of a race is made of, and how long each of them stays."""

from __future__ import annotations

import math
from typing import NamedTuple

FRAME_MS = 80  # GIF counts in hundredths of a second
LONGEST_S = 9.0
HOLD_MS = 3000  # for the end
PACES = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0)


class Frame(NamedTuple):
    """A moment of the replay, and how long it stays."""

    time_s: float
    stays_ms: int


class Plan(NamedTuple):
    """pace: how many times as fast as it was."""

    pace: float
    frames: tuple[Frame, ...]


def plan(end_s: float) -> Plan:
    """The slowest pace at which all of it takes no more than LONGEST_S; the last frame is the end, and stays."""
    pace = next((pace for pace in PACES if end_s / pace <= LONGEST_S), math.ceil(end_s / LONGEST_S))
    step_s = pace * FRAME_MS / 1000
    count = math.ceil(end_s / step_s)
    moving = [Frame(number * step_s, FRAME_MS) for number in range(count)]
    return Plan(float(pace), (*moving, Frame(end_s, HOLD_MS)))
