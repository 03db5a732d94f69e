"""Pods that preemption has promised a node."""

from scheduler.framework import PodInfo


class Nominator:
    """Nominated pods by node, in memory: set before the API server hears of it, dropped when the pod is assumed or
    deleted."""

    def __init__(self) -> None:
        self.by_node: dict[str, tuple[PodInfo, ...]] = {}
        self._node_of: dict[str, str] = {}

    def set(self, pod: PodInfo, node: str) -> None:
        """Nominate a pod to a node, instead of any former one."""
        self.remove(pod.uid)
        self.by_node[node] = (*self.by_node.get(node, ()), pod)
        self._node_of[pod.uid] = node

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
