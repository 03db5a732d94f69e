"""Readiness of workloads: that the generation asked for is rolled out, as `kubectl rollout status` sees it."""

from collections.abc import Iterable, Iterator

from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    conditions,
    group_kind,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.readiness.states import (
    READY,
    ClusterReader,
    Failed,
    Pending,
    State,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

_REVISION = "deployment.kubernetes.io/revision"
_HARMLESS = frozenset({"ContainerCreating", "PodInitializing"})
_MESSAGE_LIMIT = 500  # a termination message may be 4 KiB


def deployment(obj: Object, reader: ClusterReader) -> State:
    """Ready when every replica is of this generation and available, and none of an older one is left."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not _observed(obj):
        return Pending("Waiting for the Deployment controller to see this generation")
    wanted = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    if updated >= wanted and total <= updated and available >= updated:
        return READY
    reasons = problems(_newest_pods(obj, reader))
    progressing = conditions(obj).get("Progressing", {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Failed((str(progressing.get("message") or "the progress deadline was exceeded"), *reasons))
    replica_failure = conditions(obj).get("ReplicaFailure", {})
    if replica_failure.get("status") == "True":
        reasons = (f"{replica_failure.get('reason')}: {replica_failure.get('message')}", *reasons)
    if total > updated and available >= wanted:
        text = f"Waiting for {total - updated} replicas of the old generation to end"
    else:
        text = f"Waiting for the rollout: {min(available, updated)} of {wanted} replicas are updated and available"
    return _pending(text, reasons)


def stateful_set(obj: Object, reader: ClusterReader) -> State:
    """Ready when every replica is updated and ready; an OnDelete strategy only needs them ready."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not _observed(obj):
        return Pending("Waiting for the StatefulSet controller to see this generation")
    wanted, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    strategy = spec.get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    updated = (
        status.get("updatedReplicas", 0) if status.get("currentRevision") != status.get("updateRevision") else ready
    )
    if ready >= wanted and (strategy.get("type") == "OnDelete" or updated >= wanted - partition):
        return READY
    return _pending(
        f"Waiting for the rollout: {ready} of {wanted} replicas are ready", problems(_owned_pods(obj, reader))
    )


def daemon_set(obj: Object, reader: ClusterReader) -> State:
    """Ready when every node that should run a pod runs an updated, available one."""
    status = obj.get("status") or {}
    if not _observed(obj):
        return Pending("Waiting for the DaemonSet controller to see this generation")
    wanted = status.get("desiredNumberScheduled", 0)
    done = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
    if done >= wanted:
        return READY
    return _pending(
        f"Waiting for the rollout: {done} of {wanted} pods are available", problems(_owned_pods(obj, reader))
    )


def job(obj: Object, reader: ClusterReader) -> State:
    """Ready when complete; a suspended Job is not waited for."""
    by_type = conditions(obj)
    if by_type.get("Complete", {}).get("status") == "True" or (obj.get("spec") or {}).get("suspend") is True:
        return READY
    pods = problems(_owned_pods(obj, reader))
    failed = by_type.get("Failed", {})
    if failed.get("status") == "True":
        return Failed((f"the Job failed: {failed.get('reason', '')}: {failed.get('message', '')}", *pods))
    return _pending("Waiting for the Job to complete", pods)


def pod(obj: Object, reader: ClusterReader) -> State:
    """Ready when its Ready condition holds or it has succeeded."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded" or conditions(obj).get("Ready", {}).get("status") == "True":
        return READY
    reasons = problems([obj])
    if phase == "Failed":
        return Failed(reasons or ("the pod failed",))
    waiting = next(
        (text for c in (obj.get("status") or {}).get("containerStatuses") or () if (text := container_problem(c))), None
    )
    return _pending(f"Waiting for the pod to be ready ({waiting or phase or 'Pending'})", reasons)


def workload_problems(obj: Object, reader: ClusterReader) -> tuple[str, ...]:
    """What keeps a Deployment's newest pods from running; nothing for other kinds."""
    return problems(_newest_pods(obj, reader)) if group_kind(obj) == ("apps", "Deployment") else ()


def _observed(obj: Object) -> bool:
    observed: int = (obj.get("status") or {}).get("observedGeneration", 0)
    generation: int = metadata_of(obj).get("generation", 1)
    return observed >= generation


def _pending(text: str, reasons: tuple[str, ...]) -> Pending:
    return Pending(f"{text}; {reasons[0]}" if reasons else text, (text, *reasons))


def _selected(obj: Object, reader: ClusterReader, api_version: str, kind: str) -> list[Object]:
    selector = (obj.get("spec") or {}).get("selector")
    if not isinstance(selector, dict):
        return []
    return reader.list(api_version, kind, str(metadata_of(obj).get("namespace", "default")), selector)


def _is_owned(obj: Object, owner: Object) -> bool:
    references = metadata_of(obj).get("ownerReferences") or ()
    return any(reference.get("uid") == metadata_of(owner).get("uid") for reference in references)


def _owned_pods(obj: Object, reader: ClusterReader) -> list[Object]:
    return [pod_object for pod_object in _selected(obj, reader, "v1", "Pod") if _is_owned(pod_object, obj)]


def _newest_pods(obj: Object, reader: ClusterReader) -> list[Object]:
    """Pods of the newest ReplicaSet: older ones may be broken, which is why they are being replaced."""
    sets = [
        replica_set for replica_set in _selected(obj, reader, "apps/v1", "ReplicaSet") if _is_owned(replica_set, obj)
    ]
    if not sets:
        return []
    newest = max(
        sets, key=lambda replica_set: int((metadata_of(replica_set).get("annotations") or {}).get(_REVISION, 0))
    )
    return [pod_object for pod_object in _selected(obj, reader, "v1", "Pod") if _is_owned(pod_object, newest)]


def problems(pods: Iterable[Object]) -> tuple[str, ...]:
    """One line per container that cannot start or keeps ending, and per pod that cannot be scheduled; no line twice."""
    return tuple(dict.fromkeys(line for pod in pods for line in _pod_problems(pod)))


def _pod_problems(pod: Object) -> Iterator[str]:
    name = metadata_of(pod).get("name", "?")
    status = pod.get("status") or {}
    scheduled = conditions(pod).get("PodScheduled", {})
    if scheduled.get("status") == "False":
        yield f"Pod {name}: {scheduled.get('reason', 'not scheduled')}: {scheduled.get('message', '')}".rstrip(": ")
    for group in ("initContainerStatuses", "containerStatuses"):
        for container in status.get(group) or ():
            line = container_problem(container)
            if line:
                yield f"Pod {name}: {line}"
    if status.get("phase") == "Failed" and status.get("message"):
        yield f"Pod {name}: {status.get('reason', 'Failed')}: {status['message']}"


def container_problem(container: Object) -> str | None:
    """Why a container does not run, with how it ended last; None while nothing is wrong."""
    state = container.get("state") or {}
    waiting = state.get("waiting") or {}
    ended = state.get("terminated") or (container.get("lastState") or {}).get("terminated") or {}
    parts = []
    if waiting and waiting.get("reason") not in _HARMLESS:
        parts.append(": ".join(str(waiting[key]) for key in ("reason", "message") if waiting.get(key)))
    if ended and (parts or ended.get("exitCode") != 0):
        text = f"last exit code {ended.get('exitCode')}"
        ending = ": ".join(str(ended[key]).strip() for key in ("reason", "message") if ended.get(key))
        parts.append(f"{text} ({ending[:_MESSAGE_LIMIT]})" if ending else text)
    return f'container "{container.get("name")}": {"; ".join(parts)}' if parts else None
