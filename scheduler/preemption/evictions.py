"""Which preemptions of a plugin are under way. The requests themselves are the engine's work (`Handle.evict`)."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from scheduler.catalog import KubernetesVersion
from scheduler.framework import Eviction, Handle, NodeView, PodInfo
from scheduler.preemption.victims import Candidate

_FEWEST_KEPT = 64
"""So many preemptions may be remembered before those that are over are looked for."""


class _Requested(NamedTuple):
    """The victims (UIDs) on a node whose deletion has been requested, or is about to be."""

    preemptor: PodInfo
    node: str
    victims: frozenset[str]


class Evictions:
    """The preemptions of one plugin that are under way, by preemptor.

    Upstream remembers only the preemptors whose victims have yet to be deleted at the API server (`preempting` of
    Evaluator). Here a preemption is remembered until the watch shows its victims gone, as a preemptor that is tried
    between the answer of the API server and the watch finds no terminating victim, and preempts once more.
    """

    def __init__(self, plugin: str, handle: Handle, kubernetes: KubernetesVersion) -> None:
        self._plugin = plugin
        self._kubernetes = kubernetes
        self._handle = handle
        self._running: set[str] = set()
        self._requested: dict[str, _Requested] = {}
        self._preemptors: dict[str, set[str]] = {}
        """By victim, who had it evicted (UIDs)."""
        self._most_kept = _FEWEST_KEPT
        handle.watch_pods(self._pod_changed)

    def is_running(self, pod: PodInfo) -> bool:
        """Tell whether the deletion of some victims of this pod has yet to be requested."""
        return pod.uid in self._running

    def awaits_watch(self, pod: PodInfo) -> bool:
        """Tell whether it is too early to try a pod: the watch has yet to show that all its victims are terminating.

        The answer changes when one of `victims_of` goes; of any other change the queue is told.
        """
        if pod.uid in self._running:
            return True
        requested = self._requested.get(pod.uid)
        return requested is not None and self._is_awaited(requested)

    def victims_of(self, pod: PodInfo) -> Collection[str]:
        """Return the UIDs of a pod's victims; none without a preemption that is remembered."""
        requested = self._requested.get(pod.uid)
        return () if requested is None else requested.victims

    def _is_awaited(self, requested: _Requested) -> bool:
        return any(
            not victim.deleting and victim.uid in requested.victims for victim in self._handle.pods_on(requested.node)
        )

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        """Tell the queue of the preemptors whose last victim is shown terminating: no event does."""
        if new is None or not new.deleting:
            return
        for uid in self._preemptors.get(new.uid, ()):
            if uid not in self._running and not self._is_awaited(requested := self._requested[uid]):
                self._handle.look_at_gates([requested.preemptor])

    def has_victims_left(self, pod: PodInfo, view: NodeView) -> bool:
        """Tell whether a victim of this pod is still on the node that the pod is nominated to, terminating or not.

        A pod that has lost its nomination to another one may look elsewhere at once: its preemption is forgotten.
        """
        requested = self._requested.get(pod.uid)
        if requested is None:
            return False
        nominated = any(nominee.uid == pod.uid for nominee in view.nominations.get(requested.node, ()))
        if nominated and _still_there(requested, view):
            return True
        self._forget(pod.uid)
        return False

    def start(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo], view: NodeView) -> None:
        """Have the victims evicted; `displaced` are nominated pods that have to look for another node."""
        if len(self._requested) >= self._most_kept:
            # Not at each start: looking at all of them costs too much when thousands are under way.
            for uid in [uid for uid, requested in self._requested.items() if not _still_there(requested, view)]:
                self._forget(uid)
            self._most_kept = max(_FEWEST_KEPT, 2 * len(self._requested))
        self._forget(preemptor.uid)
        uids = frozenset([victim.uid for victim in candidate.victims])
        self._requested[preemptor.uid] = _Requested(preemptor, candidate.node, uids)
        for victim in uids:
            self._preemptors.setdefault(victim, set()).add(preemptor.uid)
        self._running.add(preemptor.uid)
        eviction = Eviction(
            self._plugin,
            preemptor,
            candidate.node,
            candidate.victims,
            tuple(displaced),
            spares_terminating=self._kubernetes.spares_terminating,
            spares_unbound=self._kubernetes.spares_unbound,
        )
        self._handle.evict(eviction, lambda complete: self._finished(eviction, complete))

    def _finished(self, eviction: Eviction, complete: bool) -> None:
        preemptor, last = eviction.preemptor, eviction.victims[-1].uid
        # Not earlier: a pod that is tried while its last victim's deletion has yet to be requested finds no
        # terminating victim, and preempts once more.
        self._running.discard(preemptor.uid)
        if not complete:
            self._forget(preemptor.uid)
        if not complete or all(pod.uid != last for pod in self._handle.pods_on(eviction.node)):
            # No event will wake the preemptor: a victim stays, or the watch has shown the last one's deletion already.
            self._handle.activate([preemptor])
        else:
            self._handle.look_at_gates([preemptor])

    def _forget(self, preemptor: str) -> None:
        requested = self._requested.pop(preemptor, None)
        for victim in () if requested is None else requested.victims:
            preemptors = self._preemptors[victim]
            preemptors.discard(preemptor)
            if not preemptors:
                del self._preemptors[victim]


def _still_there(requested: _Requested, view: NodeView) -> bool:
    row = view.row(requested.node)
    return row >= 0 and any(pod.uid in requested.victims for pod in view.pods_on(row))
