"""The load that plugins see where pods are placed again: without what these used where they were."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from scheduler.framework import LoadReading
from secondary_scheduler.balance import is_measured, lowered
from secondary_scheduler.simulation.cluster import SimulatedCluster


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
