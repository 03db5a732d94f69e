"""Processor time that is set aside: how much there is, and how rarely the expensive clock is asked."""

from __future__ import annotations

from scheduler.engine.allowance import ProcessorAllowance
from scheduler.framework import MonotonicSeconds


class Clock:
    def __init__(self) -> None:
        self.seconds, self.looks = 0.0, 0

    def look(self) -> MonotonicSeconds:
        self.looks += 1
        return MonotonicSeconds(self.seconds)


def test_the_expensive_clock_is_asked_again_only_when_a_debt_may_be_paid() -> None:
    processor, wall = Clock(), Clock()
    allowance = ProcessorAllowance(0.01, 0.02, processor.look, wall.look)
    assert allowance.available()
    allowance.spend(0.03)
    assert not allowance.available()
    looks = processor.looks
    # 10 ms of debt are paid after a second, if this process gets all of it.
    for _ in range(100):
        wall.seconds += 0.0099
        assert not allowance.available()
    assert processor.looks == looks
    wall.seconds, processor.seconds = 1.1, 0.4
    assert not allowance.available()
    assert processor.looks == looks + 1
    wall.seconds = processor.seconds = 1.8
    assert allowance.available()


def test_without_a_share_nothing_is_ever_available_and_the_expensive_clock_is_asked_once() -> None:
    processor, wall = Clock(), Clock()
    allowance = ProcessorAllowance(0.0, 0.02, processor.look, wall.look)
    looks = processor.looks
    for _ in range(10):
        wall.seconds += 1e9
        assert not allowance.available()
    assert processor.looks == looks + 1
