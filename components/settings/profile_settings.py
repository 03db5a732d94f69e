"""The settings that become the scheduler's configuration: plugins, metric source, profiles.

Names are camelCase, as in the configuration; nothing is coerced and an unknown key is an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from scheduler.catalog import ExtensionPoint, Loc
from scheduler.config import SettingsModel

from .metric_settings import MetricProviderSettings
from .partition import NodePartitionSettings, SharedNodesSettings
from .values import SECRET_ARGUMENT, Subdomain, absent_if_empty


def _plugin_args(value: dict[str, Any]) -> dict[str, Any]:
    if "metricProvider" in value:
        raise ValueError("must not hold metricProvider; set the metric source once, under the key metricProvider")
    for key, nested in value.items():
        if SECRET_ARGUMENT.search(key) and isinstance(nested, str):
            raise ValueError(f"must not hold {key}: it would end up in a ConfigMap; use metricProvider.credentials")
        if isinstance(nested, dict):
            _plugin_args(nested)
    return value


class PluginChoice(SettingsModel):
    """A plugin at an extension point, and its args under upstream's names; they apply at all of its points."""

    name: str = Field(min_length=1)
    args: Annotated[dict[str, Any], AfterValidator(_plugin_args)] = Field(default_factory=dict)


class ScorePluginChoice(PluginChoice):
    """A plugin that may score, with its weight in the sum of scores."""

    weight: int = Field(1, ge=1, le=100)


class PluginSelection(SettingsModel):
    """Plugins enabled at an extension point in addition to the default ones, and default ones disabled (`*`: all)."""

    enabled: tuple[PluginChoice, ...] = ()
    disabled: tuple[str, ...] = ()


class ScorePluginSelection(SettingsModel):
    """As `PluginSelection`, where plugins have weights."""

    enabled: tuple[ScorePluginChoice, ...] = ()
    disabled: tuple[str, ...] = ()


class PluginSettings(SettingsModel):
    """Plugins by extension point; `multiPoint` stands for every point that a plugin implements."""

    multi_point: ScorePluginSelection = ScorePluginSelection()
    pre_enqueue: PluginSelection = PluginSelection()
    queue_sort: PluginSelection = PluginSelection()
    pre_filter: PluginSelection = PluginSelection()
    filter: PluginSelection = PluginSelection()
    post_filter: PluginSelection = PluginSelection()
    pre_score: PluginSelection = PluginSelection()
    score: ScorePluginSelection = ScorePluginSelection()
    reserve: PluginSelection = PluginSelection()
    permit: PluginSelection = PluginSelection()
    pre_bind: PluginSelection = PluginSelection()
    bind: PluginSelection = PluginSelection()
    post_bind: PluginSelection = PluginSelection()

    def by_point(self) -> Iterator[tuple[str, PluginSelection | ScorePluginSelection]]:
        """Yield extension point, by its name in the file, and selection, for every point with plugins."""
        for name, field in type(self).model_fields.items():
            selection: PluginSelection | ScorePluginSelection = getattr(self, name)
            if selection.enabled or selection.disabled:
                yield field.alias or name, selection

    def chosen(self) -> Iterator[tuple[Loc, PluginChoice]]:
        """Yield every enabled plugin with its location below the settings that contain this model."""
        for point, selection in self.by_point():
            for index, choice in enumerate(selection.enabled):
                yield ("plugins", point, "enabled", index), choice


class Rule(SettingsModel):
    """One RBAC rule, with the field names of a ClusterRole."""

    api_groups: tuple[str, ...] = Field(min_length=1)
    resources: tuple[str, ...] = Field(min_length=1)
    verbs: tuple[str, ...] = Field(min_length=1)
    resource_names: tuple[str, ...] = ()


class ExtraPluginSettings(SettingsModel):
    """A plugin that only a custom image has.

    Attributes:
        points: extension points that it implements, under upstream's names.
        args: default args, passed through unchecked.
        rbac: RBAC rules it needs in addition to every scheduler's.
        crds: names (plural.group) of the CustomResourceDefinitions that it reads; they must be installed separately.
    """

    name: str = Field(min_length=1)
    points: tuple[ExtensionPoint, ...] = Field(min_length=1)
    args: Annotated[dict[str, Any], AfterValidator(_plugin_args)] = Field(default_factory=dict)
    rbac: tuple[Rule, ...] = ()
    crds: tuple[Subdomain, ...] = ()


