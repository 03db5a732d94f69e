"""When an object counts as ready, kind by kind: of workloads, when the generation asked for is rolled out, as `kubectl
rollout status` sees it.

Pure, except that an `LiveObjects` fetches what belongs to an object.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from devcluster.pulumi_stand_ins.kubernetes_provider import wait_for
from devcluster.pulumi_stand_ins.kubernetes_provider.objects import (
    ANNOTATION_SKIP_AWAIT,
    ANNOTATION_WAIT_FOR,
    annotation,
    conditions,
    group_kind,
    is_annotated_true,
    metadata_of,
)
from devcluster.pulumi_stand_ins.kubernetes_provider.values import Object

_REVISION = "deployment.kubernetes.io/revision"
_HARMLESS = frozenset({"ContainerCreating", "PodInitializing"})
_MESSAGE_LIMIT = 500  # a termination message may be 4 KiB


class LiveObjects(Protocol):
    """Reading related objects; answers are empty where there are none or they may not be read."""

    def list(self, api_version: str, kind: str, namespace: str, selector: Object) -> list[Object]:
        """Objects of a namespace that a label selector (matchLabels, matchExpressions) selects."""

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Object | None:
        """One object."""

    def is_served(self, api_version: str, kind: str) -> bool:
        """Whether the API server has begun to serve a kind."""


@dataclass(frozen=True)
class Ready:
    """Nothing to wait for."""


@dataclass(frozen=True)
class Pending:
    """Not ready yet: one line for the user's display, and the reasons to report should it stay so."""

    status: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Failed:
    """It will not become ready by waiting."""

    reasons: tuple[str, ...]


State: TypeAlias = Ready | Pending | Failed

READY = Ready()


# --- workloads --------------------------------------------------------------------------------------------------------
def _deployment(obj: Object, reader: LiveObjects) -> State:
    """Ready when every replica is of this generation and available, and none of an older one is left."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not _observed(obj):
        return Pending("Waiting for the Deployment controller to see this generation")
    replicas = spec.get("replicas", 1)
    updated, total = status.get("updatedReplicas", 0), status.get("replicas", 0)
    available = status.get("availableReplicas", 0)
    if updated >= replicas and total <= updated and available >= updated:
        return READY
    reasons = problems(_newest_pods(obj, reader))
    progressing = conditions(obj).get("Progressing", {})
    if progressing.get("reason") == "ProgressDeadlineExceeded":
        return Failed((str(progressing.get("message") or "the progress deadline was exceeded"), *reasons))
    replica_failure = conditions(obj).get("ReplicaFailure", {})
    if replica_failure.get("status") == "True":
        reasons = (f"{replica_failure.get('reason')}: {replica_failure.get('message')}", *reasons)
    if total > updated and available >= replicas:
        text = f"Waiting for {total - updated} replicas of the old generation to end"
    else:
        text = f"Waiting for the rollout: {min(available, updated)} of {replicas} replicas are updated and available"
    return _pending(text, reasons)


def _stateful_set(obj: Object, reader: LiveObjects) -> State:
    """Ready when every replica is updated and ready; an OnDelete strategy only needs them ready."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not _observed(obj):
        return Pending("Waiting for the StatefulSet controller to see this generation")
    replicas, ready = spec.get("replicas", 1), status.get("readyReplicas", 0)
    strategy = spec.get("updateStrategy") or {}
    partition = (strategy.get("rollingUpdate") or {}).get("partition", 0)
    updated = (
        status.get("updatedReplicas", 0) if status.get("currentRevision") != status.get("updateRevision") else ready
    )
    if ready >= replicas and (strategy.get("type") == "OnDelete" or updated >= replicas - partition):
        return READY
    return _pending(
        f"Waiting for the rollout: {ready} of {replicas} replicas are ready", problems(_owned_pods(obj, reader))
    )


