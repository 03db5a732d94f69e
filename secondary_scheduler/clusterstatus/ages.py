"""How long ago something was, for people."""

from __future__ import annotations

from datetime import datetime

from scheduler.kube.primitives import TimestampError, parse_time

_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def seconds_since(time: object, now: datetime) -> float | None:
    """Return the seconds since an RFC 3339 time, at least 0; None where it is none."""
    try:
        return max(0.0, (now - parse_time(str(time))).total_seconds())
    except TimestampError:
        return None


def age_of(time: object, now: datetime) -> str:
    """Return the age of an RFC 3339 time, such as `4 min`; "?" where it is none."""
    seconds = seconds_since(time, now)
    return "?" if seconds is None else duration(seconds)


def duration(seconds: float) -> str:
    """Return a duration in the largest unit that it has two of, rounded down: 90 s, 3 min, 47 h, 2 d."""
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= 2 * size), (1, "s"))
    return f"{int(seconds // size)} {unit}"
