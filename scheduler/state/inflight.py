"""What happened while a pod was being tried, so that it does not miss the event that would have woken it.

A pod is in flight from `pop` until its binding starts or it is requeued. An event in between may be just what it was
rejected for, and it stood in no queue to be woken. So events are kept while anybody is in flight, and replayed against
the pod's rejectors when it comes back (activeQueue.clusterEventsSinceElementInFlight of kube-scheduler).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from scheduler.framework import ClusterEvent

POD_POPPED = "PodPopped"
"""Upstream's label for a pod in the list of events."""


class _Event(NamedTuple):
    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Events since the oldest pod in flight was popped; each pod knows where its own begin. Nothing is kept when
    none is."""

    def __init__(self) -> None:
        self._events: list[_Event] = []
        self._offset = 0
        self._starts: dict[str, int] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._starts

    @property
    def event_count(self) -> int:
        """Number of events kept."""
        return len(self._events)

    def counts(self) -> dict[str, int]:
        """Return the events by label, and the pods as PodPopped."""
        counts = dict(Counter(event.event.label for event in self._events))
        counts[POD_POPPED] = len(self._starts)
        return counts

    def start(self, uid: str) -> None:
        """Begin a pod's flight."""
        self._starts[uid] = self._offset + len(self._events)

    def record(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep an event for the pods in flight."""
        if self._starts:
            self._events.append(_Event(event, old, new))

    def finish(self, uid: str) -> Iterator[_Event]:
        """End a pod's flight; returns the events since it began."""
        start = self._starts.pop(uid, None)
        if start is None:
            return iter(())
        events = self._events[start - self._offset :]
        # Pods start in order, so the first of the dict is the oldest: no pod needs the events before its start.
        oldest = next(iter(self._starts.values()), self._offset + len(self._events))
        del self._events[: oldest - self._offset]
        self._offset = oldest
        return iter(events)
