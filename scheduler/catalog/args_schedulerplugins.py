"""Args of the plugins of sigs.k8s.io/scheduler-plugins v0.34.7 that read no load (apis/config/v1), and their checks.

NodeMetadata and `preemptionMode` are as at 903da7df, which v0.35.7 was made of."""

from collections.abc import Iterator
from typing import Any

from pydantic import Field, model_validator

from scheduler.catalog.args_intree import DefaultPreemptionArgs, ResourceSpec
from scheduler.catalog.types import ArgsModel, Loc, StrictModel
from scheduler.kube.primitives import RFC3339, TimestampError, time_layout


class CoschedulingArgs(ArgsModel):
    """Coscheduling; times in seconds. Upstream's message says "greater than 0", and it accepts 0."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10

    def check(self) -> Iterator[tuple[Loc, str]]:
        """No negative time; percentage 0..100."""
        for field, seconds in (
            ("permitWaitingTimeSeconds", self.permit_waiting_time_seconds),
            ("podGroupBackoffSeconds", self.pod_group_backoff_seconds),
        ):
            if seconds < 0:
                yield (field,), f"Invalid value: {seconds}: must be greater than 0"
        if not 0 <= self.pod_group_reject_percentage <= 100:
            message = f"Invalid value: {self.pod_group_reject_percentage}: must be between 0 and 100"
            yield ("podGroupRejectPercentage",), message


class WeightedResource(StrictModel):
    """A resource and its weight; a weight of 0 has no default and is refused."""

    name: str
    weight: int = 0


def _allocatable_resources() -> list[WeightedResource]:
    return [WeightedResource(name="cpu", weight=1 << 20), WeightedResource(name="memory", weight=1)]


class NodeResourcesAllocatableArgs(ArgsModel):
    """NodeResourcesAllocatable."""

    resources: list[WeightedResource] = Field(default_factory=_allocatable_resources)
    mode: str = "Least"

    @model_validator(mode="before")
    @classmethod
    def _empty_means_default(cls, data: Any) -> Any:
        if isinstance(data, dict):
            return {key: value for key, value in data.items() if not (key in ("resources", "mode") and not value)}
        return data

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Positive weights; mode Least or Most."""
        for index, resource in enumerate(self.resources):
            if resource.weight <= 0:
                message = (
                    f"Invalid value: {resource.weight}: resource weight of {resource.name} should be a positive value, "
                    f"got :{resource.weight}"
                )
                yield ("resources", index, "weight"), message
        if self.mode not in ("Least", "Most"):
            yield ("mode",), f'Invalid value: "{self.mode}": invalid support ModeType; allowed are Least, Most'


_METADATA_STRATEGIES = {"Number": ("Highest", "Lowest"), "Timestamp": ("Newest", "Oldest")}


