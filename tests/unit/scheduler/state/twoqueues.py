"""Queues that must agree, though one of them asks fewer pods at an event."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.state import SchedulingQueue
from tests.support.faketime import ManualClocks


class World(Protocol):
    """Whatever has a queue."""

    queue: SchedulingQueue


class TwoQueues(RuleBasedStateMachine):
    """Two worlds, in one of which everybody is asked: at every moment each pod is in the same place in both."""

    worlds: Sequence[World]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClocks()

    def names(self) -> Iterable[str]:
        """Of the pods that are compared."""
        raise NotImplementedError

    @rule(seconds=st.sampled_from([0.3, 2.0, 301.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds
        for world in self.worlds:
            world.queue.flush()

    @invariant()
    def every_pod_is_in_the_same_place(self) -> None:
        narrowed, unnarrowed = (
            {name: world.queue.queue_of(f"uid-{name}") for name in sorted(self.names())} for world in self.worlds
        )
        assert narrowed == unnarrowed
