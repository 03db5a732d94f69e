"""Which preemptions of a plugin are under way. The requests themselves are the engine's work (`Handle.evict`)."""

from collections.abc import Sequence
from typing import NamedTuple

from scheduler.framework import Eviction, Handle, NodeView, PodInfo
from scheduler.preemption.victims import Candidate

_FEWEST_KEPT = 64
"""So many preemptions may be remembered before those that are over are looked for."""


class _Requested(NamedTuple):
    """The victims (UIDs) on a node whose deletion has been requested, or is about to be."""

    node: str
    victims: frozenset[str]


class Evictions:
    """The preemptions of one plugin that are under way, by preemptor.

    Upstream remembers only the preemptors whose victims have yet to be deleted at the API server (`preempting` of
    Evaluator). Here a preemption is remembered until the watch shows its victims gone, as a preemptor that is tried
    between the answer of the API server and the watch finds no terminating victim, and preempts once more.
    """

    def __init__(self, plugin: str, handle: Handle, *, spares_terminating: bool) -> None:
        self._plugin = plugin
        self._spares_terminating = spares_terminating
        self._handle = handle
        self._running: set[str] = set()
        self._requested: dict[str, _Requested] = {}
        self._most_kept = _FEWEST_KEPT

    def is_running(self, pod: PodInfo) -> bool:
        """Tell whether the deletion of some victims of this pod has yet to be requested."""
        return pod.uid in self._running

    def awaits_watch(self, pod: PodInfo) -> bool:
        """Tell whether it is too early to try a pod: the watch has yet to show that all its victims are terminating.

        The deletion of any pod is the time to ask again: each victim's deletion has been requested, or will be in a
        moment.
        """
        if pod.uid in self._running:
            return True
        requested = self._requested.get(pod.uid)
        if requested is None:
            return False
        # Thousands of preemptors may wait, and each deletion has all of them asked about.
        return any(
            not victim.deleting and victim.uid in requested.victims for victim in self._handle.pods_on(requested.node)
        )

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
        del self._requested[pod.uid]
        return False

    def start(self, preemptor: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo], view: NodeView) -> None:
        """Have the victims evicted; `displaced` are nominated pods that have to look for another node."""
        if len(self._requested) >= self._most_kept:
            # Not at each start: looking at all of them costs too much when thousands are under way.
            self._requested = {
                uid: requested for uid, requested in self._requested.items() if _still_there(requested, view)
            }
            self._most_kept = max(_FEWEST_KEPT, 2 * len(self._requested))
        uids = frozenset([victim.uid for victim in candidate.victims])
        self._requested[preemptor.uid] = _Requested(candidate.node, uids)
        self._running.add(preemptor.uid)
        eviction = Eviction(
            self._plugin,
            preemptor,
            candidate.node,
            candidate.victims,
            tuple(displaced),
            spares_terminating=self._spares_terminating,
        )
        self._handle.evict(eviction, lambda complete: self._finished(eviction, complete))

    def _finished(self, eviction: Eviction, complete: bool) -> None:
        preemptor, last = eviction.preemptor, eviction.victims[-1].uid
        # Not earlier: a pod that is tried while its last victim's deletion has yet to be requested finds no
        # terminating victim, and preempts once more.
        self._running.discard(preemptor.uid)
        if not complete:
            self._requested.pop(preemptor.uid, None)
        if not complete or all(pod.uid != last for pod in self._handle.pods_on(eviction.node)):
            # No event will wake the preemptor: a victim stays, or the watch has shown the last one's deletion already.
            self._handle.activate([preemptor])


def _still_there(requested: _Requested, view: NodeView) -> bool:
    row = view.row(requested.node)
    return row >= 0 and any(pod.uid in requested.victims for pod in view.pods_on(row))
