"""The settings of a stack: the keys `secondary-scheduler:…` of `stacks/Pulumi.<stack>.yaml`.

Names are camelCase in the file; nothing is coerced and an unknown key is an error. Secrets have keys of their own
(`prometheusToken`, `kubeconfig`) and are never part of these models: Pulumi stores a structured value in plain text
once the program has read it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, model_validator

from components.settings import (
    FileName,
    Image,
    ObjectName,
    OptInSettings,
    PageSettings,
    ProfileSettings,
    RebalancerSettings,
    Repository,
    ResourceQuantity,
    ServerAddress,
    SettingsModel,
    Subdomain,
    Version,
    absent_if_empty,
    pruned_by,
)
from scheduler import __version__
from scheduler.catalog import INSTANCE_NAME, OPERATOR_NAMESPACE, STATUS_KINDS, is_label
from scheduler.config import image_flavour, split_image
from stacks.installing import AlertSettings, InstallMode, OperatorSource, OptionalObjects
from stacks.tracing import TracingSettings

_NOT_OURS = frozenset({"default", "openshift"})
_OUR_NAME = "/kube-scheduler"
_SET_OPERATOR = "set it: pulumi config set operatorImage"


def _operator_beside_scheduler(value: str | None, info: ValidationInfo) -> str | None:
    """The operator's image where the stack file leaves it out: the one that was pushed together with the scheduler's.

    Only a tag says which one: two images that belong together have different digests."""
    mode, image, operator = (info.data.get(name) for name in ("install_mode", "scheduler_image", "operator"))
    if value is not None or mode != "manifests" or image is None or operator is None:
        return value  # given, not needed, or to be judged once what it follows from is right
    if operator.is_upstream(mode):
        raise ValueError(f"missing; {_SET_OPERATOR} REGISTRY/secondary-scheduler-operator:TAG, the upstream one")
    repository, tag = split_image(image)
    ours = image_flavour(image, info.data.get("flavour") or "").is_ours and repository.endswith(_OUR_NAME)
    if ours and tag and "@" not in image:
        return f"{repository.removesuffix(_OUR_NAME)}/operator:{tag}"
    registry = repository.removesuffix(_OUR_NAME) if ours else "REGISTRY/secondary-scheduler"
    raise ValueError(
        f"missing, and it follows from schedulerImage only where that is this project's image by tag; {_SET_OPERATOR} "
        f"{registry}/operator:{tag if ours and tag else __version__}"
    )


def _traced_by_ours(value: TracingSettings | None, info: ValidationInfo) -> TracingSettings | None:
    """Only this project's scheduler traces, and upstream's SecondaryScheduler has no field for its environment."""
    mode, image, operator = (info.data.get(name) for name in ("install_mode", "scheduler_image", "operator"))
    if value is None or mode is None or image is None or operator is None:
        return value
    if image_flavour(image, info.data.get("flavour") or "").family == "scheduler-plugins":
        raise ValueError("is for this project's image: that of schedulerImage does not trace attempts")
    if mode != "direct" and operator.is_upstream(mode):
        raise ValueError("needs this project's operator, or installMode direct: upstream's cannot set it")
    return value


class ClusterSettings(SettingsModel):
    """The cluster of the stack.

    Attributes:
        cluster_identifier: a name that never changes; with another one Pulumi replaces every object, as for another
            cluster. Default: the stack's name.
        context: context of the kubeconfig; default: its current one.
        server: address of the cluster's API server; a kubeconfig for another server is refused.
        kubernetes_version, openshift_version: versions of the cluster, for the compatibility check and for what
            follows from them.
    """

    cluster_identifier: str | None = Field(None, min_length=1, max_length=253)
    context: str | None = Field(None, min_length=1)
    server: ServerAddress | None = None
    kubernetes_version: Version | None = None
    openshift_version: Version | None = None


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
    """Which operator is used, and what it serves in addition to the stack's own scheduler.

    Attributes:
        instances: further SecondarySchedulers, which this stack does not create, nor their namespaces.
        status_of: kinds of scheduler-plugins whose status it maintains; default: those that plugins of this stack
            read, or all if there are further instances.
        rebalancers: our operator may run rebalancers for the further instances, too; for this stack's scheduler it may
            if `rebalance` says so.
    """

    instances: tuple[InstanceSettings, ...] = ()
    status_of: tuple[Literal["podgroups", "elasticquotas"], ...] | None = None
    rebalancers: bool = False

    def keeps_status_of(self, crds: Collection[str]) -> list[str]:
        """Plurals of the kinds whose status the operator maintains, given the CRDs that enabled plugins read."""
        if self.status_of is not None:
            return list(dict.fromkeys(self.status_of))
        return [kind for kind in STATUS_KINDS if self.instances or f"{kind}.scheduling.x-k8s.io" in crds]


def _catalog_for_catalog_mode(value: OperatorSettings, info: ValidationInfo) -> OperatorSettings:
    mode = info.data.get("install_mode")
    if mode == "catalog" and value.catalog is None:
        raise ValueError("must hold catalog, with an image or an address: installMode is catalog")
    return value


def _served_by_upstream(value: OperatorSettings, info: ValidationInfo) -> OperatorSettings:
    mode, namespace = info.data.get("install_mode"), info.data.get("namespace")
    if mode is None or namespace in (None, OPERATOR_NAMESPACE) or mode == "direct" or not value.is_upstream(mode):
        return value
    raise ValueError(
        f"upstream's operator serves namespace {OPERATOR_NAMESPACE} only; remove namespace, or use flavour ours or "
        "installMode direct"
    )


def _namespace(value: str) -> str:
    """A namespace that the stack may make, and delete with everything in it."""
    if not is_label(value):
        raise ValueError("is not the name of a namespace: at most 63 lower case letters, digits and -")
    if value in _NOT_OURS or value.startswith("kube-"):
        raise ValueError("belongs to the cluster: the stack would delete it when it is destroyed; name another one")
    return value


class Resources(SettingsModel):
    """Requests and limits of a container, as Kubernetes' quantities by resource."""

    requests: dict[str, ResourceQuantity] = Field(default_factory=dict)
    limits: dict[str, ResourceQuantity] = Field(default_factory=dict)