class ShadowSettings(SettingsModel):
    """A profile that is tried beside another one: it decides about the same pods, and nothing follows from it. None is
    tried where nothing is set.

    Attributes:
        plugins: as those of a profile; none: by load, where a metric source is named.
        metric_provider: overrides the profile's, as that of an entry of `profiles` overrides the stack's.
        compatibility: overrides the profile's.
        sample_ratio: the share of the profile's decisions that are compared.
    """

    plugins: PluginSettings = PluginSettings()
    metric_provider: MetricProviderSettings | None = None
    compatibility: Literal["safe", "upstream"] | None = None
    sample_ratio: float = Field(1.0, gt=0, le=1)


class ProfileEntry(SettingsModel):
    """One of several profiles.

    Attributes:
        metric_provider: overrides the stack's. It cannot have credentials: the stack's are used, for the stack's
            address only.
        compatibility: overrides the stack's.
        shadow: a profile that is tried beside this one.
    """

    scheduler_name: Subdomain
    plugins: PluginSettings = PluginSettings()
    metric_provider: MetricProviderSettings | None = None
    compatibility: Literal["safe", "upstream"] | None = None
    shadow: ShadowSettings = ShadowSettings()


class ProfileSettings(SettingsModel):
    """The settings that become the scheduler's configuration.

    Attributes:
        scheduler_name: the spec.schedulerName of the pods that this scheduler schedules.
        allow_default_scheduler_name: allow schedulerName default-scheduler, at the risk of two schedulers that schedule
            the same pods.
        compatibility: safe, or upstream: without the deliberate improvements of this scheduler over the Go one. See
            docs/differences.md.
        plugins: plugins by extension point (score, filter, queueSort, …, or multiPoint: every point of a plugin), each
            with enabled ones, as a list of {name, weight, args}, and disabled ones, as a list of names. They are added
            to those of the default profile. Default: with a metricProvider TargetLoadPacking with weight 10, in place
            of the scores of NodeResourcesFit and NodeResourcesBalancedAllocation (none with a custom image); else none,
            and the preview warns that pods are not placed by load.
        metric_provider: source of the nodes' load. See docs/load.md.
        shadow: a profile that is tried beside the scheduler's own: it decides about the same pods, and nothing follows
            from it. See docs/stack-settings.md#a-shadow.
        node_partition: nodes that only this scheduler uses. Its pods are kept on them; the output nodePartition says
            what to do to nodes and pods. See docs/stack-settings.md#nodes-of-its-own.
        shared_nodes: what to do where another scheduler uses the same nodes. See
            docs/operating.md#does-another-scheduler-use-the-same-nodes.
        explain_annotation: pods that fit nowhere get an annotation with the command that explains why; kubectl describe
            shows it. Only with this project's image. See docs/explain.md#where-kubectl-describe-shows-it.
        profiles: several profiles instead of schedulerName and plugins. See docs/stack-settings.md#several-profiles.
        flavour: what schedulerImage is, if its name does not say so (a digest, a mirror): ours, custom or a release, as
            scheduler-plugins@0.34.
        extra_plugins: plugins that only a custom image has. See docs/stack-settings.md#images.
    """

    scheduler_name: Subdomain = "secondary-scheduler"
    allow_default_scheduler_name: bool = False
    compatibility: Literal["safe", "upstream"] = "safe"
    plugins: PluginSettings = PluginSettings()
    metric_provider: Annotated[MetricProviderSettings | None, BeforeValidator(absent_if_empty)] = None
    shadow: ShadowSettings = ShadowSettings()
    node_partition: Annotated[NodePartitionSettings | None, BeforeValidator(absent_if_empty)] = None
    shared_nodes: SharedNodesSettings = SharedNodesSettings()
    explain_annotation: bool = False
    profiles: tuple[ProfileEntry, ...] = ()
    flavour: str | None = None
    extra_plugins: tuple[ExtraPluginSettings, ...] = ()
