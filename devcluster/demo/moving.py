"""Moves load from one node to another and watches placements follow."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from kubernetes import client as kubernetes

from devcluster.demo.workload import TAINT
from devcluster.errors import ServiceError
from devcluster.probes import wait_until

_PAUSE_SECONDS = 1.5
_BIND_SECONDS = 20.0
_CONTAINER = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "1m", "memory": "1Mi"}}}


class ChangesLoads(Protocol):
    """What `LoadClient` does."""

    def nodes(self) -> dict[str, dict[str, Any]]:
        """Every node's `cpu`, and more."""

    def change(self, node: str, change: Mapping[str, float]) -> dict[str, Any]:
        """Set a node's `cpu`."""


@dataclass(frozen=True)
class ObservedMove:
    """Where a pod that can run on either node was placed before and after, and seconds from the move to the change."""

    before: str
    after: str
    seconds: float


class LoadMove:
    """Exchanges the load of two nodes and probes where the scheduler places a pod.

    Each probe is a small pod that can run on these two nodes only. It is deleted once it is bound.
    """

    def __init__(
        self,
        core: kubernetes.CoreV1Api,
        loads: ChangesLoads,
        scheduler_name: str,
        namespace: str,
        container: Mapping[str, Any] = _CONTAINER,
    ) -> None:
        self._core, self._loads, self._container = core, loads, container
        self._scheduler_name, self._namespace = scheduler_name, namespace
        self._numbers = itertools.count(1)

    def watch(
        self, hot: str, cold: str, patience: float, waiting: Callable[[str], None] = lambda _: None
    ) -> ObservedMove:
        """Exchange the loads, wait until placements have followed, and put the loads back.

        Raises:
            ServiceError: they have not followed within `patience` seconds.
        """
        before = self.probe_placement(hot, cold)
        original = {name: float(load["cpu"]) for name, load in self._loads.nodes().items() if name in (hot, cold)}
        started = time.monotonic()
        try:
            self._loads.change(hot, {"cpu": original[cold]})
            self._loads.change(cold, {"cpu": original[hot]})
            while (after := self.probe_placement(hot, cold)) == before:
                seconds = time.monotonic() - started
                if seconds > patience:
                    raise ServiceError(f"{seconds:.0f} s after the load moved to {cold}, pods still go to {before}")
                waiting(f"{seconds:.0f} s: the averages still favour {before}")
                time.sleep(_PAUSE_SECONDS)
            return ObservedMove(before, after, time.monotonic() - started)
        finally:
            for name, cpu in original.items():
                self._loads.change(name, {"cpu": cpu})

    def probe_placement(self, *nodes: str) -> str:
        """Create a pod that can run on these nodes only, and return the node it is bound to.

        Raises:
            ServiceError: it is not bound in time.
        """
        name = f"probe-{next(self._numbers)}"
        # A field takes one name: a term for each node, of which one has to hold.
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
        spec = {
            "schedulerName": self._scheduler_name,
            "affinity": {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            },
            "tolerations": [TAINT],
            "containers": [self._container],
            "terminationGracePeriodSeconds": 0,
        }
        self._core.create_namespaced_pod(self._namespace, {"metadata": {"name": name}, "spec": spec})
        pod: Any = None

        def bound() -> bool:
            nonlocal pod
            pod = self._core.read_namespaced_pod(name, self._namespace)
            return bool(pod.spec.node_name)

        try:
            wait_until(
                bound, _BIND_SECONDS, lambda: f"pod {self._namespace}/{name} has no node after {_BIND_SECONDS:g} s"
            )
            return str(pod.spec.node_name)
        finally:
            self._core.delete_namespaced_pod(name, self._namespace, grace_period_seconds=0)
