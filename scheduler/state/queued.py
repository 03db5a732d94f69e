"""A pod in the queue, and where a pod can be.

What happened while a pod was being tried, so that it does not miss the event that would have woken it.

A pod is in flight from `pop` until its binding starts or it is requeued. An event in between may be just what it was
rejected for, and it stood in no queue to be woken. So events are kept while anybody is in flight, and replayed against
the pod's rejectors when it comes back (activeQueue.clusterEventsSinceElementInFlight of kube-scheduler).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import IntEnum
from typing import Any, Final, Literal, NamedTuple, Protocol

from msgspec import Struct, field

from scheduler.framework import ClusterEvent, Hint, MonotonicSeconds, PodInfo, WallSeconds

QueueName = Literal["active", "backoff", "unschedulable", "gated", "in-flight"]


class Requeue(IntEnum):
    """What an event means for a pod, in rising order of urgency."""

    SKIP = 0
    AFTER_BACKOFF = 1
    IMMEDIATELY = 2


class QueuedPod(Struct, eq=False):
    """A pod waiting or in flight (upstream's QueuedPodInfo).

    Attributes:
        pod: the newest state known.
        timestamp: when it was last queued, which gives the order.
        queued_at: the same moment, by which it waits.
        attempts: how often it was popped.
        unschedulable_count: attempts that ended in a rejection.
        consecutive_errors: attempts in a row that ended in an error.
        initial_attempt_at: when it first became active; None before. May give the order.
        first_active_at: the same moment, from which it is measured how long the pod took.
        unschedulable_plugins: who rejected it last.
        pending_plugins: who rejected it last with Pending: they wake it without back-off.
        gating_plugin: who keeps it from becoming active, or "".
        gate_message: what that plugin says.
        may_pass: whether that plugin was seen to let it pass, at an event that did not help it otherwise.
        flushed: whether it is tried because no event woke it for long.
        entity_size: how many pods it was tried with, itself included, where it failed with a gang that is an entity of
            the queue; else 0.
    """

    pod: PodInfo
    timestamp: WallSeconds
    queued_at: MonotonicSeconds
    attempts: int = 0
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    initial_attempt_at: WallSeconds | None = None
    first_active_at: MonotonicSeconds | None = None
    unschedulable_plugins: frozenset[str] = field(default_factory=frozenset)
    pending_plugins: frozenset[str] = field(default_factory=frozenset)
    gating_plugin: str = ""
    gate_message: str = ""
    may_pass: bool = False
    flushed: bool = False
    entity_size: int = 0

    @property
    def gated(self) -> bool:
        """Tell whether a PreEnqueue plugin parks it."""
        return bool(self.gating_plugin)

    @property
    def rejectors(self) -> frozenset[str]:
        """Return all plugins that rejected it last."""
        return self.unschedulable_plugins | self.pending_plugins


class RejectedGroup(NamedTuple):
    """Pods of a scheduler name that one plugin rejected or gates, and that await a name; "" for whatever they await."""

    scheduler: str
    plugin: str
    awaited: str = ""


class Parked:
    """The pods, in the order in which they came. A pod is in every group that `groups_of` tells of it at `put`."""

    def __init__(self, groups_of: Callable[[QueuedPod], Iterable[RejectedGroup]]) -> None:
        self._groups_of = groups_of
        self._pods: dict[str, QueuedPod] = {}
        self._filed: dict[str, Sequence[RejectedGroup]] = {}
        self._groups: dict[RejectedGroup, dict[str, QueuedPod]] = {}
        self._by_plugin: Counter[tuple[str, str]] = Counter()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: object) -> bool:
        return uid in self._pods

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod."""
        return self._pods.get(uid)

    def values(self) -> Iterator[QueuedPod]:
        """Yield every pod."""
        return iter(self._pods.values())

    def put(self, queued: QueuedPod) -> None:
        """Take a pod in, or file one anew that is here."""
        uid = queued.pod.uid
        self._unfile(uid)
        self._pods[uid] = queued
        self._filed[uid] = groups = tuple(dict.fromkeys(self._groups_of(queued)))
        for group in groups:
            self._groups.setdefault(group, {})[uid] = queued
            self._by_plugin[group.scheduler, group.plugin] += 1

    def pop(self, uid: str) -> QueuedPod | None:
        """Take a pod out; None when it is not here."""
        self._unfile(uid)
        return self._pods.pop(uid, None)

    def by_plugin(self, scheduler: str, plugin: str) -> bool:
        """Tell whether a pod of a scheduler name is here that a plugin rejected or gates."""
        return (scheduler, plugin) in self._by_plugin

    def of(self, groups: Iterable[RejectedGroup]) -> list[QueuedPod]:
        """Return the pods of any of the groups, each once."""
        members = [pods for group in dict.fromkeys(groups) if (pods := self._groups.get(group))]
        if len(members) < 2:
            return list(members[0].values()) if members else []
        return list({uid: queued for pods in members for uid, queued in pods.items()}.values())

    def count(self, groups: Iterable[RejectedGroup]) -> int:
        """Return how many pods the groups have; one that is in several is counted for each."""
        return sum(len(self._groups.get(group, ())) for group in groups)

    def _unfile(self, uid: str) -> None:
        for group in self._filed.pop(uid, ()):
            pods = self._groups[group]
            del pods[uid]
            if not pods:
                del self._groups[group]
            plugin = group.scheduler, group.plugin
            self._by_plugin[plugin] -= 1
            if not self._by_plugin[plugin]:
                del self._by_plugin[plugin]


POD_POPPED = "PodPopped"
"""Upstream's label for a pod in the list of events."""


class _InFlightEvent(NamedTuple):
    event: ClusterEvent
    old: Any
    new: Any


class InFlight:
    """Events since the oldest pod in flight was popped; each pod knows where its own begin. Nothing is kept when
    none is."""

    def __init__(self) -> None:
        self._events: list[_InFlightEvent] = []
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
            self._events.append(_InFlightEvent(event, old, new))

    def finish(self, uid: str) -> Iterator[_InFlightEvent]:
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


class QueueObserver(Protocol):
    """Counts and measures what the queue does."""

    def entered(self, queue: str, event: str) -> None:
        """A pod entered a queue (active, backoff, unschedulable) because of an event; a gated one is unschedulable."""

    def times_hint(self) -> bool:
        """Tell whether the hint that is to be asked now shall be measured."""

    def hinted(self, plugin: str, event: str, hint: Hint | None, seconds: float) -> None:
        """A plugin's hint answered after so many seconds; None where it raised."""

    def unasked(self, event: str) -> None:
        """A waiting pod was not asked about an event, as that pod or the one that changed lists too much."""

    def now(self) -> float:
        """Return seconds of a monotonic clock."""


class _Unobserved:
    """Observes nothing."""

    def entered(self, queue: str, event: str) -> None:
        """Nothing."""

    def times_hint(self) -> bool:
        return False

    def hinted(self, plugin: str, event: str, hint: Hint | None, seconds: float) -> None:
        """Nothing."""

    def unasked(self, event: str) -> None:
        """Nothing."""

    def now(self) -> float:
        return 0.0


UNOBSERVED: Final = _Unobserved()
"""Observes nothing."""
