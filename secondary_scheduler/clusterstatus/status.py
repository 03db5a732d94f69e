"""What `status` says: `document` makes it, the command prints it, the pages show it and `bundle` keeps it.

Fields are camelCase in JSON, and each is in every document; None where it is not known.
"""

from __future__ import annotations

import enum

from msgspec import UNSET, Struct, UnsetType

from scheduler.answers import API_VERSION


class State(enum.StrEnum):
    """How an instance is, or a cluster: the worst of its problems."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


SEVEREST_FIRST = (State.FAILED, State.WARNING, State.OK)


class StatusProblem(Struct, frozen=True):
    """Something that is wrong.

    Attributes:
        subject: a condition, or the part of the installation that it is about.
        since: RFC 3339; None where that is not known.
    """

    severity: State
    subject: str
    message: str
    since: str | None = None


_EXPECTED = {
    "Available": "True",
    "Progressing": "False",
    "Degraded": "False",
    "Upgradeable": "True",
    "LoadDataFresh": "True",
    "NodesOvercommitted": "False",
    "KubernetesVersionCurrent": "True",
    "CacheCurrent": "True",
    "RebalancerReady": "True",
}
_REPORTED = frozenset({"LoadDataFresh", "NodesOvercommitted", "KubernetesVersionCurrent", "CacheCurrent"})
"""Conditions that repeat what the scheduler says of itself."""


class ObservedCondition(Struct, frozen=True):
    """A condition; `since` is RFC 3339."""

    type: str
    status: str
    reason: str
    message: str
    since: str | None

    @property
    def is_expected(self) -> bool:
        """Whether it is as it should be, so that it needs no line of its own."""
        # Of a Deployment, Progressing stays True; of ours, Unknown means that nothing is reported.
        if self.type == "Progressing" and self.reason == "NewReplicaSetAvailable":
            return True
        if self.status == "Unknown" and self.reason == "NotReported":
            return True
        return self.status == _EXPECTED.get(self.type, self.status)


class DeployedReplicas(Struct, frozen=True):
    """A scheduler's Deployment; `replicas` is how many it shall have."""

    name: str
    replicas: int
    ready: int
    available: int
    updated: int


class LeaderStatus(Struct, frozen=True, rename="camel"):
    """Who holds the Lease; times are RFC 3339."""

    pod: str
    since: str | None
    renewed_at: str | None
    lease_duration_seconds: int


class RolloutStatus(Struct, frozen=True, rename="camel"):
    """The last rollout, as the operator reports it."""

    configuration_hash: str | None
    outcome: str
    message: str | None
    time: str | None


class ConfigurationHashes(Struct, frozen=True):
    """Which configuration is wanted, and which the leader says it runs."""

    wanted: str | None
    running: str | None


class PluginWeight(Struct, frozen=True):
    """A plugin that scores."""

    name: str
    weight: int


class ShadowStatus(Struct, frozen=True, rename="camel"):
    """A profile that is tried beside another one.

    Attributes:
        differences: of it from that one, in words.
        compared: decisions by outcome, and how many were not compared; None where the scheduler does not say.
    """

    scheduler_name: str
    sample_ratio: float
    differences: list[str]
    compared: dict[str, int] | None


class ProfileStatus(Struct, frozen=True, rename="camel"):
    """A profile.

    Attributes:
        score: the heaviest first.
        plugins: all that are enabled.
        added, removed: of these, against the default profile.
    """

    scheduler_name: str
    score: list[PluginWeight]
    plugins: list[str]
    added: list[str]
    removed: list[str]
    shadow: ShadowStatus | UnsetType = UNSET


class UnreadableConfiguration(Struct, frozen=True):
    """Why the profiles of a configuration are not known."""

    problem: str


class LoadFreshness(Struct, frozen=True):
    """What the leader says of its load sources together."""

    fresh: bool
    message: str


class VersionStatus(Struct, frozen=True, rename="camel"):
    """Images and versions; `operator_ready` is as kubectl shows it, `incompatibilities` are in words."""

    image: str | None
    flavour: str | None
    behaves_as: str | None
    operator_image: str | None
    operator_ready: str | None
    incompatibilities: list[str]


