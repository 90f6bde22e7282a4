"""From a value a round to what a plot has pixels for. Imported with the plots, since numpy takes a while to load."""

from __future__ import annotations

from array import array
from math import floor, inf, log10, sqrt

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]

MOST_POINTS = 192
Z = 1.96  # of a normal law, for an interval that holds 95 %
STEPS = (1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def stride(count: int) -> int:
    """The least power of two that leaves at most MOST_POINTS of `count`; a power, so that points stay where they are
    while more come."""
    step = 1
    while count > step * MOST_POINTS:
        step *= 2
    return step


def thinned(values: array[float]) -> Values:
    """Every stride-th value and the last: for what is an average already."""
    whole = np.array(values)
    kept = whole[:: stride(len(whole))]
    return np.append(kept, whole[-1:]) if len(whole) and (len(whole) - 1) % stride(len(whole)) else kept


def averaged(values: array[float]) -> Values:
    """Means over stride rounds, of what is known; nan where nothing is."""
    whole = np.array(values)
    step = stride(len(whole))
    if step == 1:
        return whole
    padded = np.append(whole, np.full(-len(whole) % step, np.nan)).reshape(-1, step)
    known = np.isfinite(padded)
    count = known.sum(1)
    return np.where(count > 0, np.where(known, padded, 0).sum(1) / np.maximum(count, 1), np.nan)


def middles(count: int) -> Values:
    """The round, from 1, at the middle of each mean of `averaged`."""
    step = stride(count)
    starts = np.arange(0, count, step)
    return np.asarray((starts + np.minimum(starts + step, count) + 1) / 2, np.float64)


def ceiling(value: float) -> float:
    """The next round number from `value` up, for an axis that does not move with every point."""
    if not 0 < value < inf:
        return 1.0
    scale = 10.0 ** floor(log10(value))
    return next(step * scale for step in STEPS if step * scale >= value * 0.999999)


def greatest(*series: Values) -> float:
    """Of all that is known; 0 where nothing is."""
    return max((float(np.nanmax(s)) for s in series if np.isfinite(s).any()), default=0.0)


def wilson(kept: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a share (Wilson 1927), which is honest for small samples too."""
    if of <= 0:
        return 0.0, 1.0
    share, z2 = kept / of, Z * Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = Z / (1 + z2 / of) * sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def compact(count: int) -> str:
    """ "196", "1.2k", "19k"."""
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 9950 else f"{count / 1000:.0f}k"
