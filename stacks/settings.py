"""The settings of a stack: what stands under `secondary-scheduler:` in `stacks/Pulumi.<stack>.yaml`.

Names are camelCase in the file; nothing is coerced and an unknown key is an error. Secrets are keys of their own
(`prometheusToken`, `kubeconfig`) and never part of these models: Pulumi keeps a structured value in clear as soon as
the program has read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from scheduler.catalog import INSTANCE_NAME, STATUS_KINDS, ExtensionPoint, Loc
from stacks.installing import InstallMode, OperatorSource, OptionalObjects
from stacks.metric_settings import MetricProviderSettings
from stacks.values import (
    SECRET_ARGUMENT,
    FileName,
    Image,
    ServerAddress,
    SettingsModel,
    Subdomain,
    Version,
    absent_if_empty,
)


def _required_by_manifests_mode(value: str | None, info: ValidationInfo) -> str | None:
    if value is None and info.data.get("install_mode") == "manifests":
        raise ValueError("missing; set it, for example with: pulumi config set operatorImage VALUE")
    return value


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
    """A plugin at an extension point, and its args under upstream's names. They count wherever the plugin runs, so
    that they are given once."""

    name: str = Field(min_length=1)
    args: Annotated[dict[str, Any], AfterValidator(_plugin_args)] = Field(default_factory=dict)


class ScorePluginChoice(PluginChoice):
    """A plugin that may score, and its weight in the sum of scores."""

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
        """Yield what is chosen, under the names that the file and upstream give the extension points."""
        for name, field in type(self).model_fields.items():
            selection: PluginSelection | ScorePluginSelection = getattr(self, name)
            if selection.enabled or selection.disabled:
                yield field.alias or name, selection

    def chosen(self) -> Iterator[tuple[Loc, PluginChoice]]:
        """Yield every enabled plugin with its place below the settings that hold these plugins."""
        for point, selection in self.by_point():
            for index, choice in enumerate(selection.enabled):
                yield ("plugins", point, "enabled", index), choice


class ClusterSettings(SettingsModel):
    """The cluster of the stack.

    Attributes:
        cluster_identifier: a name of your choice that never changes; only a new one makes Pulumi treat the cluster as
            another one and create everything anew.
        context: context of the kubeconfig; its current one if absent.
        server: address of the cluster's API server; a kubeconfig that leads elsewhere is refused.
        kubernetes_version, openshift_version: what the cluster runs, for the check of compatibility; a preview asks
            no cluster.
    """

    cluster_identifier: str = Field(min_length=1, max_length=253)
    context: str | None = Field(None, min_length=1)
    server: ServerAddress | None = None
    kubernetes_version: Version | None = None
    openshift_version: Version | None = None


class Rule(SettingsModel):
    """One RBAC rule, under the names that a ClusterRole has for it."""

    api_groups: tuple[str, ...] = Field(min_length=1)
    resources: tuple[str, ...] = Field(min_length=1)
    verbs: tuple[str, ...] = Field(min_length=1)
    resource_names: tuple[str, ...] = ()


class ExtraPluginSettings(SettingsModel):
    """A plugin that only a custom image has.

    Attributes:
        points: extension points that it implements, under upstream's names.
        args: passed through unchecked wherever the plugin runs and is not given others.
        rbac: RBAC rules it needs in addition to every scheduler's.
        crds: names (plural.group) of the CustomResourceDefinitions that it reads; its own installation brings them.
    """

    name: str = Field(min_length=1)
    points: tuple[ExtensionPoint, ...] = Field(min_length=1)
    args: Annotated[dict[str, Any], AfterValidator(_plugin_args)] = Field(default_factory=dict)
    rbac: tuple[Rule, ...] = ()
    crds: tuple[Subdomain, ...] = ()


class ProfileEntry(SettingsModel):
    """One of several profiles.

    Attributes:
        metric_provider: instead of the stack's; its credentials are the stack's and go to the stack's address only.
        compatibility: instead of the stack's.
    """

    scheduler_name: Subdomain
    plugins: PluginSettings = PluginSettings()
    metric_provider: MetricProviderSettings | None = None
    compatibility: Literal["safe", "upstream"] | None = None


class ProfileSettings(SettingsModel):
    """The part of the settings that becomes the scheduler's configuration.

    Attributes:
        allow_default_scheduler_name: let schedulerName be default-scheduler, at the risk of two schedulers that place
            the same pods.
        compatibility: `upstream` switches off what our image does better than the Go one on purpose.
        profiles: several profiles, instead of one from schedulerName and plugins.
        configuration_file: a KubeSchedulerConfiguration next to the stack file, instead of all of these.
        flavour: what the scheduler's image is, where its name does not tell or tells wrong.
        extra_plugins: plugins that a custom image has in addition to the catalogue's.
    """

    scheduler_name: Subdomain = "secondary-scheduler"
    allow_default_scheduler_name: bool = False
    compatibility: Literal["safe", "upstream"] = "safe"
    plugins: PluginSettings = PluginSettings()
    metric_provider: Annotated[MetricProviderSettings | None, BeforeValidator(absent_if_empty)] = None
    profiles: tuple[ProfileEntry, ...] = ()
    configuration_file: FileName | None = None
    flavour: str | None = None
    extra_plugins: tuple[ExtraPluginSettings, ...] = ()


class InstanceSettings(SettingsModel):
    """A further SecondaryScheduler that the stack's operator serves."""

    namespace: Subdomain | None = None
    name: Subdomain = INSTANCE_NAME

    @model_validator(mode="after")
    def _not_the_stacks_own(self) -> Self:
        if self.namespace is None and self.name == INSTANCE_NAME:
            raise ValueError(
                "must hold a namespace, a name or both; the stack's own is called cluster, in the operator's namespace"
            )
        return self