class PlanSettings(SettingsModel):
    """A recorded cluster, on which a preview shows what a change of the configuration would do.

    Attributes:
        snapshot: file that `secondary-scheduler snapshot` wrote, relative to the folder of the stack file.
        recording: file that `snapshot --record` wrote, in place of a snapshot: what arrived in it is replayed.
        command: the `secondary-scheduler` to start; default: the one on the PATH.
        over: the pods that are placed: the pending ones, or all of the profiles, as if none had a node yet; with a
            recording, those that waited or arrived in it.
        timeout_seconds: how long it may take before the preview goes on without it.
    """

    snapshot: str | None = Field(None, min_length=1, max_length=4096)
    recording: str | None = Field(None, min_length=1, max_length=4096)
    command: str | None = Field(None, min_length=1, max_length=4096)
    over: Literal["pending", "all", "recording"] | None = None
    timeout_seconds: int = Field(60, ge=1, le=600)

    @model_validator(mode="after")
    def _one_source(self) -> PlanSettings:
        if self.snapshot is not None and self.recording is not None:
            raise ValueError("snapshot and recording exclude each other; remove one")
        if self.snapshot is None and self.recording is None:
            raise ValueError("needs a snapshot or a recording to compare placements on")
        if self.over is not None and (self.over == "recording") != (self.recording is not None):
            raise ValueError(f"over: {self.over} is of a {'recording' if self.over == 'recording' else 'snapshot'}")
        return self


