"""What a recording costs, without recording: the report."""

from benchmarks.recording import Usage, report


def test_the_report_tells_the_lists_from_what_follows() -> None:
    begun, listed, ended = (
        Usage(0.0, 10.0, 0, 100.0),
        Usage(4.0, 13.0, 200 << 20, 110.0),
        Usage(10.0, 33.0, 250 << 20, 230.0),
    )
    lists, after, file, messages = report(begun, listed, ended, 3 << 20, "recorded 120 s\n").splitlines()
    assert "recorder 4.0 s" in lists
    assert "200 MiB at most, API server 3.0 s, in 10.0 s" in lists
    assert "recorder 6.0 s in 120 s (5.0 % of one processor), 250 MiB at most, API server 20.0 s" in after
    assert (file, messages) == ("file: 3.0 MiB", "recorded 120 s")