class LoadSourceStatus(Struct, frozen=True, rename="camel"):
    """A load source: the age of its newest sample, None where there never was one, and nodes by the state of theirs."""

    source: str | None
    fresh: bool
    age_seconds: float | None
    nodes: dict[str, int]


class RecentAttempts(Struct, frozen=True):
    """The last attempts: how many there were in how many seconds, by result."""

    count: int
    seconds: float
    results: dict[str, int]


class AttemptTotals(Struct, frozen=True, rename="camel"):
    """Attempts by result since the scheduler's start, and the last ones."""

    since_start: dict[str, int] | None
    last: RecentAttempts | None


class RecentPlacement(Struct, frozen=True):
    """A pod that was placed lately; `pod` is `namespace/name`."""

    time: str
    pod: str
    node: str


class RecentError(Struct, frozen=True):
    """An attempt that failed lately."""

    time: str
    pod: str
    message: str


class InstanceStatus(Struct, frozen=True, kw_only=True, rename="camel"):
    """One scheduler.

    Attributes:
        kind: of what is named: `SecondaryScheduler`, or without one `Deployment` or `Lease`.
        management_state: None without a SecondaryScheduler.
        alive: whether a replica leads and works.
        profiles: None where the configuration is not known.
        unread_resources: kinds that the scheduler needs and cannot read.
        queue, rejected_by: waiting pods by queue, and by the plugins that rejected them last.
        placements, errors: the newest first.
    """

    namespace: str
    name: str
    kind: str
    state: State = State.OK
    problems: list[StatusProblem] = []
    management_state: str | None
    conditions: list[ObservedCondition]
    deployment: DeployedReplicas | None
    leader_election: bool
    leader: LeaderStatus | None
    alive: bool | None
    rollout: RolloutStatus | None
    configuration: ConfigurationHashes
    profiles: list[ProfileStatus] | UnreadableConfiguration | None
    load_data: LoadFreshness | None
    unread_resources: str | None
    versions: VersionStatus
    load_sources: list[LoadSourceStatus] | None
    queue: dict[str, int] | None
    rejected_by: dict[str, int] | None
    attempts: AttemptTotals
    placements: list[RecentPlacement] | None
    errors: list[RecentError] | None

    @property
    def title(self) -> str:
        """Its namespace and name."""
        return f"{self.namespace}/{self.name}"

    @property
    def is_without_replica(self) -> bool:
        """Whether its Deployment has none that is ready."""
        return self.deployment is not None and not self.deployment.ready

    @property
    def is_operator_down(self) -> bool:
        """Whether none of the operator's replicas is ready."""
        ready = self.versions.operator_ready
        return ready is not None and is_none_ready(ready)

    @property
    def current_conditions(self) -> list[ObservedCondition]:
        """The conditions that can hold: the operator needs some seconds to see that a scheduler has ended, and a
        scheduler that has ended reports nothing."""
        silent = self.is_without_replica or self.alive is False
        return [
            condition
            for condition in self.conditions
            if not (silent and condition.type in _REPORTED)
            and not (self.is_without_replica and (condition.type, condition.status) == ("Available", "True"))
        ]


class ClusterIdentity(Struct, frozen=True):
    """The API server's address, and versions; `openshift` is None on other clusters."""

    server: str
    kubernetes: str
    openshift: str | None

    @property
    def versions(self) -> str:
        """The versions for people."""
        return f"Kubernetes {self.kubernetes}{f', OpenShift {self.openshift}' if self.openshift else ''}"


class StatusReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """The document.

    Attributes:
        time: of the answers, RFC 3339.
        state: of the worst instance; `failed` without any.
        not_shown: what could not be read and which right is missing, a line each.
    """

    api_version: str = API_VERSION
    kind: str = "Status"
    time: str
    state: State
    cluster: ClusterIdentity
    instances: list[InstanceStatus]
    not_shown: list[str]

    @property
    def worst_first(self) -> list[InstanceStatus]:
        """The instances by state."""
        return sorted(self.instances, key=lambda instance: SEVEREST_FIRST.index(instance.state))


def is_none_ready(ready: str) -> bool:
    """Whether no replica is ready, by what kubectl shows: `0/1`."""
    return ready.startswith("0/")