def _daemon_set(obj: Object, reader: LiveObjects) -> State:
    """Ready when every node that should run a pod runs an updated, available one."""
    status = obj.get("status") or {}
    if not _observed(obj):
        return Pending("Waiting for the DaemonSet controller to see this generation")
    desired = status.get("desiredNumberScheduled", 0)
    done = min(status.get("updatedNumberScheduled", 0), status.get("numberAvailable", 0))
    if done >= desired:
        return READY
    return _pending(
        f"Waiting for the rollout: {done} of {desired} pods are available", problems(_owned_pods(obj, reader))
    )


def _job(obj: Object, reader: LiveObjects) -> State:
    """Ready when complete; a suspended Job is not waited for."""
    by_type = conditions(obj)
    if by_type.get("Complete", {}).get("status") == "True" or (obj.get("spec") or {}).get("suspend") is True:
        return READY
    pods = problems(_owned_pods(obj, reader))
    failed = by_type.get("Failed", {})
    if failed.get("status") == "True":
        return Failed((f"the Job failed: {failed.get('reason', '')}: {failed.get('message', '')}", *pods))
    return _pending("Waiting for the Job to complete", pods)


def _pod(obj: Object, reader: LiveObjects) -> State:
    """Ready when its Ready condition holds or it has succeeded."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Succeeded" or conditions(obj).get("Ready", {}).get("status") == "True":
        return READY
    reasons = problems([obj])
    if phase == "Failed":
        return Failed(reasons or ("the pod failed",))
    waiting = next(
        (text for c in (obj.get("status") or {}).get("containerStatuses") or () if (text := _container_problem(c))),
        None,
    )
    return _pending(f"Waiting for the pod to be ready ({waiting or phase or 'Pending'})", reasons)


def _workload_problems(obj: Object, reader: LiveObjects) -> tuple[str, ...]:
    """What keeps a Deployment's newest pods from running; nothing for other kinds."""
    return problems(_newest_pods(obj, reader)) if group_kind(obj) == ("apps", "Deployment") else ()


def _observed(obj: Object) -> bool:
    observed: int = (obj.get("status") or {}).get("observedGeneration", 0)
    generation: int = metadata_of(obj).get("generation", 1)
    return observed >= generation


def _pending(text: str, reasons: tuple[str, ...]) -> Pending:
    return Pending(f"{text}; {reasons[0]}" if reasons else text, (text, *reasons))


def _selected(obj: Object, reader: LiveObjects, api_version: str, kind: str) -> list[Object]:
    selector = (obj.get("spec") or {}).get("selector")
    if not isinstance(selector, dict):
        return []
    return reader.list(api_version, kind, str(metadata_of(obj).get("namespace", "default")), selector)


def _is_owned(obj: Object, owner: Object) -> bool:
    references = metadata_of(obj).get("ownerReferences") or ()
    return any(reference.get("uid") == metadata_of(owner).get("uid") for reference in references)


def _owned_pods(obj: Object, reader: LiveObjects) -> list[Object]:
    return [pod_object for pod_object in _selected(obj, reader, "v1", "Pod") if _is_owned(pod_object, obj)]


def _newest_pods(obj: Object, reader: LiveObjects) -> list[Object]:
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
            line = _container_problem(container)
            if line:
                yield f"Pod {name}: {line}"
    if status.get("phase") == "Failed" and status.get("message"):
        yield f"Pod {name}: {status.get('reason', 'Failed')}: {status['message']}"


def _container_problem(container: Object) -> str | None:
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


