"""Changes of a simulated cluster, object by object, as a watch would bring them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from scheduler.framework import LoadReading, PodInfo
from scheduler.helpers import reduce_node
from scheduler.kube.model import NODES, PODS, RESOURCECLAIMTEMPLATES, DecodeError
from scheduler.state import CODEC_OF_KIND
from secondary_scheduler.balance import is_measured, lowered
from secondary_scheduler.errors import InputError
from secondary_scheduler.simulation.cluster import SimulatedCluster, pod_reducer, read_load
from secondary_scheduler.simulation.documents import Entry
from secondary_scheduler.simulation.report import InputReport, with_field

_TOO_LARGE = "holds a number that no Kubernetes object can hold"


class ChangingCluster:
    """A simulated cluster to which things happen. All objects come from an API server: they have their defaults.

    An object that cannot be used is reported; what was known of it stays as it is.
    """

    def __init__(self, cluster: SimulatedCluster, report: InputReport) -> None:
        self._cluster = cluster
        self._state = cluster.state
        self._report = report
        self._reducer = pod_reducer(cluster.minor)

    def pod(self, entry: Entry) -> PodInfo | None:
        """Return a pod as it is now; the state is not changed."""
        try:
            return self._reducer.reduce(PODS.decode(entry.data))
        except (DecodeError, OverflowError) as error:
            self._report.leave_out(entry.place, entry.kind, _reason(error))
        except ValueError as error:
            self._report.warn(f"{entry.place}, {entry.kind}: {error}; left out")
        return None

    def put(self, entry: Entry) -> bool:
        """Take in any other object; tells whether a decision may depend on what has changed."""
        try:
            if entry.kind == "Node":
                changes, _ = self._state.upsert_node(reduce_node(NODES.decode(entry.data)))
                return bool(changes)
            if entry.kind == "ResourceClaimTemplate":
                self._cluster.templates.add(RESOURCECLAIMTEMPLATES.decode(entry.data))
                return True
            codec = CODEC_OF_KIND.get(entry.kind)
            if codec is None:
                return False
            self._state.objects.upsert(entry.kind, codec.decode(entry.data))
        except (DecodeError, OverflowError) as error:
            self._report.leave_out(entry.place, entry.kind, _reason(error))
            return False
        except ValueError as error:
            self._report.warn(f"{entry.place}, {entry.kind}: {error}; left out")
            return False
        return True

    def load(self, entry: Entry) -> LoadReading | None:
        """Return a load that was measured; the state is not changed."""
        try:
            return read_load(bytes(entry.data), str(entry.place), self._report)
        except InputError as error:
            self._report.warn(f"{error}; left out")
            return None

    def remove(self, kind: str, namespace: str, name: str) -> None:
        """Drop a node or another object, but no pod."""
        if kind == "Node":
            self._state.remove_node(name)
        elif kind in CODEC_OF_KIND:
            self._state.objects.remove(kind, namespace, name)


def _reason(error: Exception) -> str:
    return with_field(error) if isinstance(error, DecodeError) else _TOO_LARGE


def without_taken_off(cluster: SimulatedCluster, load: LoadReading) -> LoadReading:
    """Return the load without an estimate of what the pods used that were taken off their nodes: their requests.

    Else each of them would count twice, where it was measured and where it is placed.
    """
    cpu: defaultdict[str, int] = defaultdict(int)
    memory: defaultdict[str, int] = defaultdict(int)
    for pod in cluster.taken_off:
        if is_measured(pod, load):
            cpu[pod.node_name] += pod.requests.get("cpu", 0)
            memory[pod.node_name] += pod.requests.get("memory", 0)
    loads = dict(load.loads)
    for name in cpu:
        node = cluster.state.node(name)
        if node is not None and name in loads:
            less_cpu = 100.0 * cpu[name] / node.capacity_cpu if node.capacity_cpu else 0.0
            less_memory = 100.0 * memory[name] / node.capacity_memory if node.capacity_memory else 0.0
            loads[name] = lowered(loads[name], less_cpu, less_memory)
    return replace(load, loads=loads)
