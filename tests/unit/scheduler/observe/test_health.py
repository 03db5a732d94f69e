"""Health reports are worded as upstream's, and a stuck loop is seen."""

from __future__ import annotations

from scheduler.observe.health import FailureLog, LoopWatchdog, report

CHECKS = {"ping": lambda: None, "leaderElection": lambda: "lease lost"}


def test_a_failed_check_is_named_and_its_reason_withheld() -> None:
    healthy, body = report("readyz", CHECKS, exclude=(), verbose=False)
    assert not healthy
    assert "[+]ping ok" in body
    assert "[-]leaderElection failed: reason withheld" in body
    assert "lease lost" not in body
    assert body.endswith("readyz check failed\n")


def test_an_excluded_check_does_not_count() -> None:
    assert report("readyz", CHECKS, exclude=("leaderElection",), verbose=False) == (True, "ok")


def test_verbose_shows_the_checks_that_pass() -> None:
    healthy, body = report("livez", {"ping": lambda: None}, exclude=(), verbose=True)
    assert healthy
    assert body == "[+]ping ok\nlivez check passed\n"


def test_a_loop_that_does_not_come_round_fails_after_its_tolerance() -> None:
    now = [100.0]
    watch = LoopWatchdog(tolerance_seconds=5, clock=lambda: now[0])
    now[0] = 105
    assert watch.check() is None
    now[0] = 105.1
    assert watch.check() is not None
    watch.beat()
    assert watch.check() is None


def test_a_reason_is_logged_once_per_change() -> None:
    logged: list[tuple[str, str, str | None]] = []
    failures = FailureLog(lambda *line: logged.append(line))
    reasons = iter([None, "silent for 61 s", "silent for 63 s", "the watch of pods is refused", None, None])
    for _ in range(6):
        report("readyz", {"loop": lambda: next(reasons)}, exclude=(), verbose=False, note=failures.note)
    assert logged == [
        ("readyz", "loop", "silent for 61 s"),
        ("readyz", "loop", "the watch of pods is refused"),
        ("readyz", "loop", None),
    ]
