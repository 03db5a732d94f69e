"""Objects of a snapshot that have no effect where a reader would expect one; a line for each kind of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from scheduler.framework import PodInfo
from scheduler.kube.model import POD_GROUP_LABEL

OLD_GROUP = "scheduling.sigs.k8s.io"
NEW_GROUP = "scheduling.x-k8s.io"
_OLD_LABEL = f"pod-group.{OLD_GROUP}"
WORKLOADS = {
    "Deployment": "apps",
    "ReplicaSet": "apps",
    "StatefulSet": "apps",
    "DaemonSet": "apps",
    "Job": "batch",
    "CronJob": "batch",
    "ReplicationController": "",
}
"""API group by kind of what controllers make pods of."""
_MOST_NAMED = 5


def of_objects(old: Sequence[str], workloads: Sequence[str]) -> Iterator[str]:
    """Yield what is to be said of objects of the old group, and of workloads that no cluster has made."""
    if old:
        yield (
            f"not read: {_named(old)} of the group {OLD_GROUP}, which scheduler-plugins calls {NEW_GROUP} since 0.25; "
            f"write apiVersion: {NEW_GROUP}/v1alpha1"
        )
    if workloads:
        yield f"{_named(workloads)}: {no_pods_of(workloads)}"


def no_pods_of(workloads: Collection[str]) -> str:
    """Return why manifests of workloads give no pods, and how to get some."""
    makes = "a workload makes" if len(workloads) == 1 else "workloads make"
    return (
        f"{makes} no pods here, as no controller runs: give the Pods, with spec.template as metadata and spec, or "
        "those of a cluster that runs it (kubectl get pods -o yaml)"
    )


def of_labels(pods: Iterable[PodInfo]) -> Iterator[str]:
    """Yield what is to be said of pods with the old label of PodGroups."""
    names = [
        f"{pod.namespace}/{pod.name}" for pod in pods if _OLD_LABEL in pod.labels and POD_GROUP_LABEL not in pod.labels
    ]
    if names:
        belongs = "belongs" if len(names) == 1 else "belong"
        yield (
            f"{_named(names)} {belongs} to no PodGroup: the label {_OLD_LABEL} is called {POD_GROUP_LABEL} since "
            "scheduler-plugins 0.25; write that"
        )


def _named(names: Sequence[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
