"""All pods the watch shows that have one of the indexed labels or a PodGroup, with or without a node, of every
scheduler.

For members of a gang: some wait, some are bound, some belong to another scheduler, and the cache holds only those with
a node, the queue only those that wait for us.
"""

from collections.abc import Callable, Collection

from scheduler.framework import SCHEDULING_GROUP, PodInfo, PodListener

_Key = tuple[str, str, str]
"""Label, namespace, value."""


class PodDirectory:
    """Pods by the value of a label. Only labels that were indexed before the first pod came are kept.

    Args:
        node_of: where a pod is bound or assumed to be, by UID.
    """

    def __init__(self, node_of: Callable[[str], str]) -> None:
        self._node_of = node_of
        self._labels: list[str] = []
        self._by_value: dict[_Key, dict[str, PodInfo]] = {}
        self._pods: dict[str, PodInfo] = {}
        self._listeners: list[PodListener] = []

    def index(self, label: str, listener: PodListener | None = None) -> None:
        """Keep the pods that have a label, or with SCHEDULING_GROUP those of PodGroups; `listener` is called for each
        that comes, changes or goes."""
        if label not in self._labels:
            self._labels.append(label)
        if listener is not None:
            self._listeners.append(listener)

    def labelled(self, label: str, namespace: str, value: str) -> Collection[PodInfo]:
        """Return the pods of a namespace whose label has a value, as the API server shows them."""
        return self._by_value.get((label, namespace, value), {}).values()

    def node_of(self, pod: PodInfo) -> str:
        """Return the node a pod is bound or assumed to, or ""."""
        return self._node_of(pod.uid)

    def upsert(self, pod: PodInfo) -> None:
        """Take in a pod as the watch shows it; one that has ended is gone."""
        if not self._labels:
            return
        old = self._pods.get(pod.uid)
        if pod.terminal:
            self.remove(pod.uid)
            return
        keys = self._keys(pod)
        if old is None and not keys:
            return
        for key in self._keys(old):
            self._drop(key, pod.uid)
        for key in keys:
            self._by_value.setdefault(key, {})[pod.uid] = pod
        if keys:
            self._pods[pod.uid] = pod
        else:
            del self._pods[pod.uid]
        for listener in self._listeners:
            listener(old, pod)

    def remove(self, uid: str) -> None:
        """Forget a pod that is gone."""
        old = self._pods.pop(uid, None)
        if old is None:
            return
        for key in self._keys(old):
            self._drop(key, uid)
        for listener in self._listeners:
            listener(old, None)

    def retain(self, uids: Collection[str]) -> None:
        """Forget the pods that a fresh list does not hold."""
        for uid in [uid for uid in self._pods if uid not in uids]:
            self.remove(uid)

    def _keys(self, pod: PodInfo | None) -> list[_Key]:
        if pod is None:
            return []
        keys = [(label, pod.namespace, pod.labels[label]) for label in self._labels if label in pod.labels]
        if pod.scheduling_group and SCHEDULING_GROUP in self._labels:
            keys.append((SCHEDULING_GROUP, pod.namespace, pod.scheduling_group))
        return keys

    def _drop(self, key: _Key, uid: str) -> None:
        pods = self._by_value[key]
        del pods[uid]
        if not pods:
            del self._by_value[key]