class StackSettings(ProfileSettings):
    """All settings of a stack.

    Attributes:
        configuration_file: a KubeSchedulerConfiguration next to the stack file, instead of the profile's settings.
        compatibility_check: what to do when versions are incompatible.
        install_plugin_crds: install the CRDs that enabled plugins need, such as PodGroup.
        protect: refuse to delete namespace, CRDs and SecondaryScheduler, and keep the CRDs when the stack is destroyed.
        install_mode: how the operator is installed, if there is one.
        namespace: where operator and scheduler run, for a new stack; the stack makes it, and deletes it when it is
            destroyed.
        retain_crds: keep the CRDs when the stack is destroyed, as protect does, without protecting anything.
        operator_image: default: the one beside `scheduler_image`, where that is this project's image by tag.
        adopt_existing: take over objects that already exist in the cluster, for one update.
        allow_removal: delete operator, CRDs, namespace or running scheduler of a live stack, for one update.
        check_cluster: previews ask the cluster, if it answers, for its version and for what is in the way.
        force_conflicts: objects, as Kind/name, whose fields are taken over from other managers, for one update.
        operator: which operator is used, where OLM finds it, and what it serves in addition to this stack's scheduler.
        optional_objects: optional objects around the scheduler.
        alerts: what the alerts of optional_objects.prometheus_rule say.
        opt_in: which pods get the scheduler's name as they are created.
        rebalance: whether pods are moved off overloaded nodes, and which.
        page: a page in the cluster, which shows each visitor what it may read.
        allowed_images: repositories of images that SecondarySchedulers may name, in addition to that of this stack's
            image.
        egress_ports: TCP ports that the NetworkPolicies of scheduler and operator allow, in addition to those of
            DNS, API servers and the metric sources.
        scrape_namespaces: namespaces whose pods alone may reach the ports of scheduler, operator and rebalancer;
            default: all sources.
        resources: requests and limits of the scheduler's container; default: the operator's.
        replicas: number of schedulers; one leads, the others wait for the Lease.
        ready_seconds: how long the scheduler may take to become ready before an update fails.
        plan: a recorded cluster, on which previews show what a change of the configuration would do.
        tracing: where the scheduler's traces go.
    """

    configuration_file: FileName | None = None
    cluster: ClusterSettings = ClusterSettings()
    scheduler_image: Image
    install_mode: InstallMode = "manifests"
    namespace: Annotated[str, AfterValidator(_namespace)] = OPERATOR_NAMESPACE
    log_level: Literal["Normal", "Debug", "Trace", "TraceAll"] = "Normal"
    compatibility_check: Literal["warn", "fail", "off"] = "warn"
    install_plugin_crds: bool = True
    protect: bool = False
    retain_crds: bool = False
    adopt_existing: bool = False
    allow_removal: bool = False
    check_cluster: bool = True
    force_conflicts: tuple[ObjectName, ...] = Field((), max_length=64)
    operator: Annotated[
        OperatorSettings, AfterValidator(_catalog_for_catalog_mode), AfterValidator(_served_by_upstream)
    ] = Field(OperatorSettings(), validate_default=True)
    operator_image: Annotated[Image | None, AfterValidator(_operator_beside_scheduler)] = Field(
        None, validate_default=True
    )
    optional_objects: OptionalObjects = OptionalObjects()
    alerts: AlertSettings = AlertSettings()
    opt_in: OptInSettings = OptInSettings()
    rebalance: RebalancerSettings = RebalancerSettings()
    page: PageSettings = PageSettings()
    allowed_images: tuple[Repository, ...] = ()
    egress_ports: tuple[Annotated[int, Field(ge=1, le=65535)], ...] = Field((), max_length=32)
    scrape_namespaces: tuple[str, ...] = ()
    resources: Annotated[Resources | None, BeforeValidator(absent_if_empty)] = None
    replicas: int = Field(1, ge=1, le=9)
    ready_seconds: int = Field(180, ge=10, le=3600)
    plan: Annotated[PlanSettings | None, BeforeValidator(absent_if_empty)] = None
    tracing: Annotated[TracingSettings | None, BeforeValidator(absent_if_empty), AfterValidator(_traced_by_ours)] = None

    @property
    def keeps_crds(self) -> bool:
        """Whether the CRDs, and so all objects of their kinds, stay in the cluster when the stack is destroyed."""
        return self.protect or self.retain_crds

    @property
    def openshift(self) -> bool:
        """Whether the cluster is OpenShift according to the settings."""
        return self.cluster.openshift_version is not None

    @property
    def rebalance_pruned_by(self) -> str:
        """Why no operator of the stack can run a rebalancer, as a clause; "" if one can."""
        return pruned_by(self.install_mode, upstream=self.operator.is_upstream(self.install_mode))
