"""Times as the API server writes them: metav1.Time (seconds) and metav1.MicroTime, always in UTC; and times in a layout
of Go's package time, which is the moment 2006-01-02 15:04:05 MST as such times are written."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from functools import lru_cache
from typing import Final, NamedTuple

_RFC3339: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,12}))?(?:[Zz]|([+-])(\d\d):(\d\d))", re.ASCII
)
_WHOLE: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
RFC3339: Final = "2006-01-02T15:04:05Z07:00"
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAYS_OF_400_YEARS: Final = 146_097
_MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October",
    "November", "December",
)  # fmt: skip
_DAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")

_ELEMENT: Final = (
    r"January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|002|0[1-6]|15|1|2006|2|__2|_2(?!006)|3|4|5|PM|pm"
    r"|[Z-]07(?:00(?:00)?|:00(?::00)?)?|[.,](?:0+|9+)(?!\d)"
)
"""What stands for a part of the time. Everything else in a layout stands for itself."""


class TimestampError(ValueError):
    """The text is not a time of the form that is read, or the layout is none."""


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


def format_seconds(seconds: float) -> str:
    """Write a time in seconds since 1970 as a metav1.Time."""
    return format_time(datetime.fromtimestamp(seconds, UTC))


def format_micro_time(moment: datetime) -> str:
    """Write a metav1.MicroTime: `2026-11-21T10:00:00.000000Z`. The datetime must be aware."""
    return _utc(moment).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise TimestampError("a time without a zone cannot be sent to the API server")
    return moment.astimezone(UTC)


def _message(text: str) -> str:
    excerpt = text if len(text) <= 60 else text[:57] + "..."
    return f"{excerpt!r} is not a time of the form 2006-01-02T15:04:05Z"


class _Reader(NamedTuple):
    """How a part of the time is written, and the numbers that it may be."""

    part: str
    pattern: str
    least: int = 0
    most: int = 9999


def _any_of(names: Iterable[str]) -> str:
    return f"(?i:{'|'.join(names)})"


_READERS: Final = {
    "January": _Reader("month", _any_of(_MONTHS)),
    "Jan": _Reader("month", _any_of([name[:3] for name in _MONTHS])),
    "1": _Reader("month", r"\d\d?+", 1, 12),
    "01": _Reader("month", r"\d\d", 1, 12),
    "Monday": _Reader("weekday", _any_of(_DAYS)),
    "Mon": _Reader("weekday", _any_of([name[:3] for name in _DAYS])),
    "2": _Reader("day", r"\d\d?+"),
    "_2": _Reader("day", r" ?+\d\d?+"),
    "02": _Reader("day", r"\d\d"),
    "__2": _Reader("day of the year", r" {0,2}+\d{1,3}+"),
    "002": _Reader("day of the year", r"\d{3}"),
    "15": _Reader("hour", r"\d\d?+", 0, 23),
    "3": _Reader("hour", r"\d\d?+", 0, 12),
    "03": _Reader("hour", r"\d\d", 0, 12),
    "4": _Reader("minute", r"\d\d?+", 0, 59),
    "04": _Reader("minute", r"\d\d", 0, 59),
    "5": _Reader("second", r"\d\d?+", 0, 59),
    "05": _Reader("second", r"\d\d", 0, 59),
    "2006": _Reader("year", r"\d{4}"),
    "06": _Reader("year", r"\d\d"),
    "PM": _Reader("half", "AM|PM"),
    "pm": _Reader("half", "am|pm"),
    "MST": _Reader(
        "zone",
        r"(?>UTC|ChST|MeST|GMT(?:[+-]0*(?:1\d|2[0-3]|\d)(?!\d))?|[+-]0*(?:1\d|2[0-3]|\d)(?!\d)"
        r"|(?:[A-Z]{4}T|[A-Z]{3}T|WITA|[A-Z]{3})(?![A-Z]))",
    ),
}
_ANY_FRACTION: Final = _Reader("fraction", r"(?:[.,]\d++)?+")


class TimeLayout:
    """Reads times of one layout as Go's time.Parse does on a machine whose zone is UTC; without the signs that Go
    takes for digits in places."""

    def __init__(self, layout: str) -> None:
        """Raises TimestampError for a layout without any element: no time could be read by it."""
        elements = list(re.finditer(_ELEMENT, layout, re.ASCII))
        if not elements:
            raise TimestampError(
                f"{layout!r} is no layout of Go: write 2006-01-02T15:04:05Z07:00 as your times are written"
            )
        self._readers: list[_Reader] = []
        pattern, end = "", 0
        for index, element in enumerate(elements):
            pattern += _literal(layout[end : element.start()])
            following = elements[index + 1][0] if index + 1 < len(elements) else ""
            for reader in _readers_of(element[0], following):
                self._readers.append(reader)
                pattern += f"({reader.pattern})"
            end = element.end()
        self._pattern = re.compile(pattern + _literal(layout[end:]), re.ASCII)

    def nanoseconds(self, text: str) -> int:
        """Read a time as nanoseconds since 1970. Without a zone it is UTC.

        Raises:
            TimestampError: the text is not of this layout, or there is no such moment.
        """
        match = self._pattern.fullmatch(text)
        if match is None:
            raise TimestampError(_not_of_layout(text))
        # Of a part that is written twice the last one counts; but UTC wins.
        parts: dict[str, str] = {}
        ahead = 0
        try:
            for reader, value in zip(self._readers, match.groups(), strict=True):
                if value.isdecimal() and not reader.least <= int(value) <= reader.most:
                    raise ValueError("out of range")
                if reader.part == "offset" and value != "Z":
                    ahead = _offset(value)
                parts[reader.part] = value
            if {"Z", "UTC"} & set(match.groups()):
                ahead = 0
            seconds = (_day(parts) - _EPOCH) * 86400 + _second_of_day(parts) - ahead
        except ValueError as error:
            raise TimestampError(_not_of_layout(text)) from error
        return seconds * 10**9 + int(parts.get("fraction", "")[1:10].ljust(9, "0"))


@lru_cache(maxsize=64)
def time_layout(layout: str) -> TimeLayout:
    """Return the reader of a layout, made once."""
    return TimeLayout(layout)


def _readers_of(element: str, following: str) -> Iterator[_Reader]:
    """Yield what reads an element of a layout."""
    if element[0] in ".,":
        yield _Reader("fraction", rf"[.,]\d{{{len(element) - 1}}}") if element[1] == "0" else _ANY_FRACTION
    elif element[0] in "Z-":
        digits = re.sub(r"\d\d", r"\\d\\d", element[1:])
        yield _Reader("offset", f"Z|[+-]{digits}" if element[0] == "Z" else f"[+-]{digits}")
    else:
        reader = _READERS[element]
        yield reader
        if reader.part == "second" and following[:1] not in (".", ","):
            # Go reads a fraction of a second also where the layout has none.
            yield _ANY_FRACTION


def _literal(text: str) -> str:
    """A pattern for what stands for itself; spaces for one or more, or for none at the end."""
    return "".join(r"(?: ++|\Z)" if run.isspace() else re.escape(run) for run in re.findall(r" +|[^ ]+", text))


def _day(parts: dict[str, str]) -> int:
    """Return the day as datetime.date counts them; ValueError for one that does not exist."""
    written = parts.get("year", "0000")
    year = int(written) if len(written) == 4 else int(written) + (1900 if int(written) >= 69 else 2000)
    # Python has no year 0; the calendar repeats.
    days_before, year = (-_DAYS_OF_400_YEARS, 400) if year == 0 else (0, year)
    month = _month(parts["month"]) if "month" in parts else None
    day = int(parts["day"]) if "day" in parts else None
    if "day of the year" not in parts:
        return date(year, 1 if month is None else month, 1 if day is None else day).toordinal() + days_before
    ordinal = date(year, 1, 1).toordinal() + int(parts["day of the year"]) - 1
    meant = date.fromordinal(ordinal)
    if meant.year != year or month not in (None, meant.month) or day not in (None, meant.day):
        raise ValueError("another day of the year")
    return ordinal + days_before


def _second_of_day(parts: dict[str, str]) -> int:
    hour = int(parts.get("hour", "0"))
    half = parts.get("half", "").upper()
    if half == "PM" and hour < 12:
        hour += 12
    elif half == "AM" and hour == 12:
        hour = 0
    return hour * 3600 + int(parts.get("minute", "0")) * 60 + int(parts.get("second", "0"))


def _month(text: str) -> int:
    return int(text) if text.isdecimal() else 1 + [name[:3].lower() for name in _MONTHS].index(text[:3].lower())


def _offset(text: str) -> int:
    """Return how many seconds a zone is ahead of UTC, by its offset. Its name says nothing: to Go, too, it is UTC."""
    hours, minutes, seconds = (*(int(number) for number in re.findall(r"\d\d", text)), 0, 0)[:3]
    if hours > 24 or minutes > 60 or seconds > 60:
        raise ValueError("no such offset")
    ahead = hours * 3600 + minutes * 60 + seconds
    return -ahead if text[0] == "-" else ahead


def _not_of_layout(text: str) -> str:
    excerpt = text if len(text) <= 60 else text[:57] + "..."
    return f"{excerpt!r} is not a time of this layout"
