"""Times of the API."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st

from scheduler.kube.primitives.timestamps import (
    TimestampError,
    epoch_seconds,
    format_micro_time,
    format_time,
    parse_time,
)


@given(st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC)))  # noqa: DTZ001
def test_micro_times_survive_a_round_trip(moment: datetime) -> None:
    assert parse_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-11-21T10:00:00Z", datetime(2026, 11, 21, 10, tzinfo=UTC)),
        ("2026-11-21T10:00:00.5Z", datetime(2026, 11, 21, 10, 0, 0, 500000, tzinfo=UTC)),
        ("2026-11-21T10:00:00.123456789Z", datetime(2026, 11, 21, 10, 0, 0, 123456, tzinfo=UTC)),
        ("2026-11-21T10:00:00+02:30", datetime(2026, 11, 21, 7, 30, tzinfo=UTC)),
        ("2026-11-21t10:00:00-01:00", datetime(2026, 11, 21, 11, tzinfo=UTC)),
    ],
)
def test_forms_that_the_api_uses(text: str, expected: datetime) -> None:
    assert parse_time(text) == expected
    assert epoch_seconds(text) == expected.timestamp()


@pytest.mark.parametrize(
    "text", ["", "2026-11-21", "2026-11-21T10:00:00", "2026-13-01T00:00:00Z", "20261121T100000Z",
             "2026-W47-6T10:00:00Z", "0001-01-01T00:00:00+23:59", "2026-11-21T10:00:00+99:00", "x" * 1000]
)  # fmt: skip
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(TimestampError, match="is not a time of the form"):
        parse_time(text)
    with pytest.raises(TimestampError, match="is not a time of the form"):
        epoch_seconds(text)


def test_other_zones_are_written_in_utc_and_naive_times_are_refused() -> None:
    assert format_time(datetime(2026, 1, 1, 1, tzinfo=timezone(timedelta(hours=1)))) == "2026-01-01T00:00:00Z"
    with pytest.raises(TimestampError, match="without a zone"):
        format_time(datetime(2026, 1, 1))  # noqa: DTZ001
