"""Pods waiting to be scheduled (pkg/scheduler/backend/queue of kube-scheduler 1.34), pure and single-threaded.

A pod is in exactly one of five pools:

- active: next to be tried, in QueueSort's order.
- backoff: rejected, and woken by an event before its backoff is over. Tried when that is over, or at once when nothing
  is active: backoff protects other pods from being delayed by hopeless ones, and there are no others then
  (SchedulerPopFromBackoffQ).
- error backoff: something went wrong (a plugin failed, the API server did not answer). Never popped early: backoff
  protects the API server here. Gangs that come back without an event are here, too: to try one whenever there is
  nothing else to do would keep a processor busy.
- unschedulable: rejected, waits for an event that may help. Gated pods are here too, as the same events wake them.
- in flight: popped and not yet `done`. Its events are kept (see `inflight`).

Without the unschedulable pool each pod that fits nowhere would be tried again every ten seconds; with it an idle
cluster costs nothing. The price is that a plugin must register the right events; the five-minute timeout is the net.

Time comes from the injected clocks. Pods wait by the monotonic one: else they would wait an hour longer where the wall
clock is set back by one. The wall clock gives their order, as plugins compare it with the creation of a group. Backoff
ends on whole seconds, as upstream, so that pods that fail together come back together and in QueueSort's order.
"""

import heapq
import itertools
import math
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from scheduler.framework import (
    FORCE_ACTIVATE,
    SUCCESS,
    UNSCHEDULABLE_POD_ADD,
    UNSCHEDULABLE_TIMEOUT,
    Clocks,
    ClusterEvent,
    MonotonicSeconds,
    PodInfo,
    Status,
    WallSeconds,
    pod_update_events,
)
from scheduler.state.queued import UNOBSERVED, InFlight, Parked, QueuedPod, QueueName, QueueObserver, Requeue
from scheduler.state.waking import Hints, Waking

T = TypeVar("T")


class KeyedHeap(Generic[T]):
    """Smallest sort key first, equal ones in order of insertion.

    Removed entries stay in the heap as dead until they surface: `heapq` cannot remove from the middle, and a heap of
    our own with positions would run in Python instead of C. It is rebuilt once more than half of it is dead.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[Any, int, str]] = []
        self._items: dict[str, tuple[int, T]] = {}
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: str) -> bool:
        return key in self._items

    def __iter__(self) -> Iterator[T]:
        return (item for _, item in self._items.values())

    def get(self, key: str) -> T | None:
        """Return the item of a key."""
        entry = self._items.get(key)
        return entry[1] if entry is not None else None

    def push(self, key: str, order: Any, item: T) -> None:
        """Add an item, or give it a new place."""
        number = next(self._numbers)
        self._items[key] = (number, item)
        heapq.heappush(self._heap, (order, number, key))
        if len(self._heap) > 2 * len(self._items) + 64:
            self._heap = [entry for entry in self._heap if self._is_live(entry)]
            heapq.heapify(self._heap)

    def peek(self) -> T | None:
        """Return the first item and leave it."""
        while self._heap and not self._is_live(self._heap[0]):
            heapq.heappop(self._heap)
        return self._items[self._heap[0][2]][1] if self._heap else None

    def first(self, limit: int, accepts: Callable[[T], bool]) -> list[tuple[int, T]]:
        """Return the first items that are wanted, each with its place among all, from 1; it takes two looks at each."""
        live = [entry for entry in self._heap if self._is_live(entry)]
        chosen = heapq.nsmallest(limit, (entry for entry in live if accepts(self._items[entry[2]][1])))
        if not chosen:
            return []
        # Sorting all of them to know a few places takes three times as long.
        between = [0] * (len(chosen) + 1)
        for entry in live:
            between[bisect(chosen, entry)] += 1
        places = itertools.accumulate(between)
        return [(place + 1, self._items[entry[2]][1]) for place, entry in zip(places, chosen, strict=False)]

    def pop(self) -> T | None:
        """Remove and return the first item; None when there is none."""
        item = self.peek()
        if item is not None:
            _, _, key = heapq.heappop(self._heap)
            del self._items[key]
        return item

    def remove(self, key: str) -> T | None:
        """Remove and return the item of a key; None when it is not there."""
        entry = self._items.pop(key, None)
        return entry[1] if entry is not None else None

    def _is_live(self, entry: tuple[Any, int, str]) -> bool:
        current = self._items.get(entry[2])
        return current is not None and current[0] == entry[1]


Reordered = Callable[[ClusterEvent, Any, Any], Iterable[PodInfo]]
"""The pods whose place in the queue an event may change."""
_MAX_QUESTIONS = 100_000
"""Waiting pods times objects of a list; beyond it pods are woken unasked. A question takes about 4 us."""
_LONG_PAST = MonotonicSeconds(-math.inf)
_UPDATED = "UnschedulablePodUpdate"
_ATTEMPT_FAILED = "ScheduleAttemptFailure"
_BACKOFF_COMPLETE = "BackoffComplete"
_POPPED_FROM_BACKOFF = "PopFromBackoffQ"
"""What moves pods beside cluster events, as upstream's metrics name it."""


