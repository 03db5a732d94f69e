"""v1.Pod as a scheduler reads it."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct, field

from scheduler.kube.model.meta import (
    MAX_LISTED,
    FewResources,
    Int32,
    Int64,
    LabelSelector,
    Listed,
    NodeName,
    Object,
    PodUID,
    ResourceList,
)
from scheduler.kube.model.volume import Volume
from scheduler.kube.primitives import CompiledNodeSelector, node_selector


class NodeSelectorRequirement(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeSelectorRequirement."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeSelectorTerm."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Struct, frozen=True, dict=True, rename="camel"):
    """v1.NodeSelector."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()

    @cached_property
    def compiled(self) -> CompiledNodeSelector:
        """The selector ready to match; compiled once per object version."""
        return node_selector(self.node_selector_terms)


def require_few(selector: NodeSelector | None) -> None:
    """Raise ValueError for a selector of nodes that lists too much.

    Of those that are no pod's own: an attempt is charged for what its pod lists, and not for what a volume does.
    """
    terms = () if selector is None else selector.node_selector_terms
    listed = sum(
        1 + sum(1 + len(requirement.values) for requirement in (*term.match_expressions, *term.match_fields))
        for term in terms
    )
    if listed > MAX_LISTED:
        text = f"the node selector lists {listed} terms, expressions and values, at most {MAX_LISTED} are read"
        raise ValueError(text)


class PreferredSchedulingTerm(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PreferredSchedulingTerm."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Struct, frozen=True, gc=False, rename="camel"):
    """v1.NodeAffinity."""

    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodAffinityTerm; an absent `namespace_selector` selects no namespace, an empty one every namespace."""

    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True, gc=False, rename="camel"):
    """v1.WeightedPodAffinityTerm."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodAffinity and v1.PodAntiAffinity, which have the same shape."""

    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Affinity."""

    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Toleration; an empty operator means Equal, an empty effect every effect."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class ContainerResourceClaim(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ResourceClaim in a container's resources: a name in spec.resourceClaims."""

    name: str = ""
    request: str = ""


class ResourceRequirements(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ResourceRequirements."""

    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerResourceClaim, ...] = ()


class ContainerPort(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ContainerPort."""

    container_port: Int32 = 0
    host_port: Int32 = 0
    protocol: str = "TCP"
    host_ip: str = field(default="", name="hostIP")


class SeccompProfile(Struct, frozen=True, gc=False, rename="camel"):
    """v1.SeccompProfile."""

    type: str = ""
    localhost_profile: str = ""


class SecurityContext(Struct, frozen=True, gc=False, rename="camel"):
    """The part of a pod's or container's security context that placement depends on."""

    seccomp_profile: SeccompProfile | None = None
    privileged: bool = False


class ContainerRestartRule(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ContainerRestartRule without its condition."""

    action: str = ""


class Container(Struct, frozen=True, gc=False, rename="camel"):
    """v1.Container; `restart_policy` "Always" makes an init container a sidecar."""

    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    security_context: SecurityContext | None = None


class TopologySpreadConstraint(Struct, frozen=True, gc=False, rename="camel"):
    """v1.TopologySpreadConstraint; None means the API's default."""

    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodSchedulingGate."""

    name: str = ""


class PodResourceClaim(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodResourceClaim."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodSchedulingGroup, since 1.36."""

    pod_group_name: str | None = None


class WorkloadReference(Struct, frozen=True, gc=False, rename="camel"):
    """v1.WorkloadReference, of 1.35 only."""

    name: str = ""
    pod_group: str = ""


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodSpec; `priority` None counts as 0."""

    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: FewResources = {}
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: Listed[SchedulingGate] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: Int64 | None = None
    security_context: SecurityContext | None = None
    scheduling_group: PodSchedulingGroup | None = None
    workload_ref: WorkloadReference | None = None


class PodCondition(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodCondition."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None
    observed_generation: Int64 = 0


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.ContainerStatus, as in-place resizing needs it."""

    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: FewResources = {}


class PodResourceClaimStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodResourceClaimStatus."""

    name: str = ""
    resource_claim_name: str | None = None


class PodStatus(Struct, frozen=True, gc=False, rename="camel"):
    """v1.PodStatus."""

    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    conditions: Listed[PodCondition] = ()
    start_time: str | None = None
    qos_class: str = ""
    resize: str = ""
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: FewResources = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Object, frozen=True, gc=False, rename="camel"):
    """v1.Pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def uid(self) -> PodUID:
        """The identity of this pod; a recreated namesake has another."""
        return PodUID(self.metadata.uid)

    @property
    def key(self) -> str:
        """Return `namespace/name`."""
        return self.metadata.key

    @property
    def node_name(self) -> NodeName:
        """The node it is bound to, or "" while it is not."""
        return NodeName(self.spec.node_name)

    @property
    def terminal(self) -> bool:
        """True once it has ended and uses no resources any more."""
        return self.status.phase in ("Succeeded", "Failed")
