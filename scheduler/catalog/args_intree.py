"""Args of the in-tree plugins of kube-scheduler: fields, defaults and checks (kubescheduler.config.k8s.io/v1)."""

import re
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from scheduler.catalog.types import ArgsModel, Duration, Loc, StrictModel
from scheduler.catalog.upstream import KubernetesVersion

_QUALIFIED_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


def is_label(text: str) -> bool:
    """Tell whether a text is a DNS-1123 label, as the names of namespaces are."""
    return _LABEL.fullmatch(text) is not None


def is_subdomain(text: str) -> bool:
    """Tell whether a text is a DNS-1123 subdomain, as the names of most objects are."""
    return len(text) <= 253 and _SUBDOMAIN.fullmatch(text) is not None


def is_qualified_name(text: str) -> bool:
    """Tell whether a text is a valid label key: `name` or `dns.sub.domain/name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_subdomain(prefix):
        return False
    return _QUALIFIED_NAME.fullmatch(name) is not None and len(name) <= 63


class DefaultPreemptionArgs(ArgsModel):
    """DefaultPreemption."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Percentage 0..100, absolute >= 0, not both 0."""
        if not 0 <= self.min_candidate_nodes_percentage <= 100:
            yield (
                ("minCandidateNodesPercentage",),
                f"{self.min_candidate_nodes_percentage} is not in valid range [0, 100]",
            )
        if self.min_candidate_nodes_absolute < 0:
            yield ("minCandidateNodesAbsolute",), f"{self.min_candidate_nodes_absolute} is not in valid range [0, inf)"
        if self.min_candidate_nodes_percentage == 0 and self.min_candidate_nodes_absolute == 0:
            yield (
                ("minCandidateNodesPercentage",),
                "minCandidateNodesPercentage and minCandidateNodesAbsolute cannot both be zero",
            )


class InterPodAffinityArgs(ArgsModel):
    """InterPodAffinity."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Weight 0..100."""
        if not 0 <= self.hard_pod_affinity_weight <= 100:
            yield ("hardPodAffinityWeight",), f"{self.hard_pod_affinity_weight} is not in valid range [0-100]"


class AddedAffinityRequirement(StrictModel):
    """One `key operator values` of a node selector term."""

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = Field(default_factory=list)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Values fit the operator."""
        if not is_qualified_name(self.key):
            yield ("key",), f'"{self.key}" is not a valid label key'
        if self.operator in ("In", "NotIn") and not self.values:
            yield ("values",), "must be specified when `operator` is 'In' or 'NotIn'"
        if self.operator in ("Exists", "DoesNotExist") and self.values:
            yield ("values",), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
        if self.operator in ("Gt", "Lt"):
            if len(self.values) != 1:
                yield ("values",), "must be specified single value when `operator` is 'Lt' or 'Gt'"
            elif not re.fullmatch(r"[+-]?[0-9]+", self.values[0]):
                yield ("values", 0), "for 'Gt', 'Lt' operators, the value must be an integer"


class AddedAffinityTerm(StrictModel):
    """Requirements that must all hold."""

    match_expressions: list[AddedAffinityRequirement] = Field(default_factory=list)
    match_fields: list[AddedAffinityRequirement] = Field(default_factory=list)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Each requirement parses; fields allow only metadata.name In/NotIn with one value."""
        for index, requirement in enumerate(self.match_expressions):
            for loc, message in requirement.check():
                yield ("matchExpressions", index, *loc), message
        for index, requirement in enumerate(self.match_fields):
            if requirement.key != "metadata.name":
                yield ("matchFields", index, "key"), "not a valid field selector key; only metadata.name is"
            if requirement.operator not in ("In", "NotIn") or len(requirement.values) != 1:
                yield ("matchFields", index), "takes the operators In and NotIn with exactly one value"


class AddedAffinitySelector(StrictModel):
    """Terms of which one must hold."""

    node_selector_terms: list[AddedAffinityTerm]


class AddedAffinityPreference(StrictModel):
    """A weighted term."""

    weight: int
    preference: AddedAffinityTerm


class AddedAffinity(StrictModel):
    """`addedAffinity`: a core v1 NodeAffinity, validated as upstream validates it."""

    required_during_scheduling_ignored_during_execution: AddedAffinitySelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[AddedAffinityPreference] = Field(default_factory=list)


