"""Pods that preemption has promised a node."""

from scheduler.framework import PodInfo


class Nominator:
    """Nominated pods by node, in memory: set before the API server hears of it, dropped when the pod is assumed or
    deleted."""

    def __init__(self) -> None:
        self.by_node: dict[str, tuple[PodInfo, ...]] = {}
        self._node_of: dict[str, str] = {}

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, instead of any former one; to none where the name is empty."""
        self.remove(pod.uid)
        if not node:
            return
        self.by_node[node] = (*self.by_node.get(node, ()), pod)
        self._node_of[pod.uid] = node

    def update(self, pod: PodInfo, old: PodInfo | None = None) -> None:
        """Take in a pending pod as the API server shows it now, and what it showed before.

        A nomination that stands in neither was made here and is still on its way to the API server: it stays.
        """
        known = self._node_of.get(pod.uid)
        node = pod.nominated_node
        if not node and known is not None and (old is None or not old.nominated_node):
            node = known
        self.set(pod, node)

    def remove(self, uid: str) -> None:
        """Drop a pod's nomination, if it has one."""
        node = self._node_of.pop(uid, None)
        if node is None:
            return
        rest = tuple(pod for pod in self.by_node[node] if pod.uid != uid)
        if rest:
            self.by_node[node] = rest
        else:
            del self.by_node[node]

    def node_of(self, uid: str) -> str | None:
        """Return the node a pod is nominated to."""
        return self._node_of.get(uid)
