"""Bounds on time that hold on a machine whose speed changes: other people's programs slow the processor of a virtual
machine down to half, for seconds or for hours, and no clock on it shows that."""

import time
from collections.abc import Callable

REFERENCE_S = 0.0125  # what `_work` took of the processor on the machine on which the bounds were set
REPEATS = 3


def slowness() -> float:
    """Returns how many times as long as on that machine a fixed computation in Python takes now, and at least 1."""
    return max(1.0, min(_work_s() for _ in range(REPEATS)) / REFERENCE_S)


def assert_quick(seconds_of: Callable[[], float], most_s: float) -> None:
    """Asserts that what `seconds_of` measures takes less than `most_s`, on a slower machine proportionally more. What
    takes longer is measured again: the least counts, as whatever disturbs a measurement makes it longer."""
    least_s, slowest = seconds_of(), 1.0
    for _ in range(REPEATS - 1):
        if least_s < most_s * slowest:
            return
        slowest = max(slowest, slowness())
        least_s = min(least_s, seconds_of())
    assert least_s < most_s * slowest, f"{least_s:.3f} s on a machine {slowest:.2f} times as slow, at most {most_s} s"


def _work_s() -> float:
    began_s, found = time.process_time(), dict[str, int]()
    for number in range(60_000):
        key = str(number % 1000)
        found[key] = found.get(key, 0) + len(key)
    return time.process_time() - began_s