class NodeAffinityArgs(ArgsModel):
    """NodeAffinity: `addedAffinity` applies to every pod of the profile, in addition to the pod's own affinity."""

    added_affinity: AddedAffinity | None = None

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Selectors parse; weights 1..100."""
        if self.added_affinity is None:
            return
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            base: Loc = ("addedAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
            if not required.node_selector_terms:
                yield base, "must have at least one node selector term"
            for index, term in enumerate(required.node_selector_terms):
                for loc, message in term.check():
                    yield (*base, index, *loc), message
        base = ("addedAffinity", "preferredDuringSchedulingIgnoredDuringExecution")
        for index, preferred in enumerate(self.added_affinity.preferred_during_scheduling_ignored_during_execution):
            if not 1 <= preferred.weight <= 100:
                yield (*base, index, "weight"), "must be in the range 1-100"
            for loc, message in preferred.preference.check():
                yield (*base, index, "preference", *loc), message


class ResourceSpec(StrictModel):
    """A resource and its weight; weight 0 or absent counts as 1."""

    name: str
    weight: int = 1

    @model_validator(mode="before")
    @classmethod
    def _zero_means_one(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("weight") == 0 and data["weight"] is not False:
            return {**data, "weight": 1}
        return data

    @property
    def effective_weight(self) -> int:
        """Return the weight with upstream's 0 -> 1."""
        return self.weight or 1


class _DefaultResources(StrictModel):
    """Base of args that score resources: an empty list stands for cpu and memory."""

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("resources") == []:
            return {key: value for key, value in data.items() if key != "resources"}
        return data


def _cpu_and_memory() -> list[ResourceSpec]:
    return [ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)]


class UtilizationShapePoint(StrictModel):
    """A point of a RequestedToCapacityRatio curve."""

    utilization: int
    score: int


def check_shape(shape: list[UtilizationShapePoint], below: Loc) -> Iterator[tuple[Loc, str]]:
    """Yield what is wrong with a curve: its numbers are in range, its utilizations increase."""
    previous = -1
    for index, point in enumerate(shape):
        at: Loc = (*below, index)
        if not 0 <= point.utilization <= 100:
            yield (*at, "utilization"), f"{point.utilization} not in valid range [0, 100]"
        elif point.utilization <= previous:
            yield (*at, "utilization"), "utilization values must be sorted in increasing order"
        if not 0 <= point.score <= 10:
            yield (*at, "score"), f"{point.score} not in valid range [0, 10]"
        previous = max(previous, point.utilization)


class RequestedToCapacityRatioParam(StrictModel):
    """The curve."""

    shape: list[UtilizationShapePoint] = Field(default_factory=list)


class ScoringStrategy(_DefaultResources):
    """How NodeResourcesFit scores."""

    type: str = ""
    resources: list[ResourceSpec] = Field(default_factory=_cpu_and_memory)
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None

    @property
    def effective_resources(self) -> list[ResourceSpec]:
        """Return the resources to score."""
        return self.resources

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Type known, weights 1..100, shape strictly increasing."""
        kinds = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
        if self.type not in kinds:
            supported = ", ".join(f'"{kind}"' for kind in kinds)
            yield ("type",), f'Unsupported value: "{self.type}": supported values: {supported}'
        for index, resource in enumerate(self.resources):
            if not 1 <= resource.effective_weight <= 100:
                message = f"resource weight of {resource.name} not in valid range [1, 100], got {resource.weight}"
                yield ("resources", index, "weight"), message
        if self.type != "RequestedToCapacityRatio":
            return
        if self.requested_to_capacity_ratio is None or not self.requested_to_capacity_ratio.shape:
            yield ("requestedToCapacityRatio", "shape"), "at least one point must be specified"
            return
        yield from check_shape(self.requested_to_capacity_ratio.shape, ("requestedToCapacityRatio", "shape"))


def _least_allocated() -> ScoringStrategy:
    return ScoringStrategy(type="LeastAllocated", resources=_cpu_and_memory())


class NodeResourcesFitArgs(ArgsModel):
    """NodeResourcesFit."""

    ignored_resources: list[str] = Field(default_factory=list)
    ignored_resource_groups: list[str] = Field(default_factory=list)
    scoring_strategy: ScoringStrategy | None = Field(default_factory=_least_allocated)

    @property
    def strategy(self) -> ScoringStrategy:
        """Return the scoring strategy; a null one is the default."""
        return self.scoring_strategy or _least_allocated()

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Names follow the label rules; groups have no slash."""
        for index, name in enumerate(self.ignored_resources):
            if not is_qualified_name(name):
                yield ("ignoredResources", index), f'"{name}" is not a valid resource name'
        for index, group in enumerate(self.ignored_resource_groups):
            if "/" in group:
                yield ("ignoredResourceGroups", index), "resource group name can't contain '/'"
            elif not is_qualified_name(group):
                yield ("ignoredResourceGroups", index), f'"{group}" is not a valid resource group name'
        for loc, message in self.strategy.check():
            yield ("scoringStrategy", *loc), message

    def check_as(self, kubernetes: KubernetesVersion) -> Iterator[tuple[Loc, str]]:
        """Newer versions refuse parameters of the ratio without its type, and the type without them."""
        if not kubernetes.needs_ratio_shape:
            yield from self.check()
            return
        strategy = self.scoring_strategy
        if strategy is None:
            yield ("scoringStrategy",), "Required value: ScoringStrategy field is required"
            return
        at: Loc = ("scoringStrategy", "requestedToCapacityRatio")
        is_ratio, has_shape = (
            strategy.type == "RequestedToCapacityRatio",
            strategy.requested_to_capacity_ratio is not None,
        )
        if is_ratio and not has_shape:
            yield at, "Required value: must be specified when type is RequestedToCapacityRatio"
        elif has_shape and not is_ratio:
            yield at, "Forbidden: must be nil when type is not RequestedToCapacityRatio"
        for loc, message in self.check():
            if has_shape or loc != (*at, "shape"):
                yield loc, message


