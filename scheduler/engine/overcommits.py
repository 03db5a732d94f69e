"""Nodes whose pods request more than is allocatable, how they came to, and what kubelets made of it.

Our own decisions never over-commit a node of the cache. A second scheduler does, as neither sees what the other decided
a moment ago; so does whoever creates pods with `spec.nodeName`. The kubelet then rejects a pod that was bound last
(`OutOfcpu`), or, where nothing does, the pods share what is there.

Nothing runs per attempt. Each pod that the watch shows on a node for the first time costs a comparison per resource
that it requests; the nodes are compared when somebody asks, all of them in some microseconds per resource.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterator, Mapping

import numpy as np
from msgspec import Struct

from scheduler.framework import Clocks, MonotonicSeconds, PodInfo
from scheduler.helpers import DoubleAllocations, ExtendedResources, KubeletRejections, may_be_devices
from scheduler.observe import Metrics
from scheduler.state import ClusterState

REJECTIONS = frozenset({"OutOfcpu", "OutOfmemory", "OutOfpods", "OutOfephemeral-storage"})
"""Reasons of a failed pod for which the kubelet had no room (pkg/kubelet/lifecycle/predicate.go, admit); that of an
extended resource is counted as `OutOf`, as anybody may make up names of such."""
_OTHER_REJECTION = "OutOf"
_NAMED_RESOURCES = ("cpu", "memory", "ephemeral-storage", "pods")
_OWN, _OTHER = "own", "other"
_NODES_NAMED = 3
_RECENT_SECONDS = 600.0
_REJECTIONS_REMEMBERED = 1000


class OvercommitReport(Struct, frozen=True):
    """What the operator and the log are told.

    Attributes:
        overcommitted: whether there is something to report.
        message: what, in one line; "" where there is nothing.
    """

    overcommitted: bool
    message: str = ""


class Overcommits:
    """Counts over-commits. All methods run on the event loop's thread.

    Args:
        state: the cache.
        scheduler_names: whose pods are ours.
        metrics: where over-commits and rejections are counted.
        clocks: for what is recent.
    """

    def __init__(
        self,
        state: ClusterState,
        *,
        scheduler_names: Container[str],
        metrics: Metrics,
        clocks: Clocks,
    ) -> None:
        self._state = state
        self._scheduler_names = scheduler_names
        self._metrics = metrics
        self._clocks = clocks
        self._before: frozenset[str] = frozenset()
        self._rejections: deque[tuple[MonotonicSeconds, str]] = deque(maxlen=_REJECTIONS_REMEMBERED)
        # `increase` does not see the first rejection of a series that begins with it.
        for reason in (*REJECTIONS, _OTHER_REJECTION):
            for scheduler in (_OWN, _OTHER):
                metrics.kubelet_rejections.labels(reason, scheduler)

    # What the watch shows -------------------------------------------------------------------------------------------

    def pod_bound(self, pod: PodInfo) -> None:
        """Count a pod that has just appeared on its node, where that has no room for it.

        The watch shows Bindings in the order in which the API server took them. So the pod that makes the node too full
        is the one whose Binding came too late, and its scheduler is the one that decided on an old state. Pods whose
        Bindings of ours are under way do not count: they come later, or never.
        """
        row = self._state.table.row_of.get(pod.node_name)
        if row is None:
            return
        table = self._state.table
        exceeded = [
            name
            for name, request in pod.requests.items()
            if request > 0 and (amounts := table.amounts.get(name)) and amounts.sums[row] > amounts.allocatable[row]
        ]
        if table.pods.sums[row] > table.pods.allocatable[row]:
            exceeded.append("pods")
        if not exceeded:
            return
        assumed = self._assumed_on(pod.node_name)
        scheduler = self._scheduler_of(pod)
        for label in {_label(name) for name in exceeded if self._exceeds(name, row, assumed)}:
            self._metrics.overcommits.labels(label, scheduler).inc()

    def pod_ended(self, pod: PodInfo) -> None:
        """Count a pod that its kubelet rejected for want of room; only pods of ours are reported."""
        if not pod.reason.startswith("OutOf"):
            return
        self._state.objects.derived(KubeletRejections).note(pod.node_name, pod.reason, self._clocks.monotonic())
        reason = pod.reason if pod.reason in REJECTIONS else _OTHER_REJECTION
        scheduler = self._scheduler_of(pod)
        self._metrics.kubelet_rejections.labels(reason, scheduler).inc()
        if scheduler == _OWN:
            self._rejections.append((self._clocks.monotonic(), reason))

    # What is asked for ----------------------------------------------------------------------------------------------

    def nodes(self) -> Mapping[str, tuple[str, ...]]:
        """Return the over-committed nodes, each with the resources of which its bound pods request too much."""
        resources: dict[str, list[str]] = {}
        infos = self._state.table.infos
        for name, row in self._candidates():
            info = infos[row]
            if info is not None and self._exceeds(name, row, self._assumed_on(info.name)):
                resources.setdefault(info.name, []).append(name)
        return {node: tuple(names) for node, names in resources.items()}

    def show(self) -> None:
        """Bring the gauge up to date."""
        counts = Counter(label for names in self.nodes().values() for label in {_label(name) for name in names})
        for label in (*_NAMED_RESOURCES, _OTHER):
            self._metrics.overcommitted_nodes.labels(label).set(counts[label])

    def report(self) -> OvercommitReport:
        """Return what is to be reported now; call it at an interval.

        A node is reported from the second time in a row: kubelets end what they reject within moments, and that shows
        as a rejection. Rejections are reported for ten minutes.
        """
        nodes = self.nodes()
        lasting = sorted(self._before & nodes.keys())
        self._before = frozenset(nodes)
        parts = []
        if lasting:
            named = ", ".join(f"{node} ({', '.join(nodes[node][:4])})" for node in lasting[:_NODES_NAMED])
            more = f" and {len(lasting) - _NODES_NAMED} more" if len(lasting) > _NODES_NAMED else ""
            parts.append(f"pods request more than is allocatable on {named}{more}")
        if devices := sorted(self._state.objects.derived(DoubleAllocations).devices):
            more = f" and {len(devices) - _NODES_NAMED} more" if len(devices) > _NODES_NAMED else ""
            parts.append(f"two claims have the device {', '.join(devices[:_NODES_NAMED])}{more}")
        now = self._clocks.monotonic()
        while self._rejections and now - self._rejections[0][0] > _RECENT_SECONDS:
            self._rejections.popleft()
        if self._rejections:
            reasons = ", ".join(sorted({reason for _, reason in self._rejections}))
            parts.append(f"in the last 10 minutes kubelets rejected {len(self._rejections)} pods of ours ({reasons})")
        if not parts:
            return OvercommitReport(overcommitted=False)
        return OvercommitReport(True, f"{'; '.join(parts)}: does another scheduler place pods on these nodes?")

    # Internals ------------------------------------------------------------------------------------------------------

    def _scheduler_of(self, pod: PodInfo) -> str:
        return _OWN if pod.scheduler_name in self._scheduler_names else _OTHER

    def _candidates(self) -> Iterator[tuple[str, int]]:
        """Yield resource and row where the sums, assumed pods included, exceed what is allocatable."""
        table = self._state.table
        for name, amounts in [*table.amounts.items(), ("pods", table.pods)]:
            exceeding = amounts.requested[: table.size] > amounts.allocatable[: table.size]
            for row in np.flatnonzero(exceeding).tolist():
                yield name, row

    def _exceeds(self, name: str, row: int, assumed: list[PodInfo]) -> bool:
        """Tell whether the pods of a row exceed what is allocatable without the assumed ones."""
        table = self._state.table
        amounts = table.pods if name == "pods" else table.amounts[name]
        if name == "pods" and not amounts.allocatable[row]:
            # A node that is closed because a pod on it cannot be read: no kubelet has room for no pod at all.
            return False
        if not amounts.allocatable[row] and may_be_devices(name):
            # Devices of a class, which their claims account for.
            extended_resources = self._state.objects.derived(ExtendedResources)
            if extended_resources.class_of(name) is not None:
                return False
        not_bound = len(assumed) if name == "pods" else sum(pod.requests.get(name, 0) for pod in assumed)
        return bool(amounts.sums[row] - not_bound > amounts.allocatable[row])

    def _assumed_on(self, node: str) -> list[PodInfo]:
        return [pod for pod in self._state.pods_on(node) if self._state.is_assumed(pod.uid)]


def _label(resource: str) -> str:
    return resource if resource in _NAMED_RESOURCES else _OTHER
