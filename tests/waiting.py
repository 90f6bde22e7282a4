"""Waits for a state, never for a time."""

import time
from collections.abc import Callable

HANG_S = 300.0  # only what hangs takes as long, on any machine
_LOOK_S = 0.005


def until(holds: Callable[[], object], limit_s: float = HANG_S) -> None:
    """Returns once `holds()`. Fails after `limit_s`, which only a hang reaches."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(_LOOK_S)
