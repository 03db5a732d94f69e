"""Times as the API server writes them: metav1.Time (seconds) and metav1.MicroTime, always in UTC."""

from __future__ import annotations

import contextlib
import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,12}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_WHOLE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)


class TimestampError(ValueError):
    """The text is not an RFC 3339 time with a zone."""


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time as an aware datetime in UTC; digits beyond microseconds are cut off."""
    if _WHOLE.fullmatch(text):
        # As the API server writes most: read in half of the time.
        with contextlib.suppress(ValueError):
            return datetime.fromisoformat(text)
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise TimestampError(_message(text))
    micro = int((match[7] or "0").ljust(6, "0")[:6])
    try:
        offset = UTC
        if match[8]:
            delta = timedelta(hours=int(match[9]), minutes=int(match[10]))
            offset = timezone(delta if match[8] == "+" else -delta)
        year, month, day, hour, minute, second = (int(match[group]) for group in range(1, 7))
        return datetime(year, month, day, hour, minute, second, micro, offset).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise TimestampError(_message(text)) from error


@lru_cache(maxsize=8192)
def epoch_seconds(text: str) -> float:
    """Read an RFC 3339 time as seconds since 1970; cached, since whole Deployments share a second."""
    return parse_time(text).timestamp()


def format_time(moment: datetime) -> str:
    """Write a metav1.Time: `2026-11-21T10:00:00Z`. The datetime must be aware."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """Write a metav1.MicroTime: `2026-11-21T10:00:00.000000Z`. The datetime must be aware."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise TimestampError("a time without a zone cannot be sent to the API server")
    return moment.astimezone(UTC)


def _message(text: str) -> str:
    shown = text if len(text) <= 60 else text[:57] + "..."
    return f"{shown!r} is not a time of the form 2006-01-02T15:04:05Z"