class NodeResourcesBalancedAllocationArgs(ArgsModel, _DefaultResources):
    """NodeResourcesBalancedAllocation."""

    resources: list[ResourceSpec] = Field(default_factory=_cpu_and_memory)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Weights are 1, names unique."""
        seen: set[str] = set()
        for index, resource in enumerate(self.resources):
            if resource.effective_weight != 1:
                yield ("resources", index, "weight"), "must be 1"
            if resource.name in seen:
                yield ("resources", index, "name"), f'Duplicate value: "{resource.name}"'
            seen.add(resource.name)


class DefaultConstraint(StrictModel):
    """A default constraint. It decodes `labelSelector` only so that the check can refuse it, as upstream does."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: str
    label_selector: dict[str, object] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class PodTopologySpreadArgs(ArgsModel):
    """PodTopologySpread."""

    default_constraints: list[DefaultConstraint] = Field(default_factory=list)
    defaulting_type: str = "System"

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Default constraints only with type List; each valid and unique by (key, action)."""
        if self.defaulting_type not in ("System", "List"):
            yield (
                ("defaultingType",),
                f'Unsupported value: "{self.defaulting_type}": supported values: "List", "System"',
            )
        if self.defaulting_type == "System" and self.default_constraints:
            yield ("defaultingType",), 'Invalid value: "System": when .defaultConstraints are not empty'
        seen: set[tuple[str, str]] = set()
        for index, constraint in enumerate(self.default_constraints):
            at: Loc = ("defaultConstraints", index)
            if constraint.max_skew <= 0:
                yield (*at, "maxSkew"), "must be greater than zero"
            if not is_qualified_name(constraint.topology_key):
                yield (*at, "topologyKey"), f'"{constraint.topology_key}" is not a valid label key'
            if constraint.when_unsatisfiable not in ("DoNotSchedule", "ScheduleAnyway"):
                yield (*at, "whenUnsatisfiable"), 'supported values: "DoNotSchedule", "ScheduleAnyway"'
            if constraint.label_selector is not None:
                yield (*at, "labelSelector"), "constraint must not define a selector, as they deduced for each pod"
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in seen:
                yield at, f"Duplicate value: {{{pair[0]}, {pair[1]}}}"
            seen.add(pair)


class VolumeBindingArgs(ArgsModel):
    """VolumeBinding."""

    bind_timeout_seconds: int = 600
    shape: list[UtilizationShapePoint] | None = None

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Timeout >= 0."""
        if self.bind_timeout_seconds < 0:
            yield ("bindTimeoutSeconds",), "invalid BindTimeoutSeconds, should not be a negative value"

    def check_as(self, kubernetes: KubernetesVersion) -> Iterator[tuple[Loc, str]]:
        """A shape needs a version that scores capacity."""
        yield from self.check()
        if self.shape is None:
            return
        if kubernetes.scores_storage_capacity:
            yield from check_shape(self.shape, ("shape",))
        else:
            yield ("shape",), "unexpected field: the feature StorageCapacityScoring is disabled"

    def completed_as(self, kubernetes: KubernetesVersion) -> Self:
        """Where capacity is scored, the default shape prefers the smallest volume that is large enough."""
        if self.shape or not kubernetes.scores_storage_capacity:
            return self
        shape = [UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0)]
        return self.model_copy(update={"shape": shape})


class DynamicResourcesArgs(ArgsModel):
    """DynamicResources."""

    filter_timeout: Duration = 10.0
    binding_timeout: Duration | None = None

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Timeout >= 0."""
        if self.filter_timeout < 0:
            yield ("filterTimeout",), "must not be negative"

    def check_as(self, kubernetes: KubernetesVersion) -> Iterator[tuple[Loc, str]]:
        """A timeout of bindings needs a version that waits for devices, and is 1 s at least."""
        yield from self.check()
        if self.binding_timeout is None:
            return
        if not kubernetes.waits_for_devices:
            message = "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus feature gate is disabled"
            yield ("bindingTimeout",), f"Forbidden: {message}"
        elif self.binding_timeout < 1:
            yield ("bindingTimeout",), "must be at least 1 second"

    def completed_as(self, kubernetes: KubernetesVersion) -> Self:
        """Where devices are waited for, ten minutes by default."""
        if self.binding_timeout is not None or not kubernetes.waits_for_devices:
            return self
        return self.model_copy(update={"binding_timeout": 600.0})
