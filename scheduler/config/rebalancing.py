"""What the rebalancer may do, as its user writes it. The words are those of the descheduler where it has the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar

from pydantic import Field, ValidationError

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


class Percentages(StrictModel):
    """Per cent of a node's capacity by resource; a resource that is left out of both thresholds is not judged."""

    cpu: float | None = None
    memory: float | None = None

    def of(self, resource: str) -> float | None:
        """Return the value of one of `REBALANCED_RESOURCES`."""
        return self.cpu if resource == "cpu" else self.memory


class EvictionLimits(StrictModel):
    """Moves per interval: in all, from or to a node, of a namespace, of a workload (a number, or per cent of its
    replicas, rounded up)."""

    total: int = 5
    node: int = 2
    namespace: int | None = None
    workload: int | str = "10%"

    def of_workload(self, replicas: int) -> int:
        """Return how many pods of a workload may be moved."""
        if isinstance(self.workload, int):
            return self.workload
        match = _SHARE.fullmatch(self.workload)
        assert match is not None  # it was checked
        return -(-replicas * int(match[1]) // 100)


class NamespaceChoice(StrictModel):
    """Whose pods may be moved; all, without `include`."""

    include: tuple[str, ...] = Field(default=(), strict=False)
    exclude: tuple[str, ...] = Field(default=(), strict=False)


class SelectorRequirement(StrictModel):
    """One of a selector's expressions."""

    key: str
    operator: str
    values: tuple[str, ...] = Field(default=(), strict=False)


class PodSelector(StrictModel):
    """A label selector, as Kubernetes has it; without anything it selects all pods."""

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[SelectorRequirement, ...] = Field(default=(), strict=False)

    def compiled(self) -> Selector:
        """Return what matches labels.

        Raises:
            SelectorError: it is not valid.
        """
        return label_selector(self)


class RebalanceSettings(StrictModel):
    """All settings. Seconds, per cent, and points of a total score.

    Attributes:
        thresholds: a node below all of them has room.
        target_thresholds: a node above any of them is overloaded; no node is filled above them.
        use_deviation_thresholds: both are points below and above the mean of the nodes.
        consecutive_abnormalities: rounds in a row in which a node must be overloaded.
        minimum_gain: points by which the other node must be better; None: a tenth of what is attainable.
        cooldown_seconds: in which a workload is left alone after a move; doubled each time that a move did not land
            where it was to, up to `max_cooldown_seconds`, as far as `history_window_seconds` back.
        min_pod_age_seconds: a younger pod is not in the averages yet.
        min_replicas: a workload with fewer is left alone.
        priority_threshold: pods of this priority or above are left alone.
    """

    interval_seconds: int = 300
    thresholds: Percentages = Percentages(cpu=50.0, memory=60.0)
    target_thresholds: Percentages = Percentages(cpu=80.0, memory=90.0)
    use_deviation_thresholds: bool = False
    consecutive_abnormalities: int = 3
    minimum_gain: int | None = None
    eviction_limits: EvictionLimits = EvictionLimits()
    cooldown_seconds: int = 900
    max_cooldown_seconds: int = 21_600
    history_window_seconds: int = 172_800
    min_pod_age_seconds: int = 900
    min_replicas: int = 2
    priority_threshold: int | None = None
    namespaces: NamespaceChoice = NamespaceChoice()
    pod_selector: PodSelector = PodSelector()
    evict_local_storage: bool = False
    evict_jobs: bool = False
    evict_pods_without_pdb: bool = Field(default=True, alias="evictPodsWithoutPDB")

    def check(self) -> Iterator[tuple[Loc, str]]:
        """Numbers in their ranges, and thresholds that belong together."""
        yield from self._thresholds()
        for field, least in _LEAST.items():
            value = getattr(self, field)
            if value is not None and value < least:
                yield (RebalanceSettings.model_fields[field].alias or field,), f"must be at least {least}"
        if self.max_cooldown_seconds < self.cooldown_seconds:
            yield ("maxCooldownSeconds",), f"must be at least cooldownSeconds ({self.cooldown_seconds})"
        limits = self.eviction_limits
        for name, limit in (("total", limits.total), ("node", limits.node), ("namespace", limits.namespace)):
            if limit is not None and limit < 0:
                yield ("evictionLimits", name), "must not be negative"
        share = limits.workload
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
            for field, value in (("thresholds", low), ("targetThresholds", high)):
                if value is not None and not 0.0 <= value <= 100.0:
                    yield (field, resource), "must be between 0 and 100"
            if (low is None) != (high is None):
                yield ("thresholds", resource), "must be in thresholds and in targetThresholds, or in neither"
            elif low is not None and high is not None:
                judged += 1
                if not self.use_deviation_thresholds and low > high:
                    yield ("thresholds", resource), f"must not be above targetThresholds ({high:g})"
        if not judged:
            yield ("thresholds",), "names neither cpu nor memory"


class RebalancerSpec(RebalanceSettings):
    """`spec.rebalance` of a SecondaryScheduler: what becomes of plans, beside what may be moved.

    Attributes:
        mode: Off: no rebalancer runs. Predictive: it evicts with dryRun, so that nothing changes. Automatic: it evicts.
        image: this project's image; "" for the scheduler's.
    """

    mode: Literal["Off", "Predictive", "Automatic"]
    image: str = ""

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


_LEAST = {
    "interval_seconds": 10,
    "consecutive_abnormalities": 1,
    "minimum_gain": 1,
    "cooldown_seconds": 0,
    "history_window_seconds": 0,
    "min_pod_age_seconds": 0,
    "min_replicas": 1,
}


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
