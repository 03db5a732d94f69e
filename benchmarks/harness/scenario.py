"""Scenarios: YAML files in the shape of scheduler_perf (operations, workloads with parameters, labels, thresholds).

`$name` in an operation's number stands for a parameter of the workload. In templates `$index` stands for the number of
the object, `$zone` for its zone (index modulo the operation's `zones`) and `$group` for index divided by `groupSize`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from scheduler.catalog import lookup

DIRECTORY = Path(__file__).resolve().parent.parent / "scenarios"
NAMESPACE = "race"
SCHEDULER_NAME = "race"
ROLE = "race.secondary-scheduler.io/role"
"""Label of the pods that the race itself looks at; the pods that fill the cluster beforehand do not have it."""
Json = dict[str, Any]
Metric = Literal[
    "drain_rate", "sustained_rate", "cpu_per_pod", "latency_p99", "rss", "start_to_first_bind", "load_stddev"
]


class ScenarioError(ValueError):
    """A scenario that cannot be run; the text says which, why, and what to do."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


Number = int | str
"""A number, or `$name` of a parameter."""


class _Counted(_Model):
    count: Number
    template: str
    zones: int = 3
    group_size: Number = Field(1, alias="groupSize")


class CreateNodes(_Counted):
    """Nodes without kubelets."""

    opcode: Literal["createNodes"]
    template: str = "node"


class CreateObjects(_Counted):
    """Whatever else the pods need, such as PodGroups."""

    opcode: Literal["createObjects"]
    path: str
    """Collection to POST to."""


class CreatePods(_Counted):
    """Pods. `placed`: already on nodes, in turn, before any contestant starts, and with their template's status if it
    has one. `measured`: the backlog."""

    opcode: Literal["createPods"]
    placed: bool = False
    measured: bool = False
    every_round: bool = Field(False, alias="everyContestant")
    """Created again for each contestant, since contestants delete them."""
    claim: str = ""
    """Template of a ResourceClaim that each of them has, by the pod's name; backlogs only."""


class Churn(_Model):
    """One more object of a template every so often, while the backlog is drained."""

    opcode: Literal["churn"]
    template: str
    interval_milliseconds: int = Field(alias="intervalMilliseconds")


class Arrivals(_Model):
    """Steady arrivals after the backlog: for the latency from creation to binding."""

    opcode: Literal["steadyPods"]
    template: str
    rate: Number
    seconds: Number


Operation = Annotated[CreateNodes | CreateObjects | CreatePods | Churn | Arrivals, Field(discriminator="opcode")]


class RatioBound(_Model):
    """The least and the most that a ratio (ours divided by the peer's) may be."""

    least: float | None = None
    most: float | None = None


class Workload(_Model):
    """One size of a scenario."""

    name: str
    labels: tuple[str, ...] = ()
    params: dict[str, int]
    thresholds: dict[Metric, RatioBound] = {}
    limits: dict[Literal["event_age_max", "livez_p99"], float] = {}
    """The most that a figure of ours may be in any round, whatever the peer's."""
    one_cluster: bool = Field(False, alias="oneCluster")
    """All rounds on one cluster, since making it takes longer than they do. --resume has no effect."""
    timeout_seconds: float = Field(600, alias="timeoutSeconds")
    """How long a contestant may take for the backlog; what is not bound by then counts as not bound."""


class ContestantProfile(_Model):
    """How the contestants are configured, and which Go scheduler the peer is."""

    peer: Literal["kube-scheduler", "scheduler-plugins"] = "kube-scheduler"
    plugins: Json = {}
    plugin_config: list[Json] = Field([], alias="pluginConfig")
    extra: Json = {}
    """More top-level fields of the configuration."""