class SchedulingQueue:
    """The queue. Methods that move pods return where they went, for metrics and logs."""

    def __init__(
        self,
        *,
        clocks: Clocks,
        sort_key: Callable[[PodInfo, WallSeconds], Any],
        pre_enqueue: Callable[[PodInfo], Status] = lambda pod: SUCCESS,
        hints: Hints | None = None,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        unschedulable_after: float = 300.0,
        pop_from_backoff: bool = True,
        by_first_attempt: bool = False,
        reordered_by: Reordered | None = None,
        observer: QueueObserver | None = None,
        still_gated: Callable[[PodInfo], Status] | None = None,
    ) -> None:
        """Make an empty queue.

        Args:
            clocks: of the process.
            sort_key: QueueSort's key for (pod, time it was queued).
            by_first_attempt: give QueueSort the time a pod first became active instead of the time it was last queued.
            reordered_by: asked at each event for the pods whose key it may have changed.
            pre_enqueue: run before a pod becomes active; anything but Success parks it as gated.
            hints: registrations of every profile's plugins.
            initial_backoff: seconds before the second attempt; doubled for each further one.
            max_backoff: most seconds between attempts; 0 switches back-off off.
            unschedulable_after: seconds after which an unschedulable pod is tried again whatever happened.
            pop_from_backoff: give a pod that is backing off when there is nothing else to do.
            observer: is told what the queue does.
            still_gated: called instead of `pre_enqueue` to see whether a gated pod stays so, which may be asked of
                thousands at once: need not be measured.
        """
        self._clocks = clocks
        self._sort_key = sort_key
        self._pre_enqueue = pre_enqueue
        self._initial_backoff = initial_backoff
        self._max_backoff = max_backoff
        self._unschedulable_after = unschedulable_after
        self._pop_from_backoff = pop_from_backoff
        self._by_first_attempt = by_first_attempt
        self._reordered_by = reordered_by
        self._observer: QueueObserver = observer or UNOBSERVED
        self._still_gated = still_gated or pre_enqueue
        self._waking = Waking(hints or {}, self._observer)
        self._active: KeyedHeap[QueuedPod] = KeyedHeap()
        self._backoff: KeyedHeap[QueuedPod] = KeyedHeap()
        self._error_backoff: KeyedHeap[QueuedPod] = KeyedHeap()
        self._unschedulable = Parked(self._waking.groups_of)
        self._in_flight = InFlight()

    # Looking --------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._active) + len(self._backoff) + len(self._error_backoff) + len(self._unschedulable)

    @property
    def ready(self) -> int:
        """How many pods are to be tried at once."""
        return len(self._active)

    def counts(self) -> dict[str, int]:
        """Return pods per queue under upstream's metric labels: active, backoff, unschedulable, gated."""
        gated = sum(1 for queued in self._unschedulable.values() if queued.gated)
        return {
            "active": len(self._active),
            "backoff": len(self._backoff) + len(self._error_backoff),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    def queue_of(self, uid: str) -> QueueName | None:
        """Return the queue a pod is in; None when it is in none."""
        if uid in self._active:
            return "active"
        if uid in self._backoff or uid in self._error_backoff:
            return "backoff"
        if (queued := self._unschedulable.get(uid)) is not None:
            return "gated" if queued.gated else "unschedulable"
        return "in-flight" if uid in self._in_flight else None

    def get(self, uid: str) -> QueuedPod | None:
        """Return a waiting pod."""
        return (
            self._active.get(uid)
            or self._backoff.get(uid)
            or self._error_backoff.get(uid)
            or self._unschedulable.get(uid)
        )

    def pending(self) -> Iterable[QueuedPod]:
        """Yield every waiting pod, in no order."""
        yield from self._active
        yield from self._backoff
        yield from self._error_backoff
        yield from self._unschedulable.values()

    @property
    def in_flight_events(self) -> int:
        """Number of events kept for pods in flight; 0 when nothing is in flight."""
        return self._in_flight.event_count

    def in_flight_counts(self) -> dict[str, int]:
        """Return the events kept for pods in flight, and these pods, under upstream's metric labels."""
        return self._in_flight.counts()

    def first_active(self, limit: int, accepts: Callable[[QueuedPod], bool]) -> list[tuple[int, QueuedPod]]:
        """Return the pods of the active queue that are tried next of those wanted, each with its place among all."""
        return self._active.first(limit, accepts)

    def events_that_wake(self, queued: QueuedPod) -> dict[str, list[str]]:
        """Return, by plugin that rejected a pod, the events that may have it tried again, such as `Node/Add`."""
        return self._waking.events_of(queued)

    # Coming in ------------------------------------------------------------------------------------------------------

    def add(self, pod: PodInfo) -> QueueName:
        """Take in a pod seen for the first time; one that is known already is updated."""
        waiting = self.get(pod.uid)
        # A relist after a lost watch brings every pod once more.
        if waiting is not None or pod.uid in self._in_flight:
            return self.update(waiting.pod if waiting is not None else None, pod)
        return self._take_new(pod, UNSCHEDULABLE_POD_ADD.label)

    def update(self, old: PodInfo | None, new: PodInfo) -> QueueName:
        """Take in a changed pod; one that is unknown is added. The same resource version again changes nothing."""
        if old is not None and old.resource_version and old.resource_version == new.resource_version:
            return self.queue_of(new.uid) or self._take_new(new, _UPDATED)
        if new.uid in self._in_flight:
            if old is not None:
                for event in pod_update_events(old, new):
                    self._in_flight.record(event, old, new)
            return "in-flight"
        queued = self.get(new.uid)
        if queued is None:
            return self._take_new(new, _UPDATED)
        before, queued.pod = queued.pod, new
        for heap in (self._active, self._backoff, self._error_backoff):
            if new.uid in heap:
                if heap is self._active:
                    heap.push(new.uid, self.order(queued), queued)
                return "active" if heap is self._active else "backoff"
        for event in pod_update_events(before, new):
            if self._waking.verdict(queued, event, before, new) is not Requeue.SKIP:
                verdict = Requeue.IMMEDIATELY if queued.gated else Requeue.AFTER_BACKOFF
                return self._requeue(queued, verdict, event.label)
        queued.may_pass = queued.may_pass or (queued.gated and self._still_gated(new).is_success)
        self._unschedulable.put(queued)
        return "gated" if queued.gated else "unschedulable"

    def delete(self, uid: str) -> bool:
        """Drop a pod that was deleted or bound; True when it was waiting here."""
        return self._remove(uid) is not None

    # Going out ------------------------------------------------------------------------------------------------------

    def pop(self) -> QueuedPod | None:
        """Return the next pod to try, now in flight; None when there is none."""
        queued = self._active.pop()
        if queued is None and self._pop_from_backoff:
            queued = self._backoff.pop()
            if queued is not None:
                self._observer.entered("active", _POPPED_FROM_BACKOFF)
        return self._to_flight(queued) if queued is not None else None

    def take(self, uid: str) -> QueuedPod | None:
        """Return a waiting pod out of its turn, now in flight; None when it does not pass PreEnqueue, or does not wait
        here."""
        queued = self.get(uid)
        if queued is None or (queued.gated and not self._still_gated(queued.pod).is_success):
            return None
        if uid in self._unschedulable and not self._passes_gates(queued, FORCE_ACTIVATE.label):
            return None
        self._remove(uid)
        return self._to_flight(queued)

    def put_back(self, queued: QueuedPod) -> QueueName:
        """Return a popped pod that was not tried to the active queue, as if it had not been popped."""
        queued.attempts -= 1
        self._in_flight.finish(queued.pod.uid)
        return self._to_active(queued, FORCE_ACTIVATE.label)

    def takes_back(self, queued: QueuedPod) -> bool:
        """Put a popped pod back that does not pass PreEnqueue any more; False where it does."""
        if self._still_gated(queued.pod).is_success:
            return False
        self.put_back(queued)
        return True

    def done(self, uid: str) -> None:
        """End a pod's flight; called right before PreBind, and by `add_unschedulable`."""
        self._in_flight.finish(uid)

    def add_unschedulable(
        self,
        queued: QueuedPod,
        *,
        rejectors: Iterable[str] = (),
        pending: Iterable[str] = (),
        requeue: Requeue = Requeue.SKIP,
    ) -> QueueName:
        """Requeue a popped pod that could not be placed.

        Args:
            queued: what `pop` returned; its `pod` may have been replaced by a newer state.
            rejectors: plugins that rejected it; none means that something went wrong.
            pending: those of them that wait for something outside.
            requeue: what happens to it without an event; IMMEDIATELY leaves it its place, and no backoff counts.
        """
        uid = queued.pod.uid
        if self.get(uid) is not None:
            # It has come back to the queue meanwhile, by an event: one entry is enough.
            self._in_flight.finish(uid)
            return self.queue_of(uid) or "active"
        queued.unschedulable_plugins = frozenset(rejectors) - frozenset(pending)
        queued.pending_plugins = frozenset(pending)
        if requeue is Requeue.IMMEDIATELY:
            queued.unschedulable_count = queued.consecutive_errors = 0
        elif queued.rejectors:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        if requeue is not Requeue.IMMEDIATELY:
            queued.timestamp, queued.queued_at = self._clocks.wall(), self._clocks.monotonic()
        queued.flushed = False
        verdict = requeue if queued.rejectors else max(requeue, Requeue.AFTER_BACKOFF)
        for event, old, new in self._in_flight.finish(uid):
            # After an error no plugin can be asked what would help: the pod comes back after its back-off anyway.
            if queued.rejectors:
                verdict = max(verdict, self._waking.judged(queued, event, old, new))
                if verdict is Requeue.IMMEDIATELY:
                    break
        return self._requeue(queued, verdict, _ATTEMPT_FAILED)

    # Waking ---------------------------------------------------------------------------------------------------------

    def on_event(
        self,
        event: ClusterEvent,
        old: Any = None,
        new: Any = None,
        *,
        max_priority: int | None = None,
        except_uid: str = "",
    ) -> int:
        """Wake the unschedulable pods that an event may help, of all priorities or up to one, except the pod
        with a UID; returns how many moved."""
        self._note(event, old, new)
        if not self._unschedulable:
            return 0
        moved, wakes = 0, self._waking.registrations_for(event)
        self._waking.begin_event()
        # Most events, such as a changed condition of a pod, are news to no plugin: thousands of pods may wait here.
        for queued in self._waking.concerned(self._unschedulable, event, old, new):
            if max_priority is not None and queued.pod.priority > max_priority:
                continue
            if queued.pod.uid == except_uid:
                continue
            if queued.gated and self._stays_gated(queued, event, wakes):
                continue
            verdict = self._waking.judged(queued, event, old, new)
            if verdict is Requeue.SKIP:
                self._remember_passing(queued)
            elif self._requeue(queued, verdict, event.label) not in ("unschedulable", "gated"):
                moved += 1
        return moved

    def on_events(self, changes: Sequence[tuple[ClusterEvent, Any, Any]]) -> None:
        """Wake pods for the changes of one list: event, old and new object.

        As `on_event` for each, but if many objects meet many waiting pods, no pod is asked about each of them: 5,000
        claims and as many pods that wait for them kept the loop busy for two minutes. Then every pod is woken that one
        of the events could help, at the price of an attempt that may be in vain.
        """
        if self._waking.questions(self._unschedulable, changes) <= _MAX_QUESTIONS:
            for event, old, new in changes:
                self.on_event(event, old, new)
            return
        for event, old, new in changes:
            self._note(event, old, new)
        for event in dict.fromkeys(event for event, _, _ in changes):
            wakes = self._waking.registrations_for(event)
            for queued in list(self._unschedulable.values()) if wakes else ():
                if queued.gated and self._stays_gated(queued, event, wakes):
                    continue
                verdict = self._waking.verdict_unasked(queued, event)
                if verdict is Requeue.SKIP:
                    self._remember_passing(queued)
                else:
                    self._requeue(queued, verdict, event.label)

    def activate(self, uids: Iterable[str]) -> int:
        """Make pods active at once, whatever they wait for; those in flight are tried again right after. Returns how
        many moved."""
        moved = 0
        for uid in uids:
            if uid in self._in_flight:
                self._in_flight.record(FORCE_ACTIVATE, None, uid)
                continue
            queued = self._unschedulable.get(uid) or self._backoff.get(uid) or self._error_backoff.get(uid)
            if queued is not None and self._to_active(queued, FORCE_ACTIVATE.label) == "active":
                moved += 1
        return moved

    def look_at_gates(self, uids: Iterable[str]) -> None:
        """Ask PreEnqueue about gated pods again, as something other than an event has changed."""
        for uid in uids:
            queued = self._unschedulable.get(uid)
            if queued is None or not queued.gated:
                continue
            status = self._still_gated(queued.pod)
            if status.is_success:
                self._remember_passing(queued)
            elif status.plugin != queued.gating_plugin:
                self._gate(queued, status)

    def reorder(self, uids: Iterable[str]) -> None:
        """Look at the places of pods again, whose sort keys have changed."""
        for uid in uids:
            if (queued := self._active.get(uid)) is not None:
                self._active.push(uid, self.order(queued), queued)
            for heap in (self._backoff, self._error_backoff):
                if (queued := heap.get(uid)) is not None:
                    heap.push(uid, self._backoff_order(queued), queued)

    def flush(self) -> int:
        """Move what has waited long enough: finished back-offs, and pods unschedulable for too long. Returns how
        many moved."""
        now = self._clocks.monotonic()
        second = _whole_second(now)
        moved = 0
        for heap in (self._backoff, self._error_backoff):
            while (queued := heap.peek()) is not None and self.backoff_until(queued) < second:
                heap.pop()
                self._push_active(queued, _BACKOFF_COMPLETE)
                moved += 1
        for queued in list(self._unschedulable.values()):
            if now - queued.queued_at > self._unschedulable_after:
                queued.flushed = True
                verdict = self._waking.verdict(queued, UNSCHEDULABLE_TIMEOUT, None, None)
                moved += self._requeue(queued, verdict, UNSCHEDULABLE_TIMEOUT.label) not in ("unschedulable", "gated")
        return moved

    def backoff_until(self, queued: QueuedPod) -> MonotonicSeconds:
        """Return the whole second through which a pod backs off; one long past when it does not."""
        count = queued.consecutive_errors or queued.unschedulable_count
        if count == 0 or self._max_backoff == 0:
            return _LONG_PAST
        # The exponent is capped so that a pod tried for months does not compute a huge power.
        longest = self._max_backoff * math.sqrt(max(1, queued.entity_size))
        duration = min(self._initial_backoff * 2 ** min(count - 1, 60), longest)
        return _whole_second(queued.queued_at + duration)

    def order(self, queued: QueuedPod) -> Any:
        """Return QueueSort's key of a pod: the smallest goes first."""
        first = queued.initial_attempt_at if self._by_first_attempt else None
        return self._sort_key(queued.pod, queued.timestamp if first is None else first)

    def next_is_before(self, popped: QueuedPod) -> bool:
        """Tell whether the next pod goes before one that was popped earlier."""
        queued = self._active.peek()
        return queued is not None and self.order(queued) < self.order(popped)

    # Internals ------------------------------------------------------------------------------------------------------

    def _take_new(self, pod: PodInfo, event: str) -> QueueName:
        """Take in a pod that is in no queue."""
        return self._to_active(QueuedPod(pod, self._clocks.wall(), self._clocks.monotonic()), event, is_new=True)

    def _backoff_order(self, queued: QueuedPod) -> tuple[MonotonicSeconds, Any]:
        # All that end in one second become active together, so their order must already be that of the active queue.
        return self.backoff_until(queued), self.order(queued)

    def _to_flight(self, queued: QueuedPod) -> QueuedPod:
        queued.attempts += 1
        queued.unschedulable_plugins = frozenset()
        queued.pending_plugins = frozenset()
        queued.gating_plugin = ""
        self._in_flight.start(queued.pod.uid)
        return queued

    def _is_backing_off(self, queued: QueuedPod) -> bool:
        return self.backoff_until(queued) >= _whole_second(self._clocks.monotonic())

    def _remove(self, uid: str) -> QueuedPod | None:
        for heap in (self._active, self._backoff, self._error_backoff):
            queued = heap.remove(uid)
            if queued is not None:
                return queued
        return self._unschedulable.pop(uid)

    def _passes_gates(self, queued: QueuedPod, event: str) -> bool:
        status = self._pre_enqueue(queued.pod)
        if status.is_success:
            queued.gating_plugin = ""
            queued.gate_message = ""
            return True
        self._remove(queued.pod.uid)
        self._gate(queued, status)
        self._observer.entered("unschedulable", event)
        return False

    def _gate(self, queued: QueuedPod, status: Status) -> None:
        queued.gating_plugin = status.plugin
        queued.gate_message = status.message
        queued.unschedulable_plugins |= {status.plugin}
        queued.may_pass = False
        self._unschedulable.put(queued)

    def _note(self, event: ClusterEvent, old: Any, new: Any) -> None:
        """Keep an event for the pods in flight, and sort those again whose key it changes."""
        self._in_flight.record(event, old, new)
        if self._reordered_by is not None:
            self.reorder(pod.uid for pod in self._reordered_by(event, old, new))

    def _remember_passing(self, queued: QueuedPod) -> None:
        """A gated pod's gate is open, and it is not moved: events of any kind may do that from now on."""
        if queued.gated and not queued.may_pass:
            queued.may_pass = True
            self._unschedulable.put(queued)

    def _stays_gated(self, queued: QueuedPod, event: ClusterEvent, wakes: Hints) -> bool:
        if queued.gating_plugin not in wakes.get(queued.pod.scheduler_name, ()) and not event.is_wildcard:
            return True
        # Asked here, as well as when the pod is moved: while preemption is under way, that spares most of the hints.
        status = self._still_gated(queued.pod)
        return not status.is_success and status.plugin == queued.gating_plugin

    def _push_active(self, queued: QueuedPod, event: str) -> None:
        if queued.initial_attempt_at is None:
            queued.initial_attempt_at, queued.first_active_at = self._clocks.wall(), self._clocks.monotonic()
        self._active.push(queued.pod.uid, self.order(queued), queued)
        self._observer.entered("active", event)

    def _to_active(self, queued: QueuedPod, event: str, *, is_new: bool = False) -> QueueName:
        if not self._passes_gates(queued, event):
            return "gated"
        if not is_new:
            self._remove(queued.pod.uid)
        self._push_active(queued, event)
        return "active"

    def _requeue(self, queued: QueuedPod, verdict: Requeue, event: str) -> QueueName:
        uid = queued.pod.uid
        if verdict is Requeue.SKIP:
            self._remove(uid)
            self._unschedulable.put(queued)
            self._observer.entered("unschedulable", event)
            return "gated" if queued.gated else "unschedulable"
        if verdict is Requeue.AFTER_BACKOFF and self._is_backing_off(queued):
            if not self._passes_gates(queued, event):
                return "gated"
            self._remove(uid)
            heap = self._backoff if queued.rejectors and not queued.entity_size else self._error_backoff
            heap.push(uid, self._backoff_order(queued), queued)
            self._observer.entered("backoff", event)
            return "backoff"
        return self._to_active(queued, event)


def _whole_second(moment: MonotonicSeconds) -> MonotonicSeconds:
    return MonotonicSeconds(math.floor(moment))
