"""Durations in words."""

_DAY_S = 86_400.0


def duration_words(seconds: float) -> str:
    """Returns a duration: 4 s, 3 min 20 s, 1 h 5 min, 2 days."""
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 1:
        return f"{rest_s} s"
    if minutes < 10:
        return f"{minutes} min {rest_s} s" if rest_s else f"{minutes} min"
    hours, rest_min = divmod(round(seconds / 60), 60)
    if hours < 1:
        return f"{rest_min} min"
    if seconds < 2 * _DAY_S:
        return f"{hours} h {rest_min} min" if rest_min and hours < 10 else f"{hours} h"
    return f"{seconds / _DAY_S:.0f} days"


def ago_words(then_s: float | None, now_s: float) -> str:
    """Returns how long ago a time was: just now, 5 minutes ago, 3 hours ago, yesterday, 12 days ago, 3 months ago;
    "never" for None."""
    if then_s is None:
        return "never"
    seconds = max(0.0, now_s - then_s)
    if seconds < 60:
        return "just now"
    for unit_s, unit, limit_s in ((60, "minute", 3600.0), (3600, "hour", _DAY_S)):
        if seconds < limit_s:
            return _several(int(seconds / unit_s), unit)
    days = int(seconds / _DAY_S)
    if days < 2:
        return "yesterday"
    return _several(days, "day") if days < 60 else _several(days // 30, "month")


def _several(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'} ago"