# --- the other kinds that are waited for ------------------------------------------------------------------------------
def _custom_resource_definition(obj: Object, reader: LiveObjects) -> State:
    """Ready when established and served: a custom resource made next must find its kind."""
    by_type = conditions(obj)
    refused = by_type.get("NamesAccepted", {})
    if refused.get("status") == "False":
        return Failed((f"its names were not accepted: {refused.get('reason')}: {refused.get('message')}",))
    if by_type.get("Established", {}).get("status") != "True":
        return Pending("Waiting for the CustomResourceDefinition to be established")
    spec = obj.get("spec") or {}
    kind, group = (spec.get("names") or {}).get("kind", ""), spec.get("group", "")
    for version in spec.get("versions") or ():
        if version.get("served") and not reader.is_served(f"{group}/{version['name']}", kind):
            return Pending(f"Waiting for the API server to serve {group}/{version['name']} {kind}")
    return READY


def _persistent_volume_claim(obj: Object, reader: LiveObjects) -> State:
    """Ready when bound; a claim whose class binds for its first pod is not waited for."""
    phase = (obj.get("status") or {}).get("phase")
    if phase == "Bound":
        return READY
    if phase == "Lost":
        return Failed(("its volume is lost",))
    name = (obj.get("spec") or {}).get("storageClassName")
    if name:
        storage_class = reader.get("storage.k8s.io/v1", "StorageClass", "", str(name))
        if storage_class and storage_class.get("volumeBindingMode") == "WaitForFirstConsumer":
            return READY
    return Pending("Waiting for the claim to be bound")


def _service(obj: Object, reader: LiveObjects) -> State:
    """Ready when it has an address behind it: of the load balancer, or of a ready pod that it selects."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kind = spec.get("type", "ClusterIP")
    if kind == "LoadBalancer" and not (status.get("loadBalancer") or {}).get("ingress"):
        return Pending("Waiting for the load balancer's address")
    if kind == "ExternalName" or spec.get("clusterIP") == "None" or not spec.get("selector"):
        return READY
    metadata = metadata_of(obj)
    selector = {"matchLabels": {"kubernetes.io/service-name": metadata["name"]}}
    slices = reader.list("discovery.k8s.io/v1", "EndpointSlice", str(metadata.get("namespace", "default")), selector)
    endpoints = [endpoint for slice_ in slices for endpoint in slice_.get("endpoints") or ()]
    if any((endpoint.get("conditions") or {}).get("ready") is not False for endpoint in endpoints):
        return READY
    text = (
        "Waiting for a ready pod that the Service selects; selected pods may not be ready, or none match .spec.selector"
    )
    return Pending(text, (text,))


def _secret(obj: Object, reader: LiveObjects) -> State:
    """Ready at once, except that a ServiceAccount token must have been filled in."""
    if obj.get("type") == "kubernetes.io/service-account-token" and not (obj.get("data") or {}).get("token"):
        account = annotation(obj, "kubernetes.io/service-account.name")
        return Pending(f"Waiting for the token of ServiceAccount {account}")
    return READY


_BY_KIND: Mapping[tuple[str, str], Callable[[Object, LiveObjects], State]] = {
    ("apps", "Deployment"): _deployment,
    ("apps", "StatefulSet"): _stateful_set,
    ("apps", "DaemonSet"): _daemon_set,
    ("batch", "Job"): _job,
    ("", "Pod"): _pod,
    ("", "PersistentVolumeClaim"): _persistent_volume_claim,
    ("", "Service"): _service,
    ("", "Secret"): _secret,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _custom_resource_definition,
}


def readiness(obj: Object, reader: LiveObjects) -> State:
    """The state of a live object. `pulumi.com/skipAwait` and `pulumi.com/waitFor` go before the kind's own rule;
    kinds without a rule, custom resources among them, are ready once they exist."""
    if is_annotated_true(obj, ANNOTATION_SKIP_AWAIT):
        return READY
    expression = annotation(obj, ANNOTATION_WAIT_FOR)
    if expression is not None:
        missing = [
            text for condition in wait_for.parse(expression) if (text := condition.pending_reason(obj)) is not None
        ]
        return Pending(missing[0], (*missing, *_workload_problems(obj, reader))) if missing else READY
    rule = _BY_KIND.get(group_kind(obj))
    return rule(obj, reader) if rule is not None else READY
