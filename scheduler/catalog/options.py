"""`SecondarySchedulerOptions`: the options that upstream does not have.

They are an entry of `pluginConfig` with a name that no plugin of a Go binary has; Go binaries ignore it, so one file
works with both images.
"""

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from scheduler.catalog.types import ArgsModel, Loc, StrictModel
from scheduler.catalog.upstream import KUBERNETES_VERSIONS, minor_of

_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WINDOW = re.compile(r"([0-9]+(ms|[smhdwy]))+")


class LoadQueries(StrictModel):
    """PromQL templates; `$window` is replaced by the window. Results are ratios of 0..1 per node.

    `sampleTime` yields the time of each node's newest sample instead (seconds since the epoch), from which its age is
    computed; without a result, a value is as old as the response.
    """

    cpu_average: str = "avg_over_time(instance:node_cpu:ratio[$window])"
    cpu_stddev: str = "stddev_over_time(instance:node_cpu:ratio[$window])"
    memory_average: str = "avg_over_time(instance:node_memory_utilisation:ratio[$window])"
    memory_stddev: str = "stddev_over_time(instance:node_memory_utilisation:ratio[$window])"
    sample_time: str = "max_over_time(timestamp(instance:node_cpu:ratio)[$window:15s])"


Fallback = Literal["requests", "leaveOut"]
"""What replaces a node's load: its pods' requests, or nothing, which neither favours nor disfavours the node."""


Exemption = Literal["DaemonSet", "pinned"]


class LoadLimitOptions(StrictModel):
    """What HighLoadFilter does beyond upstream's proposal.

    `whenAllExceed`: where every node that a pod fits is above its limit, `leaveOut` places it as without the plugin,
    `reject` lets it wait. `exempt`: pods that the limit does not hold for, as no other node can run them: those of
    DaemonSets, and all that are `pinned` to one node. `countUnmeasured`: requests of pods that were placed too recently
    to show in the measurement are added to it.
    """

    when_all_exceed: Literal["reject", "leaveOut"] = "leaveOut"
    exempt: list[Exemption] = Field(default_factory=lambda: list[Exemption](("DaemonSet", "pinned")))
    count_unmeasured: bool = True


class LoadOptions(StrictModel):
    """How load is read: credential files, interval, timeout of a query, maximum age (all in seconds), window.

    A value is fresh, stale (older than `maxAgeSeconds`) or absent (never read, or not a number). `whenStale` and
    `whenAbsent` say what happens for such a node when others have fresh load; `whenNoneFresh` what happens when no node
    that the pod fits has fresh load: by default the plugin skips the attempt and the others decide. HighLoadFilter has
    args of its own for that, and the options under `limit`.

    `nodeLabel` is the label of Prometheus' series that identifies the node, by name or by address.
    """

    token_file: str | None = None
    ca_file: str | None = None
    refresh_seconds: int = 30
    timeout_seconds: int = 10
    max_age_seconds: int = 300
    when_stale: Fallback = "requests"
    when_absent: Fallback = "requests"
    when_none_fresh: Fallback = "leaveOut"
    window: str = "15m"
    node_label: str = "instance"
    queries: LoadQueries = Field(default_factory=LoadQueries)
    limit: LoadLimitOptions = Field(default_factory=LoadLimitOptions)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Positive times, a PromQL window and label."""
        if self.refresh_seconds < 1:
            yield ("refreshSeconds",), "must be at least 1"
        if self.timeout_seconds < 1:
            yield ("timeoutSeconds",), "must be at least 1"
        if self.max_age_seconds < self.refresh_seconds:
            yield ("maxAgeSeconds",), f"must be at least refreshSeconds ({self.refresh_seconds})"
        if not _LABEL.fullmatch(self.node_label):
            yield ("nodeLabel",), f'"{self.node_label}" is not a label name'
        if not _WINDOW.fullmatch(self.window):
            yield ("window",), f'"{self.window}" is not a PromQL duration such as 15m'


class ShadowOptions(StrictModel):
    """A profile of the same file whose decisions are compared with this one's and never bound.

    `profile` is its schedulerName, `sampleRatio` the share of the decisions that are compared.
    """

    profile: str
    sample_ratio: float = 1.0


class SecondarySchedulerOptionsArgs(ArgsModel):
    """Options of this scheduler.

    `kubernetesVersion` is the version of kube-scheduler to behave as, such as "1.36" (none: the cluster's).
    `compatibility: upstream` turns every deliberate difference off. `recheckNodesAbovePercent`: before a pod is bound,
    a node that is as full as this, or fuller, is read again from the API server (none: no node is).
    `explainAnnotation`: pods that fit nowhere get an annotation with the command that explains why.
    `hideQuotaFromAutoscalers`: pods that an ElasticQuota holds back are no reason for an autoscaler to add a node.
    `shadow`: another profile that is tried without effect beside this one (none: no profile is).
    """

    kubernetes_version: str | None = None
    compatibility: Literal["safe", "upstream"] = "safe"
    recheck_nodes_above_percent: int | None = None
    explain_annotation: bool = False
    hide_quota_from_autoscalers: bool = False
    shadow: ShadowOptions | None = None
    load: LoadOptions = Field(default_factory=LoadOptions)

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Check the load options; a known version; a percentage of 0 to 100; a share of more than 0."""
        version = self.kubernetes_version
        if version is not None and minor_of(version) not in KUBERNETES_VERSIONS:
            versions = ", ".join(f'"{row.name}"' for row in KUBERNETES_VERSIONS.values())
            yield ("kubernetesVersion",), f'"{version}" is not a version of kube-scheduler that is known: {versions}'
        percent = self.recheck_nodes_above_percent
        if percent is not None and not 0 <= percent <= 100:
            yield ("recheckNodesAbovePercent",), f"{percent} is not between 0 and 100"
        if self.shadow is not None and not 0 < self.shadow.sample_ratio <= 1:
            yield ("shadow", "sampleRatio"), f"{self.shadow.sample_ratio} is not above 0 and at most 1"
        for loc, message in self.load.check():
            yield ("load", *loc), message