class OperatorSettings(OperatorSource):
    """Which operator it is, and what it serves in addition to the stack's own scheduler.

    Attributes:
        instances: namespaces (the operator's own if absent) and names of further SecondarySchedulers. Who makes them,
            and their namespaces, is not this stack.
        status_of: kinds of scheduler-plugins whose status it keeps; if absent, those that plugins of this stack read,
            and all where there are further instances.
    """

    instances: tuple[InstanceSettings, ...] = ()
    status_of: tuple[Literal["podgroups", "elasticquotas"], ...] | None = None

    def keeps_status_of(self, crds: Collection[str]) -> list[str]:
        """The plurals, given the CRDs that enabled plugins read."""
        if self.status_of is not None:
            return list(dict.fromkeys(self.status_of))
        return [kind for kind in STATUS_KINDS if self.instances or f"{kind}.scheduling.x-k8s.io" in crds]


def _catalog_for_catalog_mode(value: OperatorSettings, info: ValidationInfo) -> OperatorSettings:
    mode = info.data.get("install_mode")
    if mode == "catalog" and value.catalog is None:
        raise ValueError("must hold catalog, with an image or an address: installMode is catalog")
    return value


class StackSettings(ProfileSettings):
    """All settings of a stack.

    Attributes:
        compatibility_check: what to do when versions do not go together.
        install_plugin_crds: install the CRDs that enabled plugins read, such as PodGroup.
        protect: refuse to delete namespace, CRDs and SecondaryScheduler, and leave the CRDs in the cluster if the stack
            goes.
        install_mode: how the operator gets into the cluster, or that there is none.
        retain_crds: leave the CRDs in the cluster if the stack goes, as protect does, and protect nothing; if absent,
            in production only.
        adopt_existing: take over objects that are in the cluster already, and what others set in them.
        operator: which operator it is, where OLM finds it, and what it serves in addition to this stack's scheduler.
        optional_objects: optional objects around the scheduler.
        replicas: how many schedulers to run; one leads, the others wait for its Lease.
        ready_seconds: how long the scheduler may take until an update has failed.
    """

    cluster: ClusterSettings
    scheduler_image: Image
    install_mode: InstallMode = "manifests"
    operator_image: Annotated[Image | None, AfterValidator(_required_by_manifests_mode)] = Field(
        None, validate_default=True
    )
    log_level: Literal["Normal", "Debug", "Trace", "TraceAll"] = "Normal"
    compatibility_check: Literal["warn", "fail", "off"] = "warn"
    install_plugin_crds: bool = True
    protect: bool = False
    retain_crds: bool | None = None
    adopt_existing: bool = False
    operator: Annotated[OperatorSettings, AfterValidator(_catalog_for_catalog_mode)] = Field(
        OperatorSettings(), validate_default=True
    )
    optional_objects: OptionalObjects = OptionalObjects()
    replicas: int = Field(1, ge=1, le=9)
    ready_seconds: int = Field(180, ge=10, le=3600)

    @property
    def openshift(self) -> bool:
        """Whether the cluster is OpenShift, as far as the settings tell."""
        return self.cluster.openshift_version is not None
