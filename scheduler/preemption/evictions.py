"""Which preemptions of a plugin are under way, and for whom."""

from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct

from scheduler.catalog import KubernetesVersion
from scheduler.framework import Eviction, Handle, NodeView, PodInfo, Preemptor, pod_as_preemptor
from scheduler.preemption.victims import Candidate

_MIN_REMEMBERED = 64
"""So many preemptions may be remembered before those that are over are looked for."""


_SHOWN = 5
"""Victims that are named to whoever asks, who may be allowed to read the pods of the preemptor's namespace only."""


class _Requested(Struct, eq=False):
    """The victims whose deletion has been requested, or is about to be.

    Attributes:
        preemptor: for whom.
        nominated: by UID the nodes that its pods wait for.
        victims: UIDs of all.
        shown: the keys of the first of them in the preemptor's namespace.
        nodes: by UID the nodes of those whose end is waited for: of a pod by itself, those on its node.
        awaited: the UIDs among `nodes` that have yet to be shown terminating; some may have been.
    """

    preemptor: Preemptor
    nominated: Mapping[str, str]
    victims: frozenset[str]
    shown: Sequence[str]
    nodes: Mapping[str, str]
    awaited: set[str]


class Evictions:
    """The preemptions of one plugin that are under way, by preemptor.

    Upstream remembers only the preemptors whose victims have yet to be deleted at the API server (`preempting` of
    Evaluator). Here a preemption is remembered until the watch shows its victims gone, as a preemptor that is tried
    between the answer of the API server and the watch finds no terminating victim, and preempts once more.
    """

    def __init__(self, plugin: str, handle: Handle, kubernetes: KubernetesVersion, *, upstream: bool = False) -> None:
        self._plugin = plugin
        self._kubernetes = kubernetes
        # Up to 1.34, the k-th preemption on a node has the k victims of before patched and deleted once more.
        self._spares_terminating = kubernetes.spares_terminating or not upstream
        self._handle = handle
        self._running: set[str] = set()
        self._requested: dict[str, _Requested] = {}
        self._groups: dict[str, str] = {}
        """By the pods of groups that preempt, the group (UIDs)."""
        self._preemptors: dict[str, set[str]] = {}
        """By victim, who had it evicted (UIDs)."""
        self._sweep_at = _MIN_REMEMBERED
        handle.watch_pods(self._pod_changed)

    def is_running(self, preemptor: str) -> bool:
        """Tell whether the deletion of some victims of a preemptor (UID) has yet to be requested."""
        return preemptor in self._running

    def awaits_watch(self, pod: PodInfo) -> bool:
        """Tell whether it is too early to try a pod: the watch has yet to show that all its victims, or those of its
        group, are terminating.

        The answer changes when one of `victims_of` goes; of any other change the queue is told.
        """
        uid = self._preemptor_of(pod)
        if uid in self._running:
            return True
        requested = self._requested.get(uid)
        return requested is not None and self._is_awaited(requested)

    def group_preempts(self, pod: PodInfo) -> bool:
        """Tell whether the victims that a pod may wait for are those of its group."""
        return pod.uid in self._groups

    def victims_of(self, pod: PodInfo) -> Collection[str]:
        """Return the UIDs of the victims of a pod, or of its group; none without a preemption that is remembered."""
        requested = self._requested.get(self._preemptor_of(pod))
        return () if requested is None else requested.victims

    def names(self, preemptor: str) -> str:
        """Return the first victims of a preemptor (UID) in its own namespace, and how many more there are; "" where
        none is remembered."""
        requested = self._requested.get(preemptor)
        if requested is None:
            return ""
        more = len(requested.victims) - len(requested.shown)
        if not requested.shown:
            return f"{more} of other namespaces"
        return ", ".join(requested.shown) + (f" and {more} more" if more else "")

    def _preemptor_of(self, pod: PodInfo) -> str:
        return self._groups.get(pod.uid, pod.uid)

    def _is_awaited(self, requested: _Requested) -> bool:
        while requested.awaited:
            uid = next(iter(requested.awaited))
            pods = self._handle.pods_on(requested.nodes[uid])
            if any(victim.uid == uid and not victim.deleting for victim in pods):
                return True
            requested.awaited.discard(uid)
        return False

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        """Tell the queue of the preemptors whose last victim is shown terminating: no event does."""
        if new is None or not new.deleting:
            return
        for uid in self._preemptors.get(new.uid, ()):
            if uid not in self._running and not self._is_awaited(requested := self._requested[uid]):
                self._handle.look_at_gates(requested.preemptor.pods)

    def has_victims_left(self, preemptor: str, view: NodeView) -> bool:
        """Tell whether a victim of a preemptor (UID) is still on a node that it waits for, terminating or not.

        One that has lost its nominations to others may look elsewhere at once: its preemption is forgotten.
        """
        requested = self._requested.get(preemptor)
        if requested is None:
            return False
        nominated = any(
            nominee.uid == uid
            for uid, node in requested.nominated.items()
            for nominee in view.nominations.get(node, ())
        )
        if nominated and _still_there(requested, view):
            return True
        self._forget(preemptor)
        return False

    def start_for_pod(self, pod: PodInfo, candidate: Candidate, displaced: Sequence[PodInfo], view: NodeView) -> None:
        """Have the victims on a node evicted; `displaced` are nominated pods that have to look for another node."""
        node = candidate.node
        row = view.row(node)
        on_node = {other.uid for other in (view.pods_on(row) if row >= 0 else candidate.victims)}
        nodes = {victim.uid: node for victim in candidate.victims if victim.uid in on_node}
        nominated = {pod.uid: node}
        self.start(pod_as_preemptor(pod), node, nominated, candidate.victims, nodes, displaced, view)

    def start(
        self,
        preemptor: Preemptor,
        node: str,
        nominated: Mapping[str, str],
        victims: Sequence[PodInfo],
        nodes: Mapping[str, str],
        displaced: Sequence[PodInfo],
        view: NodeView,
    ) -> None:
        """Have victims evicted.

        Args:
            preemptor: for whom.
            node: where, as messages say it.
            nominated: by UID the nodes that its pods wait for.
            victims: who goes.
            nodes: by UID the nodes of the victims that it waits for.
            displaced: nominated pods that have to look for another node.
            view: on which that was decided.
        """
        if len(self._requested) >= self._sweep_at:
            # Not at each start: looking at all of them costs too much when thousands are under way.
            for uid in [uid for uid, requested in self._requested.items() if not _still_there(requested, view)]:
                self._forget(uid)
            self._sweep_at = max(_MIN_REMEMBERED, 2 * len(self._requested))
        self._forget(preemptor.uid)
        # The last one to go wakes the preemptor: one that it waits for.
        victims = sorted(victims, key=lambda victim: victim.uid in nodes)
        uids = frozenset([victim.uid for victim in victims])
        shown = [victim.key for victim in victims if victim.namespace == preemptor.namespace][:_SHOWN]
        self._requested[preemptor.uid] = _Requested(preemptor, nominated, uids, shown, nodes, set(nodes))
        for victim in uids:
            self._preemptors.setdefault(victim, set()).add(preemptor.uid)
        if preemptor.group_label:
            self._groups.update((pod.uid, preemptor.uid) for pod in preemptor.pods)
        self._running.add(preemptor.uid)
        eviction = Eviction(
            self._plugin,
            preemptor,
            node,
            tuple(victims),
            tuple(displaced),
            spares_terminating=self._spares_terminating,
            spares_unbound=self._kubernetes.spares_unbound,
        )
        last = victims[-1].uid
        self._handle.evict(eviction, lambda complete: self._finished(preemptor, last, nodes.get(last, ""), complete))

    def _finished(self, preemptor: Preemptor, last: str, node: str, complete: bool) -> None:
        # Not earlier: a pod that is tried while its last victim's deletion has yet to be requested finds no
        # terminating victim, and preempts once more.
        self._running.discard(preemptor.uid)
        if not complete:
            self._forget(preemptor.uid)
        if not complete or all(pod.uid != last for pod in self._handle.pods_on(node)):
            # No event will wake the preemptor: a victim stays, or the watch has shown the last one's deletion already.
            self._handle.activate(preemptor.pods)
        else:
            self._handle.look_at_gates(preemptor.pods)

    def _forget(self, preemptor: str) -> None:
        requested = self._requested.pop(preemptor, None)
        if requested is None:
            return
        for victim in requested.victims:
            preemptors = self._preemptors[victim]
            preemptors.discard(preemptor)
            if not preemptors:
                del self._preemptors[victim]
        for pod in requested.preemptor.pods:
            if self._groups.get(pod.uid) == preemptor:
                del self._groups[pod.uid]


def _still_there(requested: _Requested, view: NodeView) -> bool:
    rows = [view.row(node) for node in set(requested.nodes.values())]
    return any(row >= 0 and any(pod.uid in requested.victims for pod in view.pods_on(row)) for row in rows)
