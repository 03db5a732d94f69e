"""What strangers can cause as often as they like is counted, and said once in ten seconds."""

from __future__ import annotations

from typing import Any

from scheduler.observe.counted import CountedEvents, in_words


class Log:
    def __init__(self) -> None:
        self.now = 0.0
        self.lines: list[tuple[str, dict[str, Any]]] = []
        self.events = CountedEvents(lambda event, /, **fields: self.lines.append((event, fields)), lambda: self.now)


def test_the_first_is_said_at_once_and_the_others_are_counted_for_ten_seconds() -> None:
    log = Log()
    for number in range(123):
        log.now += 0.01
        log.events.note("malformed requests", f"10.0.0.{number}", f"reason {number}")
    assert log.lines == [("malformed requests", {"count": 1, "address": "10.0.0.0", "reason": "reason 0"})]
    log.now += 8
    log.events.flush()
    assert len(log.lines) == 1
    log.now += 1
    log.events.flush()
    log.events.flush()
    assert log.lines[1:] == [("malformed requests", {"count": 122, "address": "10.0.0.122", "reason": "reason 122"})]


def test_each_event_has_a_line_of_its_own() -> None:
    log = Log()
    for event in ("malformed requests", "connections dropped", "malformed requests"):
        log.events.note(event, "a", "r")
    assert [event for event, _ in log.lines] == ["malformed requests", "connections dropped"]


def test_nothing_that_was_counted_is_lost_at_the_end() -> None:
    log = Log()
    for _ in range(3):
        log.events.note("connections dropped", "a", "r")
    log.events.flush(everything=True)
    log.events.flush(everything=True)
    assert [fields["count"] for _, fields in log.lines] == [1, 2]


def test_what_a_stranger_sent_is_one_short_line_of_ascii() -> None:
    log = Log()
    log.events.note("malformed requests", "a", "bad\n\x1b[31m\ud800\u202e" + "x" * 1000)
    reason = log.lines[0][1]["reason"]
    assert reason.startswith("bad \\x1b[31m\\ud800\\u202exxx")
    assert len(reason) == 120


def test_a_log_of_plain_lines_gets_a_sentence() -> None:
    lines: list[str] = []
    in_words(lines.append)("malformed requests", count=7, address="10.0.0.1", reason="invalid method")
    assert lines == ["malformed requests: 7, the last by 10.0.0.1: invalid method"]
