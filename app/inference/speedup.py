"""How two replies to one prompt compare: the speed-ups, defined once. Imports nothing that decodes.

decode   plain seconds a token / other seconds a token, from the first pass's tokens to the last: the prompt is in
         neither, and the tokens of the first pass aren't counted as if they had taken no time
total    the same from request to last token, prompt included: what someone waiting sees
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable

from engine.metrics import Metrics


def decode_speedup(plain: Metrics, other: Metrics) -> float | None:
    """Returns the speed-up without the prompt; None where a reply had only one pass."""
    if not plain.pass_speed or not other.pass_speed:
        return None
    return other.pass_speed / plain.pass_speed


def total_speedup(plain: Metrics, other: Metrics) -> float | None:
    """Returns the speed-up with the prompt; None where a reply is empty."""
    if not plain.last_s or not other.last_s:
        return None
    return (plain.last_s / plain.tokens) / (other.last_s / other.tokens)


def median(values: Iterable[float | None]) -> float | None:
    """Returns the median of the values that are known; None where there are none."""
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
