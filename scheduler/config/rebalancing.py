"""What the rebalancer may do, as its user writes it. The words are those of the descheduler where it has the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import ConfigDict, Field, ValidationError, WithJsonSchema
from pydantic.config import JsonValue

from scheduler.catalog import Loc, StrictModel
from scheduler.config.load import Configuration
from scheduler.config.problems import messages_of
from scheduler.kube.primitives import Selector, SelectorError, label_selector

REBALANCED_RESOURCES = ("cpu", "memory")
"""What a node is judged by, in the order of output."""
_S = TypeVar("_S", bound="RebalanceSettings")
_SHARE = re.compile(r"(\d{1,3})%")


class RebalanceSettingsError(ValueError):
    """Settings that cannot be used: one problem per line, each with its field."""


Percentage = Annotated[float, Field(ge=0, le=100)]
Count = Annotated[int, Field(ge=0)]
Number = Annotated[int, Field(ge=1)]
Seconds = Annotated[int, Field(ge=0)]
ChosenNamespace = Annotated[str, Field(min_length=1, max_length=63)]


class Percentages(StrictModel):
    """Per cent of a node's capacity by resource; a resource that is left out of both thresholds is not judged."""

    cpu: Percentage | None = None
    memory: Percentage | None = None

    def of(self, resource: str) -> float | None:
        """Return the value of one of `REBALANCED_RESOURCES`."""
        return self.cpu if resource == "cpu" else self.memory


