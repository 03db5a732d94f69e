"""From API objects to `PodInfo` and `NodeInfo`: done once per object version, on arrival."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import blake2b
from sys import intern
from weakref import WeakValueDictionary

import msgspec

from scheduler.catalog import DEFAULT_KUBERNETES, KubernetesVersion
from scheduler.framework import (
    NO_SECCOMP_PATHS,
    HostPort,
    NodeInfo,
    PodInfo,
    Resources,
    SeccompPaths,
    SpecInfo,
    pod_terms,
)
from scheduler.helpers.annotations import peer_annotations
from scheduler.helpers.holding import holds, is_attachable
from scheduler.helpers.qos import qos_class
from scheduler.helpers.resources import container_resources, pod_level_resources
from scheduler.kube.model import (
    POD_GROUP_LABEL,
    Affinity,
    LabelSelector,
    Node,
    NodeSelectorTerm,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodCondition,
    PodSpec,
    ResourceList,
    SecurityContext,
    Volume,
    is_scalar_resource,
    parse_resources,
    pod_limits,
    pod_requests,
    runs_as_specified,
)
from scheduler.kube.primitives import (
    CompiledNodeSelector,
    RequirementLike,
    SelectorError,
    TimestampError,
    WeightedTerm,
    epoch_seconds,
    preferred_terms,
    quantity_milli_value,
    quantity_value,
    selector_from_set,
)

_LOCALHOST = "Localhost"
_GROUP_LENGTH = 300
_ANNOTATION = "seccomp.security.alpha.kubernetes.io"
"""Part of the keys under which the security-profiles-operator notes profiles."""
_FEW_RESOURCES = 32
"""What of more resources is allocatable is not remembered, as whoever may write a node chooses their number."""
_Amounts = tuple[tuple[str, str | int | float], ...]
_Visible = tuple[object, ...]
_READY = PodCondition(type="Ready", status="True")
_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


class PodReducer:
    """Reduces pods, giving pods of one class (equal in everything a filter or score sees, labels apart) one
    `SpecInfo`."""

    def __init__(self, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> None:
        """`kubernetes` is the version of kube-scheduler by which pods that are resized occupy their nodes."""
        self._kubernetes = kubernetes
        self._specs: WeakValueDictionary[bytes, SpecInfo] = WeakValueDictionary()
        self._latest: tuple[_Visible, SpecInfo] | None = None

    def reduce(self, pod: Pod) -> PodInfo:
        """Return the reduced pod.

        Raises:
            ValueError: something in the pod cannot be read, such as a quantity; the text says what.
        """
        visible = _visible(pod)
        # Pods of one class often come together, and to compare takes a third of the time of a digest.
        if self._latest is None or visible != self._latest[0]:
            self._latest = visible, self._spec_of(pod, _digest(visible))
        return _pod_info(pod, self._latest[1], self._kubernetes)

    def _spec_of(self, pod: Pod, key: bytes) -> SpecInfo:
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = _spec_info(pod, key)
        return spec


def reduce_pod(pod: Pod, kubernetes: KubernetesVersion = DEFAULT_KUBERNETES) -> PodInfo:
    """Return one reduced pod, sharing nothing."""
    return _pod_info(pod, _spec_info(pod, class_key(pod)), kubernetes)


def class_key(pod: Pod) -> bytes:
    """Return a digest of everything that filters and scores see of a pod, except its labels.

    Raises:
        ValueError: a number in the pod is beyond 64 bits.
    """
    return _digest(_visible(pod))


def _visible(pod: Pod) -> _Visible:
    spec = pod.spec
    return (
        pod.metadata.namespace,
        spec.node_selector,
        spec.affinity,
        spec.tolerations,
        spec.containers,
        spec.init_containers,
        spec.resources,
        spec.overhead,
        spec.topology_spread_constraints,
        spec.scheduling_gates,
        _volumes(pod),
        spec.resource_claims,
        spec.preemption_policy,
        _seccomp_paths(pod),
        spec.host_network and spec.host_users is False,
    )


def _digest(visible: _Visible) -> bytes:
    try:
        encoded = _ENCODER.encode(visible)
    except OverflowError as error:
        raise ValueError("a number in the pod is beyond 64 bits") from error
    return blake2b(encoded, digest_size=16).digest()


def _volumes(pod: Pod) -> tuple[Volume, ...]:
    """Return the volumes with a source that some plugin reads.

    Others would give every pod a class of its own: the API server adds a token volume with a name made up per pod.
    """
    return tuple([volume for volume in pod.spec.volumes if volume != Volume(name=volume.name)])


def _spec_info(pod: Pod, key: bytes) -> SpecInfo:
    spec = pod.spec
    volumes = _volumes(pod)
    requests = pod_requests(pod)
    required: CompiledNodeSelector | None = None
    preferred: tuple[WeightedTerm, ...] = ()
    preferred_error = ""
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    if affinity is not None:
        if affinity.required_during_scheduling_ignored_during_execution is not None:
            required = affinity.required_during_scheduling_ignored_during_execution.compiled
        try:
            preferred = preferred_terms(affinity.preferred_during_scheduling_ignored_during_execution)
        except SelectorError as error:
            preferred_error = str(error)
    # Ports of ordinary init containers are free again before the pod runs.
    long_running = (
        *spec.containers,
        *(container for container in spec.init_containers if container.restart_policy == "Always"),
    )
    host_ports = tuple(
        HostPort(port.protocol or "TCP", port.host_ip, port.host_port)
        for container in long_running
        for port in container.ports
        if port.host_port > 0
    )
    return SpecInfo(
        class_key=key,
        requests=requests.requests,
        score_requests=requests.score_requests,
        nonzero_cpu=requests.nonzero_cpu,
        nonzero_memory=requests.nonzero_memory,
        tolerations=spec.tolerations,
        node_selector=selector_from_set(spec.node_selector),
        required=required,
        preferred=preferred,
        preferred_error=preferred_error,
        affinity=spec.affinity,
        topology_spread=spec.topology_spread_constraints,
        host_ports=host_ports,
        images=tuple(normalized_image(container.image) for container in (*spec.init_containers, *spec.containers)),
        gates=tuple(gate.name for gate in spec.scheduling_gates),
        volumes=volumes,
        claims=spec.resource_claims,
        preemption_policy=spec.preemption_policy or "PreemptLowerPriority",
        terms=pod_terms(spec.affinity, pod.metadata.namespace),
        holds=holds(pod.metadata.namespace, host_ports, volumes),
        attachable=sum(map(is_attachable, volumes)),
        containers=container_resources(pod),
        pod_level=pod_level_resources(pod),
        overhead=parse_resources(spec.overhead),
        limits=pod_limits(pod),
        qos=qos_class(pod),
        seccomp=_seccomp_paths(pod),
        parts=parts(spec),
        image_volumes=tuple(normalized_image(volume.image.reference) for volume in volumes if volume.image is not None),
        features=needed_features(spec),
        namespace=pod.metadata.namespace,
    )


def _pod_info(pod: Pod, spec: SpecInfo, kubernetes: KubernetesVersion) -> PodInfo:
    meta, status = pod.metadata, pod.status
    requests, nonzero_cpu, nonzero_memory, limits = spec.requests, spec.nonzero_cpu, spec.nonzero_memory, spec.limits
    if pod.spec.node_name and not runs_as_specified(pod):
        occupied = pod_requests(pod, use_status=True, rules=kubernetes)
        if occupied.requests != requests:
            requests = occupied.requests
        nonzero_cpu, nonzero_memory = occupied.nonzero_cpu, occupied.nonzero_memory
        allowed = pod_limits(pod, use_status=True, rules=kubernetes)
        if allowed != limits:
            limits = allowed
    started = _seconds(status.start_time)
    conditions, bound = _conditions(status.conditions)
    return PodInfo(
        uid=meta.uid,
        name=meta.name,
        # Thousands of pods have the same words there: one copy of each is kept.
        namespace=intern(meta.namespace),
        key=meta.key,
        spec=spec,
        requests=requests,
        nonzero_cpu=nonzero_cpu,
        nonzero_memory=nonzero_memory,
        labels=meta.labels,
        limits=limits,
        priority=pod.spec.priority or 0,
        node_name=intern(pod.spec.node_name),
        nominated_node=status.nominated_node_name,
        scheduler_name=intern(pod.spec.scheduler_name),
        resource_version=meta.resource_version,
        generation=meta.generation,
        created_at=_seconds(meta.creation_timestamp),
        assigned_at=started if math.isnan(bound) else bound,
        started_at=started,
        deleting=meta.deletion_timestamp is not None,
        terminal=pod.terminal,
        controller=meta.controller,
        conditions=conditions,
        claim_names=_claim_names(pod) if status.resource_claim_statuses else (),
        phase=intern(status.phase),
        reason=status.reason if status.reason and pod.terminal else "",
        priority_class=pod.spec.priority_class_name,
        scheduling_group=_scheduling_group(pod) if pod.spec.scheduling_group else "",
        workload_ref=_workload_ref(pod) if pod.spec.workload_ref else "",
        peer_topology=peer_annotations(meta.annotations) if POD_GROUP_LABEL in meta.labels else (),
    )


def _conditions(all_of_them: Sequence[PodCondition]) -> tuple[tuple[PodCondition, ...], float]:
    """Return the conditions that somebody reads, and when the pod was bound.

    A pod that runs has five, of which each would take 300 bytes: half of what is kept of the pod.
    """
    kept, bound = [], math.nan
    for condition in all_of_them:
        kind = condition.type
        if kind == "PodScheduled":
            kept.append(condition)
            if condition.status == "True" and math.isnan(bound):
                bound = _seconds(condition.last_transition_time)
        elif kind == "DisruptionTarget":
            kept.append(condition)
        elif kind == "Ready" and condition.status == "True":
            kept.append(_READY)
    return tuple(kept), bound


def _scheduling_group(pod: Pod) -> str:
    group = pod.spec.scheduling_group
    return (group.pod_group_name or "")[:_GROUP_LENGTH] if group is not None else ""


def _workload_ref(pod: Pod) -> str:
    workload = pod.spec.workload_ref
    return f"{workload.name}/{workload.pod_group}"[:_GROUP_LENGTH] if workload is not None else ""


def _claim_names(pod: Pod) -> tuple[str, ...]:
    return tuple(
        sorted(f"{status.name}={status.resource_claim_name or ''}" for status in pod.status.resource_claim_statuses)
    )


def reduce_node(node: Node) -> NodeInfo:
    """Return the reduced node.

    Raises:
        ValueError: a quantity of the node cannot be read.
    """
    meta, status = node.metadata, node.status
    # A node that does not say how large it is has what pods may take of it; a share of nothing would look unused.
    capacity = {**status.allocatable, **status.capacity}
    return NodeInfo(
        name=meta.name,
        uid=meta.uid,
        labels=meta.labels,
        annotations=meta.annotations,
        taints=node.spec.taints,
        unschedulable=node.spec.unschedulable,
        allocatable=_allocatable(status.allocatable),
        allowed_pods=max(0, quantity_value(status.allocatable.get("pods", 0))),
        capacity_cpu=max(0, quantity_milli_value(capacity.get("cpu", 0))),
        capacity_memory=max(0, quantity_value(capacity.get("memory", 0))),
        images={name: image.size_bytes for image in status.images for name in image.names},
        conditions={condition.type: condition.status for condition in status.conditions},
        addresses=tuple(address.address for address in status.addresses),
        resource_version=meta.resource_version,
        declared_features=status.declared_features,
    )


def _allocatable(amounts: ResourceList) -> Resources:
    """Return the amounts that are counted; nodes of one kind share the mapping."""
    count = _counted if len(amounts) <= _FEW_RESOURCES else _counted.__wrapped__
    return count(tuple(amounts.items()))


@lru_cache(maxsize=128)
def _counted(amounts: _Amounts) -> Resources:
    return {
        name: max(0, quantity_milli_value(amount) if name == "cpu" else quantity_value(amount))
        for name, amount in amounts
        if name in ("cpu", "memory", "ephemeral-storage") or is_scalar_resource(name)
    }


def normalized_image(name: str) -> str:
    """Append `:latest` to an image name that has no tag, as the kubelet reports it."""
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"


@lru_cache(maxsize=1024)
def _seconds(text: str | None) -> float:
    if not text:
        return math.nan
    try:
        return epoch_seconds(text)
    except TimestampError:
        return math.nan


def _seccomp_paths(pod: Pod) -> SeccompPaths:
    """Return the paths of local profiles in the security contexts of a pod and its main containers, and those in its
    annotations, in the order of their keys (pkg/sysched of scheduler-plugins v0.34.7, getSyscalls)."""
    # Runs for every pod; nearly all of them have none.
    paths = [path for container in pod.spec.containers if (path := _localhost_path(container.security_context))]
    if path := _localhost_path(pod.spec.security_context):
        paths.insert(0, path)
    annotated = [(key, path) for key, path in pod.metadata.annotations.items() if _ANNOTATION in key]
    if not paths and not annotated:
        return NO_SECCOMP_PATHS
    return SeccompPaths(tuple(paths), tuple(path for _, path in sorted(annotated)))


def _localhost_path(context: SecurityContext | None) -> str:
    profile = context.seccomp_profile if context is not None else None
    return profile.localhost_profile if profile is not None and profile.type == _LOCALHOST else ""


def parts(spec: PodSpec) -> int:
    """Return the number of terms, requirements, their values, constraints, tolerations, containers, ports, resources,
    volumes and claims of a pod."""
    containers = (*spec.init_containers, *spec.containers)
    constraints = spec.topology_spread_constraints
    return (
        len(spec.node_selector)
        + (0 if spec.affinity is None else _of_affinity(spec.affinity))
        + len(spec.tolerations)
        + sum(
            1 + len(each.ports) + len(each.resources.requests) + len(each.restart_policy_rules) for each in containers
        )
        + sum(1 + _of_selector(each.label_selector) + len(each.match_label_keys) for each in constraints)
        + len(spec.volumes)
        + len(spec.resource_claims)
    )


def _of_affinity(affinity: Affinity) -> int:
    total = sum(
        _of_pod_affinity(each) for each in (affinity.pod_affinity, affinity.pod_anti_affinity) if each is not None
    )
    nodes = affinity.node_affinity
    if nodes is None:
        return total
    required = nodes.required_during_scheduling_ignored_during_execution
    terms = [] if required is None else list(required.node_selector_terms)
    terms += [each.preference for each in nodes.preferred_during_scheduling_ignored_during_execution]
    return total + sum(map(_of_node_term, terms))


def _of_node_term(term: NodeSelectorTerm) -> int:
    return 1 + _of_requirements(term.match_expressions) + _of_requirements(term.match_fields)


def _of_pod_affinity(affinity: PodAffinity) -> int:
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return sum(map(_of_pod_term, (*required, *(each.pod_affinity_term for each in preferred))))


def _of_pod_term(term: PodAffinityTerm) -> int:
    selectors = _of_selector(term.label_selector) + _of_selector(term.namespace_selector)
    return 1 + len(term.namespaces) + selectors


def _of_selector(selector: LabelSelector | None) -> int:
    return 0 if selector is None else len(selector.match_labels) + _of_requirements(selector.match_expressions)


def _of_requirements(requirements: Iterable[RequirementLike]) -> int:
    return sum(1 + len(each.values) for each in requirements)


RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USER_NAMESPACES_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
NO_FEATURES: frozenset[str] = frozenset()


def needed_features(spec: PodSpec) -> frozenset[str]:
    """Return the names of the features; a shared empty set for nearly every pod.

    Those that only an update of a running pod needs are left out, as in upstream's InferForPodScheduling.
    """
    needed = NO_FEATURES
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            if any(rule.action == "RestartAllContainers" for rule in container.restart_policy_rules):
                needed |= {RESTART_ALL_CONTAINERS}
    if spec.host_network and spec.host_users is False:
        needed |= {USER_NAMESPACES_HOST_NETWORK}
    return needed