class Scenario(ContestantProfile):
    """One kind of cluster and of pods."""

    name: str
    description: str
    watcher: bool = False
    """Serve loads of all nodes at a stub of load-watcher's `/watcher`; `$watcher` in pluginConfig is its address."""
    probe_liveness: bool = Field(False, alias="probeLiveness")
    definitions: list[str] = []
    """CustomResourceDefinitions that the plugins need: files beside the scenarios."""
    templates: dict[str, Json]
    workload_template: list[Operation] = Field(alias="workloadTemplate")
    workloads: list[Workload]

    @field_validator("workloads")
    @classmethod
    def _has_workloads(cls, workloads: list[Workload]) -> list[Workload]:
        if not workloads:
            raise ValueError("a scenario needs at least one workload")
        return workloads

    @model_validator(mode="after")
    def _templates_exist(self) -> Scenario:
        for operation in self.workload_template:
            if operation.template not in self.templates:
                raise ValueError(f"{operation.opcode}: there is no template named {operation.template!r}")
            if isinstance(operation, CreatePods) and operation.claim and operation.claim not in self.templates:
                raise ValueError(f"{operation.opcode}: there is no template named {operation.claim!r}")
        if sum(isinstance(operation, CreatePods) and operation.measured for operation in self.workload_template) != 1:
            raise ValueError("exactly one createPods has to be `measured`")
        return self

    def measured(self) -> CreatePods:
        """The operation that makes the backlog."""
        return next(
            operation
            for operation in self.workload_template
            if isinstance(operation, CreatePods) and operation.measured
        )

    def require_implemented(self) -> None:
        """Raise ScenarioError when our catalogue has a plugin of the profile as known, but not as implemented."""
        names = {
            entry["name"] for point in self.plugins.values() for entry in point.get("enabled", ()) if "name" in entry
        }
        missing = sorted(name for name in names if (descriptor := lookup(name)) is None or not descriptor.implemented)
        if missing:
            raise ScenarioError(
                f"scenario {self.name}: plugin {', '.join(missing)} is not implemented by this scheduler yet, so there "
                "is nothing to race; choose another scenario"
            )


def with_params(templates: dict[str, Json], params: dict[str, int]) -> dict[str, Json]:
    """Templates with the workload's parameters put in where one stands alone, as in `minMember: $gang`."""
    text = json.dumps(templates)
    for name, value in params.items():
        text = text.replace(f'"${name}"', str(value))
    filled: dict[str, Json] = json.loads(text)
    return filled


class Render:
    """Objects of one template, as JSON bytes."""

    def __init__(self, template: Json, operation: _Counted | None = None, **fixed: str) -> None:
        self._text = json.dumps(template, separators=(",", ":"))
        for key, value in fixed.items():
            self._text = self._text.replace(f"${key}", value)
        self._zones = operation.zones if operation else 3
        self._group = int(operation.group_size) if operation else 1

    def __call__(self, index: int) -> bytes:
        """The object with this number."""
        text = self._text.replace("$zone", f"zone-{index % self._zones}").replace("$group", str(index // self._group))
        return text.replace("$index", f"{index:05d}").encode()


def resolved(scenario: Scenario, workload: Workload) -> list[Operation]:
    """The operations of a workload, with its parameters put in; those with count 0 are left out.

    Raises:
        ScenarioError: a parameter is missing.
    """
    operations: list[Operation] = []
    for operation in scenario.workload_template:
        values: dict[str, int] = {}
        for field, value in operation:
            if isinstance(value, str) and value.startswith("$"):
                if value[1:] not in workload.params:
                    raise ScenarioError(f"scenario {scenario.name}, workload {workload.name}: no parameter {value}")
                values[field] = workload.params[value[1:]]
        filled = operation.model_copy(update=values)
        if getattr(filled, "count", 1) and getattr(filled, "rate", 1):
            operations.append(filled)
    return operations


def load(directory: Path = DIRECTORY) -> dict[str, Scenario]:
    """All scenarios by name.

    Raises:
        ScenarioError: a file is no scenario.
    """
    scenarios: dict[str, Scenario] = {}
    for file in sorted(directory.glob("*.yaml")):
        try:
            scenario = Scenario.model_validate(yaml.safe_load(file.read_text(encoding="utf-8")))
        except (yaml.YAMLError, ValidationError) as error:
            raise ScenarioError(f"{file}: {error}") from error
        scenarios[scenario.name] = scenario
    return scenarios


def choose(
    scenarios: dict[str, Scenario], names: list[str], *, label: str | None, nodes: int | None
) -> Iterator[tuple[Scenario, Workload]]:
    """The workloads that a command line asks for: by `Scenario` or `Scenario/Workload`, by label, by number of nodes.

    Raises:
        ScenarioError: there is no such scenario or workload.
    """
    for name in names or list(scenarios):
        wanted, _, size = name.partition("/")
        scenario = next((candidate for key, candidate in scenarios.items() if key.lower() == wanted.lower()), None)
        if scenario is None:
            raise ScenarioError(f"--scenario {name}: no such scenario; one of {', '.join(scenarios)}")
        fitting = [
            workload
            for workload in scenario.workloads
            if (not size or workload.name == size)
            and (label is None or label in workload.labels)
            and (nodes is None or workload.params.get("nodes") == nodes)
        ]
        if names and not fitting:
            have = ", ".join(workload.name for workload in scenario.workloads)
            raise ScenarioError(f"--scenario {name}: no workload of it fits; it has {have}")
        yield from ((scenario, workload) for workload in fitting)