class EvictionLimits(StrictModel):
    """Moves per interval: in all, from or to a node, of a namespace, of a workload (a number, or per cent of its
    replicas, rounded up)."""

    total: Count = 5
    node: Count = 2
    namespace: Count | None = None
    workload: Annotated[
        int | str,
        WithJsonSchema(
            {
                "description": "A number of pods, or a share of the replicas such as 10%, rounded up.",
                "x-kubernetes-int-or-string": True,
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": "^(100|[0-9]{1,2})%$",
                "minimum": 0,
            }
        ),
    ] = "10%"

    def of_workload(self, replicas: int) -> int:
        """Return how many pods of a workload may be moved."""
        if isinstance(self.workload, int):
            return self.workload
        match = _SHARE.fullmatch(self.workload)
        assert match is not None  # it was checked
        return -(-replicas * int(match[1]) // 100)


class NamespaceChoice(StrictModel):
    """Whose pods may be moved; all, without `include`."""

    include: tuple[ChosenNamespace, ...] = Field(default=(), strict=False, max_length=512)
    exclude: tuple[ChosenNamespace, ...] = Field(default=(), strict=False, max_length=512)


class SelectorRequirement(StrictModel):
    """One of a selector's expressions."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                {
                    "rule": "self.operator in ['In', 'NotIn'] == (has(self.values) && size(self.values) > 0)",
                    "message": "values belong to In and NotIn, which need at least one",
                }
            ]
        }
    )

    key: str = Field(min_length=1, max_length=317)
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[Annotated[str, Field(max_length=63)], ...] = Field(default=(), strict=False, max_length=64)


class PodSelector(StrictModel):
    """A label selector, as Kubernetes has it; without anything it selects all pods."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = Field(default=(), strict=False, max_length=32)

    def compiled(self) -> Selector:
        """Return what matches labels.

        Raises:
            SelectorError: it is not valid.
        """
        return label_selector(self)


class RebalanceSettings(StrictModel):
    """All settings.

    Attributes:
        interval_seconds: time between rounds, for which the limits are; 300 if absent.
        thresholds: per cent of the capacity; a node below all of them has room. cpu 50, memory 60 if absent.
        target_thresholds: per cent of the capacity; a node above any of them is overloaded, and none is filled above
            them. cpu 80, memory 90 if absent.
        use_deviation_thresholds: both thresholds are points below and above the mean of all nodes.
        consecutive_abnormalities: rounds in a row in which a node must be overloaded; 3 if absent.
        minimum_gain: points of the total score by which the other node must be better; a tenth of what is attainable if
            absent.
        eviction_limits: moves per interval; total 5, node 2, workload 10% if absent, and no limit per namespace.
        cooldown_seconds: how long a workload is left alone after a move; 900 if absent. It is doubled each time that a
            move did not land where it was to.
        max_cooldown_seconds: how long repeated misses make it at most; 21600 if absent.
        history_window_seconds: how far back misses count; 172800 if absent.
        min_pod_age_seconds: a younger pod is left alone, as it is not in the averages yet; 900 if absent.
        min_replicas: a workload with fewer ready pods is left alone; 2 if absent.
        priority_threshold: pods of this priority or above are left alone.
        namespaces: whose pods may be moved; all without include.
        pod_selector: a label selector of the pods that may be moved; all if absent.
        evict_local_storage: move pods with emptyDir or hostPath.
        evict_jobs: move pods of Jobs.
        evict_pods_without_pdb: move pods that no PodDisruptionBudget covers. True if absent.
    """

    interval_seconds: int = Field(300, ge=10)
    thresholds: Percentages = Percentages(cpu=50.0, memory=60.0)
    target_thresholds: Percentages = Percentages(cpu=80.0, memory=90.0)
    use_deviation_thresholds: bool = False
    consecutive_abnormalities: Number = 3
    minimum_gain: Number | None = None
    eviction_limits: EvictionLimits = EvictionLimits()
    cooldown_seconds: Seconds = 900
    max_cooldown_seconds: Seconds = 21_600
    history_window_seconds: Seconds = 172_800
    min_pod_age_seconds: Seconds = 900
    min_replicas: Number = 2
    priority_threshold: int | None = None
    namespaces: NamespaceChoice = NamespaceChoice()
    pod_selector: PodSelector = PodSelector()
    evict_local_storage: bool = False
    evict_jobs: bool = False
    evict_pods_without_pdb: bool = Field(default=True, alias="evictPodsWithoutPDB")

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Thresholds and times that belong together, the share of a workload and the selector."""
        yield from self._thresholds()
        if self.max_cooldown_seconds < self.cooldown_seconds:
            yield ("maxCooldownSeconds",), f"must be at least cooldownSeconds ({self.cooldown_seconds})"
        share = self.eviction_limits.workload
        valid = share >= 0 if isinstance(share, int) else _is_share(share)
        if not valid:
            yield ("evictionLimits", "workload"), f'{share!r} is neither a number of pods nor a share such as "10%"'
        try:
            self.pod_selector.compiled()
        except SelectorError as error:
            yield ("podSelector",), str(error)

    def _thresholds(self) -> Iterator[tuple[Loc, str]]:
        if self.use_deviation_thresholds and not {"thresholds", "target_thresholds"} <= self.model_fields_set:
            yield (
                ("useDeviationThresholds",),
                "needs thresholds and targetThresholds, in points from the mean: their defaults are loads",
            )
        judged = 0
        for resource in REBALANCED_RESOURCES:
            low, high = self.thresholds.of(resource), self.target_thresholds.of(resource)
            if (low is None) != (high is None):
                yield ("thresholds", resource), "must be in thresholds and in targetThresholds, or in neither"
            elif low is not None and high is not None:
                judged += 1
                if not self.use_deviation_thresholds and low > high:
                    yield ("thresholds", resource), f"must not be above targetThresholds ({high:g})"
        if not judged:
            yield ("thresholds",), "names neither cpu nor memory"


def _belonging_together() -> Iterator[JsonValue]:
    """`RebalanceSettings.check` as rules of the CRD."""
    fields = RebalanceSettings.model_fields
    longest, cooldown = fields["max_cooldown_seconds"].default, fields["cooldown_seconds"].default
    yield {
        "rule": f"(has(self.maxCooldownSeconds) ? self.maxCooldownSeconds : {longest}) >= "
        f"(has(self.cooldownSeconds) ? self.cooldownSeconds : {cooldown})",
        "message": f"maxCooldownSeconds ({longest} if absent) must be at least cooldownSeconds ({cooldown} if absent)",
    }
    yield {
        "rule": "!has(self.useDeviationThresholds) || !self.useDeviationThresholds || "
        "(has(self.thresholds) && has(self.targetThresholds))",
        "message": "useDeviationThresholds needs thresholds and targetThresholds, in points from the mean: their "
        "defaults are loads",
    }
    for name in REBALANCED_RESOURCES:
        yield {
            "rule": f"(!has(self.thresholds) || has(self.thresholds.{name})) == "
            f"(!has(self.targetThresholds) || has(self.targetThresholds.{name}))",
            "message": f"{name} must be in thresholds and in targetThresholds, or in neither",
        }
    judged = (f"has(self.thresholds.{name})" for name in REBALANCED_RESOURCES)
    yield {
        "rule": f"!has(self.thresholds) || {' || '.join(judged)}",
        "message": f"thresholds names neither {' nor '.join(REBALANCED_RESOURCES)}",
    }
    for name in REBALANCED_RESOURCES:
        low, high = fields["thresholds"].default.of(name), fields["target_thresholds"].default.of(name)
        yield {
            "rule": "(has(self.useDeviationThresholds) && self.useDeviationThresholds) || "
            f"(has(self.thresholds) && !has(self.thresholds.{name})) || "
            f"(has(self.targetThresholds) && !has(self.targetThresholds.{name})) || "
            f"(has(self.thresholds) ? self.thresholds.{name} : {low}) <= "
            f"(has(self.targetThresholds) ? self.targetThresholds.{name} : {high})",
            "message": f"thresholds.{name} ({low:g} if absent) must not be above "
            f"targetThresholds.{name} ({high:g} if absent)",
        }


class RebalancerSpec(RebalanceSettings):
    """`spec.rebalance` of a SecondaryScheduler: what becomes of plans, beside what may be moved.

    Attributes:
        mode: Off: no rebalancer runs. Predictive: evictions are asked for with dryRun, so that nothing changes.
            Automatic: pods are evicted.
        image: this project's image, which has /bin/rebalancer. The scheduler's if absent.
    """

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-validations": [*_belonging_together()]})

    mode: Literal["Off", "Predictive", "Automatic"]
    image: str = Field("", max_length=1024)

    @property
    def settings(self) -> dict[str, Any]:
        """What may be moved, as the rebalancer reads it; only what was set."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude={"mode", "image"})

    @property
    def hash(self) -> str:
        """Hash of all that was set, by which the operator reports what is in effect; 16 hex digits."""
        text = json.dumps(self.model_dump(mode="json", by_alias=True, exclude_unset=True), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def rebalancer_obstacles(configuration: Configuration) -> Iterator[str]:
    """Yield why a rebalancer beside a scheduler with this configuration could never move anything."""
    if not configuration.flavour.is_ours:
        yield (
            f"needs this project's scheduler: {configuration.flavour.name} does not say which configuration it runs,"
            " without which nothing is moved"
        )
        return
    arguments = (profile.args(name) for profile in configuration.profiles for name in profile.enabled)
    sources = {key for args in arguments if args is not None and (key := args.source_key()) is not None}
    if not sources:
        yield "needs a plugin that reads the nodes' load, such as TargetLoadPacking: enable one, or set mode to Off"
    elif len(sources) > 1:
        yield f"needs one load source for all profiles, and they read {len(sources)}"


def read_rebalance_settings(content: Any) -> RebalanceSettings:
    """Return the settings in a mapping, which was read from YAML or JSON.

    Raises:
        RebalanceSettingsError: a field is unknown, has the wrong type, or is out of its range.
    """
    return _read(RebalanceSettings, content, "settings")


def read_rebalancer_spec(content: Any) -> RebalancerSpec:
    """Return `spec.rebalance` of a SecondaryScheduler, given that value.

    Raises:
        RebalanceSettingsError: as above.
    """
    return _read(RebalancerSpec, content, "mode")


def _read(model: type[_S], content: Any, root: str) -> _S:
    """`root` is how a problem of the whole is named."""
    try:
        settings = model.model_validate(content if content is not None else {})
    except ValidationError as error:
        problems = list(messages_of(error))
    else:
        problems = list(settings.check())
        if not problems:
            return settings
    raise RebalanceSettingsError("\n".join(f"{'.'.join(map(str, loc)) or root}: {text}" for loc, text in problems))


def _is_share(text: str) -> bool:
    match = _SHARE.fullmatch(text)
    return match is not None and int(match[1]) <= 100
