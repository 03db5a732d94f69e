"""Another state with the same content: a simulation changes the one that it decides on."""

from __future__ import annotations

from dataclasses import replace

from scheduler.state import WATCHED_KINDS, ClusterState
from secondary_scheduler.simulation.cluster import SimulatedCluster


def copy_cluster(cluster: SimulatedCluster) -> SimulatedCluster:
    """Return a cluster with a state of its own that holds what the files held, as `build_cluster` left it.

    Nodes, pods and objects are shared, as they never change; columns and sums are built again. It takes a fifth of the
    time that reading takes. Call it before anything was decided on the cluster's own state.
    """
    source, state = cluster.state, ClusterState()
    for watched in WATCHED_KINDS.values():
        for item in source.objects.every(watched.kind):
            state.objects.upsert(watched.kind, item)
    for name in source.node_names:
        if (node := source.node(name)) is not None:
            state.upsert_node(node)
    for pod in source.pods():
        state.upsert_pod(pod, observed_at=pod.assigned_at)
    for pod in cluster.pending:
        if pod.nominated_node:
            state.nominator.set(pod, pod.nominated_node)
    return replace(cluster, state=state, templates=cluster.templates.copy())
