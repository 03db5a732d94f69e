"""Where the pods of an AppGroup stand in the queue: which of them together, and in which order."""

from bisect import bisect_right, insort
from collections.abc import Mapping

from scheduler.kube.model import AppGroup

NOT_LISTED = -1
"""Place of a workload that the order does not list: before all others."""
SPAN_SECONDS = 60.0
"""Pods queued within this time of an AppGroup's first one join it: long enough for an application to be rolled out, and
the most by which they overtake pods of others."""
_MAX_STARTS = 16


class Waves:
    """The times at which waves of pods began, by AppGroup and priority."""

    def __init__(self) -> None:
        self._starts: dict[tuple[str, int], list[float]] = {}

    def start(self, group: str, priority: int, queued_at: float) -> float:
        """Return the beginning of the wave that a time is in; where it is in none, one begins."""
        starts = self._starts.setdefault((group, priority), [])
        index = bisect_right(starts, queued_at) - 1
        if index >= 0 and queued_at - starts[index] <= SPAN_SECONDS:
            return starts[index]
        insort(starts, queued_at)
        # A pod that waited for longer than all of these begins a wave of its own when it is moved in the queue.
        del starts[:-_MAX_STARTS]
        return queued_at


class TopologyOrders:
    """The orders of AppGroups, made once per change: a key is asked for whenever a pod joins the queue."""

    _MOST = 1024

    def __init__(self) -> None:
        self._known: dict[str, tuple[AppGroup, Mapping[str, int]]] = {}

    def of(self, group: AppGroup) -> Mapping[str, int]:
        """Return the places by workload selector; of one that is listed twice the first."""
        known = self._known.get(group.metadata.key)
        if known is None or known[0] is not group:
            if len(self._known) >= self._MOST:
                self._known.clear()
            order = {entry.workload.selector: entry.index for entry in reversed(group.status.topology_order)}
            known = self._known[group.metadata.key] = group, order
        return known[1]
