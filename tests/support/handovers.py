"""Pods across a change of the scheduler or of its operator: those that arrive meanwhile, and one that is nominated."""

from __future__ import annotations

import itertools
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from kubernetes import client as kubernetes

from devcluster.demo.workload import TAINT
from tests.support.live_stack import NAME, NAMESPACE, Live
from tests.support.waiting import eventually

_ARRIVAL_SECONDS = 0.5
_LONG_WAIT_SECONDS = 5.0
_HIGH = "nominated"
_GRACE_SECONDS = 3600


@dataclass
class Arrivals:
    """Pods that arrive until they are stopped, and when each was seen with a node.

    Attributes:
        created, bound: by name, in seconds of the monotonic clock.
    """

    live: Live
    prefix: str
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> Arrivals:
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(_ARRIVAL_SECONDS):
            name = f"{self.prefix}-{len(self.created)}"
            create(self.live, name, {"arrivals": self.prefix})
            self.created[name] = time.monotonic()
            self.look()

    def look(self) -> bool:
        """Note which pods have a node; returns whether all have."""
        pods = self.live.core.list_namespaced_pod("default", label_selector=f"arrivals={self.prefix}").items
        now = time.monotonic()
        for pod in pods:
            if pod.spec.node_name:
                self.bound.setdefault(pod.metadata.name, now)
        return set(self.bound) == set(self.created)

    def cost(self) -> str:
        """The longest time without a placement, and how many pods waited long."""
        times = sorted(self.bound.values())
        gap = max((later - earlier for earlier, later in itertools.pairwise(times)), default=0.0)
        waits = [self.bound[name] - self.created[name] for name in self.created]
        late = sum(wait > _LONG_WAIT_SECONDS for wait in waits)
        return (
            f"{self.prefix}: {gap:.1f} s without a placement, {late} of {len(waits)} pods waited longer than "
            f"{_LONG_WAIT_SECONDS:.0f} s, {max(waits):.1f} s at most"
        )


def create(live: Live, name: str, labels: dict[str, str], cpu: str = "10m") -> None:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    spec = {
        "schedulerName": NAME,
        "nodeSelector": {"type": "kwok"},
        "tolerations": [TAINT],
        "containers": [container],
    }
    live.core.create_namespaced_pod("default", {"metadata": {"name": name, "labels": labels}, "spec": spec})


def node_of(live: Live, name: str) -> str:
    return live.core.read_namespaced_pod(name, "default").spec.node_name or ""


class Nomination:
    """A pod that is nominated to a node, whose victim takes its time to go.

    Two nodes of nobody's kubelet, each filled by a pod of lower priority: the one that is preempted stays until it is
    removed by hand, and the other one is to be spared.
    """

    def __init__(self, live: Live, prefix: str) -> None:
        self._live, self._prefix = live, prefix
        self._name = f"{prefix}-nominated"
        self._nodes = [f"{prefix}-node-{number}" for number in range(2)]
        self._label = {"nominations": prefix}
        self._create_class()
        for node in self._nodes:
            self._create_node(node)
            self._create_pod(f"on-{node}", {"kubernetes.io/hostname": node})
        eventually(lambda: all(node_of(live, f"on-{node}") for node in self._nodes), "both nodes are full")
        self._create_pod(self._name, self._label, _HIGH)
        self.node = eventually(self._nominated, "a pod is nominated")

    def _create_class(self) -> None:
        scheduling = kubernetes.SchedulingV1Api(self._live.core.api_client)
        if _HIGH not in {item.metadata.name for item in scheduling.list_priority_class().items}:
            scheduling.create_priority_class({"metadata": {"name": _HIGH}, "value": 1000})

    def _create_node(self, name: str) -> None:
        labels = {**self._label, "kubernetes.io/hostname": name}
        # Nobody else's pod may go where no kubelet is.
        taints = [{"key": "nominations", "effect": "NoSchedule"}]
        self._live.core.create_node({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})
        amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}
        status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        self._live.core.patch_node_status(name, {"status": status})

    def _create_pod(self, name: str, selector: dict[str, str], priority_class: str = "") -> None:
        container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "800m"}}}
        spec = {
            "schedulerName": NAME,
            "nodeSelector": selector,
            "tolerations": [{"operator": "Exists"}],
            "containers": [container],
            "priorityClassName": priority_class,
            "terminationGracePeriodSeconds": _GRACE_SECONDS,
        }
        metadata = {"name": name, "labels": self._label}

        def created() -> bool:
            # Admission reads PriorityClasses from a cache.
            try:
                self._live.core.create_namespaced_pod("default", {"metadata": metadata, "spec": spec})
            except kubernetes.ApiException as error:
                if error.status != 403:
                    raise
                return False
            return True

        eventually(created, f"{name} is admitted")

    def _nominated(self) -> str:
        return self._live.core.read_namespaced_pod(self._name, "default").status.nominated_node_name or ""

    def is_kept_to(self) -> None:
        """The pod gets the node that it was nominated to once its victim is gone, and no other pod has to go for it."""
        assert not node_of(self._live, self._name), "its victim is still there"
        # Of the same size, and it came later: the room is not its.
        self._create_pod(f"{self._prefix}-later", self._label)
        self._live.core.delete_namespaced_pod(f"on-{self.node}", "default", grace_period_seconds=0)
        eventually(lambda: node_of(self._live, self._name), "the nominated pod is placed")
        assert node_of(self._live, self._name) == self.node
        (other,) = (node for node in self._nodes if node != self.node)
        spared = self._live.core.read_namespaced_pod(f"on-{other}", "default")
        assert spared.metadata.deletion_timestamp is None
        assert not node_of(self._live, f"{self._prefix}-later")
        self._end()

    def _end(self) -> None:
        pods = self._live.core.list_namespaced_pod("default", label_selector=f"nominations={self._prefix}").items
        for pod in pods:
            self._live.core.delete_namespaced_pod(pod.metadata.name, "default", grace_period_seconds=0)
        for node in self._nodes:
            self._live.core.delete_node(node)


def lease_holder(live: Live, name: str) -> str:
    """The identity of who holds a Lease of the stack's namespace; "" for nobody."""
    lease: Any = kubernetes.CoordinationV1Api(live.core.api_client).read_namespaced_lease(name, NAMESPACE)
    return str(lease.spec.holder_identity or "")


def leading_pod(live: Live) -> str:
    """The pod that holds the scheduler's Lease."""
    return lease_holder(live, NAME).rpartition("_")[0]