class NodeMetadataArgs(ArgsModel):
    """NodeMetadata: the label or annotation of nodes that holds a number, or a time in a layout of Go's."""

    metadata_key: str = ""
    metadata_source: str = ""
    metadata_type: str = ""
    scoring_strategy: str = ""
    timestamp_format: str = ""

    @model_validator(mode="before")
    @classmethod
    def _times_have_a_format(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("metadataType") == "Timestamp" and not data.get("timestampFormat"):
            return {**data, "timestampFormat": RFC3339}
        return data

    def check(self) -> Iterator[tuple[Loc, str]]:
        """All but the format are needed; the strategy is one of the type; a time can be read by the format."""
        if not self.metadata_key:
            yield ("metadataKey",), 'Invalid value: "": metadataKey cannot be empty'
        for field, value, allowed in (
            ("metadataSource", self.metadata_source, ("Label", "Annotation")),
            ("metadataType", self.metadata_type, tuple(_METADATA_STRATEGIES)),
        ):
            if value not in allowed:
                names = " or ".join(f'"{name}"' for name in allowed)
                yield (field,), f'Invalid value: "{value}": {field} must be either {names}'
        strategies = _METADATA_STRATEGIES.get(self.metadata_type, tuple(sum(_METADATA_STRATEGIES.values(), ())))
        if self.scoring_strategy not in strategies:
            names = " or ".join(f'"{name}"' for name in strategies)
            of_type = f" for metadataType {self.metadata_type}" if self.metadata_type in _METADATA_STRATEGIES else ""
            yield ("scoringStrategy",), f'Invalid value: "{self.scoring_strategy}": must be {names}{of_type}'
        if self.metadata_type == "Timestamp":
            try:
                time_layout(self.timestamp_format)
            except TimestampError as error:
                yield ("timestampFormat",), str(error)


class TopologyScoringStrategy(StrictModel):
    """How NodeResourceTopologyMatch scores NUMA zones."""

    type: str = ""
    resources: list[ResourceSpec] = Field(default_factory=list)


class TopologyCacheArgs(StrictModel):
    """How NodeResourceTopologyMatch keeps its cache of zones up to date."""

    foreign_pods_detect: str = "All"
    resync_method: str = "Autodetect"
    informer_mode: str = "Dedicated"
    resync_scope: str | None = None


_CACHE_MODES = {
    "foreignPodsDetect": ("All", "None", "OnlyExclusiveResources"),
    "resyncMethod": ("Autodetect", "All", "OnlyExclusiveResources"),
    "informerMode": ("Dedicated", "Shared"),
    "resyncScope": ("All", "OnlyResources"),
}
_TOPOLOGY_STRATEGIES = ("MostAllocated", "BalancedAllocation", "LeastAllocated", "LeastNUMANodes")


def _least_allocated() -> TopologyScoringStrategy:
    resources = [ResourceSpec(name="cpu", weight=1), ResourceSpec(name="memory", weight=1)]
    return TopologyScoringStrategy(type="LeastAllocated", resources=resources)


class NodeResourceTopologyMatchArgs(ArgsModel):
    """NodeResourceTopologyMatch."""

    scoring_strategy: TopologyScoringStrategy = Field(default_factory=_least_allocated)
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: TopologyCacheArgs = Field(default_factory=TopologyCacheArgs)
    preemption_mode: str = "Disabled"

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Names of strategy and cache modes are known."""
        strategy = self.scoring_strategy.type
        if strategy not in _TOPOLOGY_STRATEGIES:
            allowed = ", ".join(_TOPOLOGY_STRATEGIES)
            message = f'Invalid value: "{strategy}": invalid ScoringStrategyType; allowed are {allowed}'
            yield ("scoringStrategy", "type"), message
        for field, value in self.cache.to_dict().items():
            if value not in _CACHE_MODES[field]:
                yield ("cache", field), f'Invalid value: "{value}": allowed are {", ".join(_CACHE_MODES[field])}'
        if self.preemption_mode not in ("Disabled", "Enabled"):
            message = f'Invalid value: "{self.preemption_mode}": invalid PreemptionMode; allowed are Disabled, Enabled'
            yield ("preemptionMode",), message


class PreemptionTolerationArgs(DefaultPreemptionArgs):
    """PreemptionToleration: the candidate limits of DefaultPreemption."""


class TopologicalSortArgs(ArgsModel):
    """TopologicalSort."""

    namespaces: list[str] = Field(default_factory=lambda: ["default"])


class NetworkOverheadArgs(ArgsModel):
    """NetworkOverhead."""

    namespaces: list[str] = Field(default_factory=lambda: ["default"])
    weights_name: str = "UserDefined"
    network_topology_name: str = "nt-default"


class SySchedArgs(ArgsModel):
    """SySched: the SeccompProfile of pods that name none."""

    default_profile_namespace: str = "default"
    default_profile_name: str = "all-syscalls"


MAX_AVOID_SECONDS = 300
"""So long a kubelet's rejection is remembered."""


class Headroom(StrictModel):
    """What is left to other schedulers on nodes that have pods of theirs, in per cent of what is allocatable."""

    cpu: int = 5
    memory: int = 5


class SharedNodesArgs(ArgsModel):
    """SharedNodes, a plugin of this project. `avoidSeconds`: so long a node is avoided after a kubelet's rejection."""

    headroom: Headroom = Field(default_factory=Headroom)
    avoid_seconds: int = 10

    def check(self) -> Iterator[tuple[Loc, str]]:
        """A percentage below 100; at most five minutes."""
        for name, percent in (("cpu", self.headroom.cpu), ("memory", self.headroom.memory)):
            if not 0 <= percent < 100:
                yield ("headroom", name), f"{percent} is not between 0 and 99"
        if not 0 <= self.avoid_seconds <= MAX_AVOID_SECONDS:
            yield ("avoidSeconds",), f"{self.avoid_seconds} is not between 0 and {MAX_AVOID_SECONDS}"
