"""How long the window waits for the engine's host before it says or does something: one frozen value, for tests too."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Patience:
    """Seconds each.

    ready_s: from start to Ready before the user is told. quick_s: a host that lived less died quickly.
    again_s: pauses before it is started again after one, two ... quick deaths in a row; after one more it is left.
    quit_s, terminate_s: from Quit to SIGTERM, from there to SIGKILL.
    load_s: between two answers of a load, silent_s: of a reply, stop_s: from Stop to its end, before the user is told.
    """

    ready_s: float = 20.0
    quick_s: float = 10.0
    again_s: tuple[float, ...] = (0.2, 1.0, 3.0)
    quit_s: float = 1.0
    terminate_s: float = 0.3
    load_s: float = 120.0
    stop_s: float = 8.0
    silent_s: float = 45.0


PATIENCE = Patience()


def milliseconds(seconds: float) -> int:
    """As Qt's timers want it."""
    return round(seconds * 1000)
