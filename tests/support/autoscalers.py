"""A double of one thing that Cluster Autoscaler and Karpenter do: choosing which pods are a reason for another node.

Neither program is run: these are their rules, from their source, on pods as the API server shows them.

- Cluster Autoscaler: cluster-autoscaler/utils/kubernetes/listers.go, `isUnschedulable`, `SchedulerUnprocessedPods`;
  config/flags/flags.go, `--allowed-scheduler-names`, `--bypassed-scheduler-names`;
  core/podlistprocessor/filter_out_expendable.go (`--expendable-pods-priority-cutoff`, and nominated pods, which are put
  into the snapshot instead) and filter_out_schedulable.go.
- Karpenter: pkg/utils/pod/scheduling.go, `IsProvisionable` and what it calls.

Both then simulate. The double's simulation is smaller than theirs: requests, node selector and taints of a node, one
pod at a time. That is enough to tell pods that an existing node would take.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from devcluster.node_agent.admission import amounts, pod_requests, rejection

Json = dict[str, Any]
_EXPENDABLE_BELOW = -10


def asks_cluster_autoscaler(pod: Json, *, allowed: Collection[str] = (), bypassed: Collection[str] = ()) -> bool:
    """Tell whether a pod is a reason for a new node to Cluster Autoscaler, with these values of its flags."""
    spec, status = pod["spec"], pod.get("status") or {}
    name = spec.get("schedulerName", "")
    if spec.get("nodeName") or pod["metadata"].get("deletionTimestamp") or (allowed and name not in allowed):
        return False
    if status.get("nominatedNodeName") or (spec.get("priority") or 0) < _EXPENDABLE_BELOW:
        return False
    condition = scheduled(pod)
    if condition is None:
        return name in bypassed
    if condition["status"] != "False":
        return False
    reason = condition.get("reason", "")
    return reason == "Unschedulable" or (not reason and name in bypassed)


def asks_karpenter(pod: Json) -> bool:
    """Tell whether a pod is a reason for a new node to Karpenter. The condition's status is not looked at."""
    condition = scheduled(pod)
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences") or ()}
    return (
        condition is not None
        and condition.get("reason") == "Unschedulable"
        and not pod["spec"].get("nodeName")
        and not (pod.get("status") or {}).get("nominatedNodeName")
        and not owners & {"DaemonSet", "Node"}
    )


def asks(pod: Json) -> bool:
    """Tell whether a pod is a reason to either, with their default flags."""
    return asks_cluster_autoscaler(pod) or asks_karpenter(pod)


def fitting_nodes(pod: Json, nodes: Iterable[Json], pods: Sequence[Json]) -> list[str]:
    """Return the nodes that would take a pod, as an autoscaler simulates it: then it adds none for it."""
    return [node["metadata"]["name"] for node in nodes if _fits(pod, node, pods)]


def scheduled(pod: Json) -> Json | None:
    """The condition PodScheduled."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((condition for condition in conditions if condition["type"] == "PodScheduled"), None)


def _fits(pod: Json, node: Json, pods: Sequence[Json]) -> bool:
    spec, labels = pod["spec"], node["metadata"].get("labels") or {}
    if any(labels.get(key) != value for key, value in (spec.get("nodeSelector") or {}).items()):
        return False
    tolerations = spec.get("tolerations") or ()
    taints = [taint for taint in node["spec"].get("taints") or () if taint["effect"] != "PreferNoSchedule"]
    if any(not any(_tolerates(toleration, taint) for toleration in tolerations) for taint in taints):
        return False
    others = [
        pod_requests(other["spec"])
        for other in pods
        if other["spec"].get("nodeName") == node["metadata"]["name"]
        and other["status"].get("phase") not in ("Succeeded", "Failed")
    ]
    return rejection(spec, others, amounts(node["status"]["allocatable"])) is None


def _tolerates(toleration: Json, taint: Json) -> bool:
    return (
        toleration.get("key") in (None, "", taint["key"])
        and (toleration.get("operator") == "Exists" or toleration.get("value", "") == taint.get("value", ""))
        and toleration.get("effect") in (None, "", taint["effect"])
    )
