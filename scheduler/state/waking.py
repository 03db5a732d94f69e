"""Which events may help a rejected pod, as the plugins that rejected it say (queueing hints)."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from scheduler.framework import FEW_PARTS, ClusterEvent, Concern, Hint, HintRegistration, PodInfo
from scheduler.state.queued import Parked, QueuedPod, QueueObserver, RejectedGroup, Requeue

Hints = Mapping[str, Mapping[str, tuple[HintRegistration, ...]]]
"""scheduler name -> plugin -> the events that may help a pod the plugin rejected."""

_MAX_CREDIT = 20_000
"""Things that pods list of which hints may look through at one event, after many that brought nothing of the kind: half
a microsecond each."""
_CREDIT_PER_EVENT = 100
_UNKNOWN = "?"
"""What a pod awaits whose plugin cannot tell."""


class Waking:
    """Asks the hints of every profile's plugins."""

    def __init__(self, hints: Hints, observer: QueueObserver) -> None:
        self._hints = hints
        self._observer = observer
        self._credit = _MAX_CREDIT
        self._woken_by: dict[ClusterEvent, dict[str, dict[str, tuple[HintRegistration, ...]]]] = {}
        self._concerns: dict[tuple[str, str], list[Concern]] = {
            (scheduler, plugin): concerns
            for scheduler, plugins in self._hints.items()
            for plugin, registrations in plugins.items()
            if (
                concerns := [registration.concern for registration in registrations if registration.concern is not None]
            )
        }

    def _matching(self, queued: QueuedPod, event: ClusterEvent) -> dict[str, tuple[HintRegistration, ...]]:
        """Return the rejectors that registered for an event, with the registrations that match."""
        if event.is_wildcard:
            return dict.fromkeys(queued.rejectors, ())
        plugins = self.registrations_for(event).get(queued.pod.scheduler_name, {})
        return {plugin: plugins[plugin] for plugin in queued.rejectors if plugin in plugins}

    def registrations_for(self, event: ClusterEvent) -> Hints:
        """Return the registrations that match an event; looked up once per kind of event, of which there are few."""
        by_scheduler = self._woken_by.get(event)
        if by_scheduler is None:
            by_scheduler = self._woken_by[event] = {}
            for scheduler, plugins in self._hints.items():
                matching = {
                    plugin: wanted
                    for plugin, registrations in plugins.items()
                    if (
                        wanted := tuple([registration for registration in registrations if event.matches(registration)])
                    )
                }
                if matching:
                    by_scheduler[scheduler] = matching
        return by_scheduler

    def groups_of(self, queued: QueuedPod) -> Iterator[RejectedGroup]:
        """Yield the groups under which a rejected or gated pod is found by the events that may help it."""
        scheduler = queued.pod.scheduler_name
        for plugin in (queued.gating_plugin,) if queued.gated else queued.rejectors:
            concerns = self._concerns.get((scheduler, plugin), ())
            if not concerns or not queued.gated or queued.may_pass:
                yield RejectedGroup(scheduler, plugin)
            for concern in concerns:
                for name in _awaited(concern, queued.pod):
                    yield RejectedGroup(scheduler, plugin, name)

    def concerned(self, parked: Parked, event: ClusterEvent, old: Any, new: Any) -> list[QueuedPod]:
        """Return the waiting pods that an event may help; the hints look closer."""
        groups = None if event.is_wildcard else self._groups_for(parked, event, old, new)
        return list(parked.values()) if groups is None else parked.of(groups)

    def questions(self, parked: Parked, changes: Iterable[tuple[ClusterEvent, Any, Any]]) -> int:
        """Return how many pods would be asked about changes, one change after the other."""
        concerned = (self._groups_for(parked, *change) for change in changes)
        return sum(len(parked) if groups is None else parked.count(groups) for groups in concerned)

    def _groups_for(self, parked: Parked, event: ClusterEvent, old: Any, new: Any) -> list[RejectedGroup] | None:
        """Return the groups of waiting pods that an event may help; None where a plugin cannot tell."""
        groups: list[RejectedGroup] = []
        if not parked:
            return groups
        for scheduler, plugins in self.registrations_for(event).items():
            for plugin, registrations in plugins.items():
                # Most events meet pods of no plugin or of one, and a dozen plugins register for most events.
                if not parked.by_plugin(scheduler, plugin):
                    continue
                for concern in dict.fromkeys([registration.concern for registration in registrations]):
                    try:
                        if concern is None or concern.helps_all(old, new):
                            groups.append(RejectedGroup(scheduler, plugin))
                        if concern is not None:
                            names = (*concern.named(old, new), _UNKNOWN)
                            groups += [RejectedGroup(scheduler, plugin, name) for name in names]
                    except Exception:
                        return None
        return groups

    def events_of(self, queued: QueuedPod) -> dict[str, list[str]]:
        """Return, by rejector of a pod, the events that it registered for; their hints look closer."""
        plugins = self._hints.get(queued.pod.scheduler_name, {})
        return {
            plugin: [name for registration in plugins.get(plugin, ()) for name in registration.event_names()]
            for plugin in sorted(queued.rejectors)
        }

    def verdict(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Requeue:
        """Return what an event means for a pod that was rejected."""
        if event.is_wildcard:
            only = new.uid if isinstance(new, PodInfo) else new
            return Requeue.AFTER_BACKOFF if only in (None, queued.pod.uid) else Requeue.SKIP
        verdict = Requeue.SKIP
        for plugin, registrations in self._matching(queued, event).items():
            if self._hints_say_queue(plugin, registrations, queued.pod, event, old, new):
                if plugin in queued.pending_plugins:
                    return Requeue.IMMEDIATELY
                verdict = Requeue.AFTER_BACKOFF
        return verdict

    def begin_event(self) -> None:
        """An event is about to be judged by the pods that it concerns."""
        self._credit = min(_MAX_CREDIT, self._credit + _CREDIT_PER_EVENT)

    def judged(self, queued: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> Requeue:
        """Return what an event means for a pod, as `verdict`, while hints have not looked through too much.

        A hint walks through what the waiting pod lists, or what the pod lists that came or went; thousands of things
        each are more than the events of a busy cluster leave time for. So what such pods list is counted over the
        events, of which each adds a little credit. Without credit an ordinary pod is woken unasked, and one that lists
        much is not woken: it is tried after five minutes, and asked again at the next event.
        """
        parts = _parts(queued.pod) + _parts(old) + _parts(new)
        if not parts:
            return self.verdict(queued, event, old, new)
        if parts <= self._credit:
            self._credit -= parts
            return self.verdict(queued, event, old, new)
        self._observer.unasked(event.label)
        return Requeue.SKIP if queued.pod.spec.lists_much else self.verdict_unasked(queued, event)

    def verdict_unasked(self, queued: QueuedPod, event: ClusterEvent) -> Requeue:
        """Return what an event means for a pod that was rejected if every hint says that it helps."""
        plugins = self._matching(queued, event)
        if not plugins:
            return Requeue.SKIP
        return Requeue.IMMEDIATELY if plugins.keys() & queued.pending_plugins else Requeue.AFTER_BACKOFF

    def _hints_say_queue(
        self,
        plugin: str,
        registrations: tuple[HintRegistration, ...],
        pod: PodInfo,
        event: ClusterEvent,
        old: Any,
        new: Any,
    ) -> bool:
        for registration in registrations:
            if not self._observer.times_hint():
                hint = _ask_hint(registration, pod, old, new)
            else:
                began = self._observer.now()
                hint = _ask_hint(registration, pod, old, new)
                self._observer.hinted(plugin, event.label, hint, self._observer.now() - began)
            if hint is not Hint.SKIP:
                return True
        return False


def _parts(item: Any) -> int:
    """Return what a pod lists that lists much; 0 for others."""
    return item.spec.parts if isinstance(item, PodInfo) and item.spec.parts > FEW_PARTS else 0


def _awaited(concern: Concern, pod: PodInfo) -> Collection[str]:
    """Return what a pod awaits; where the plugin's function raised, it is asked about each change."""
    try:
        return [*concern.awaited(pod)]
    except Exception:
        return (_UNKNOWN,)


def _ask_hint(registration: HintRegistration, pod: PodInfo, old: Any, new: Any) -> Hint | None:
    """Return a hint; None where it raised.

    That wakes the pod: for nothing it costs an attempt, and not to wake it could cost it five minutes.
    """
    if registration.hint is None:
        return Hint.QUEUE
    try:
        return Hint.QUEUE if registration.hint(pod, old, new) is Hint.QUEUE else Hint.SKIP
    except Exception:
        return None
