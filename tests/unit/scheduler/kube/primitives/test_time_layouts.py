"""Times in layouts of Go: which moment they are. How whole columns of them score is in test_nodemetadata.py."""

import pytest

from scheduler.kube.primitives import RFC3339, TimestampError, epoch_seconds, time_layout


@pytest.mark.parametrize(
    ("layout", "text", "moment"),
    [
        (RFC3339, "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"),
        (RFC3339, "2026-01-02T03:04:05,9+01:30", "2026-01-02T01:34:05Z"),
        ("2006-01-02T15:04:05Z07", "2026-01-02T03:04:05-12", "2026-01-02T15:04:05Z"),
        ("02 Jan 06 15:04 -070000", "02 feb 99 03:04 +000030", "1999-02-02T03:03:30Z"),
        ("3:04pm 2006-002", "12:30am 2024-366", "2024-12-31T00:30:00Z"),
        ("3:04pm 2006-002", "1:30pm 2024-060", "2024-02-29T13:30:00Z"),
        ("Jan _2 2006 MST", "Jan  5 2026 GMT+3", "2026-01-05T00:00:00Z"),
        ("January of 2006", "march of 2026", "2026-03-01T00:00:00Z"),
    ],
)
def test_a_time_is_read_as_go_reads_it(layout: str, text: str, moment: str) -> None:
    assert time_layout(layout).nanoseconds(text) // 10**9 == epoch_seconds(moment)


def test_digits_beyond_nanoseconds_are_cut_off() -> None:
    assert time_layout("2006 05").nanoseconds("1970 00.1234567899") == 123_456_789


def test_a_time_without_a_year_is_in_the_year_0() -> None:
    day, year = 86400 * 10**9, time_layout("2006-01-02").nanoseconds("0001-01-01")
    assert time_layout("15:04").nanoseconds("00:00") == year - 366 * day


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        (RFC3339, "2026-02-30T00:00:00Z"),
        (RFC3339, "2026-01-01T24:00:00Z"),
        (RFC3339, "2026-01-01T00:00:00+25:00"),
        (RFC3339, "2026-01-01 00:00:00Z"),
        ("2006-01-02", "2026-1-2"),
        ("2006-01-02", "2026-01-02 "),
        ("2006-002", "2025-366"),
        ("2006-002 Jan", "2025-032 Jan"),
        ("PM", "pm"),
        ("MST", "ABCDE"),
        ("MST", "GMT+24"),
        (".000", ".25"),
    ],
)
def test_what_is_no_such_time_is_refused(layout: str, text: str) -> None:
    with pytest.raises(TimestampError, match="not a time of this layout"):
        time_layout(layout).nanoseconds(text)


@pytest.mark.parametrize("layout", ["", "%Y-%m-%d", "YYYY-MM-DD", "Month"])
def test_a_layout_without_any_part_of_a_time_is_refused(layout: str) -> None:
    with pytest.raises(TimestampError, match="no layout of Go"):
        time_layout(layout)
