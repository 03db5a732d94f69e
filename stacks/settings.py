"""The settings of a stack: the keys `secondary-scheduler:…` of `stacks/Pulumi.<stack>.yaml`.

Names are camelCase in the file; nothing is coerced and an unknown key is an error. Secrets have keys of their own
(`prometheusToken`, `kubeconfig`) and are never part of these models: Pulumi stores a structured value in plain text
once the program has read it.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

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
    SecretDataKey,
    ServerAddress,
    Subdomain,
    Version,
    absent_if_empty,
)
from scheduler import __version__
from scheduler.catalog import INSTANCE_NAME, OPERATOR_NAMESPACE, STATUS_KINDS, address_problem, is_label
from scheduler.config import SchedulerSettings, SettingsModel, image_flavour, split_image

InstallMode = Literal["manifests", "direct", "none", "olm", "catalog"]
OperatorFlavour = Literal["ours", "upstream"]

_ADDRESS = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?):[0-9]{1,5}")
_PAGE = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]+(/[\w.~!$&'()*+,;=:@%/-]*)?", re.ASCII)
_PACKAGES: dict[OperatorFlavour, str] = {
    "ours": "secondary-scheduler-operator",
    "upstream": "openshift-secondary-scheduler-operator",
}
_USUAL_SOURCE = "redhat-operators"
_MARKETPLACE = "openshift-marketplace"


def _address(value: str) -> str:
    if not _ADDRESS.fullmatch(value):
        raise ValueError("is not an address; write HOST:PORT of the registry, without a scheme")
    return value


def _page(value: str) -> str:
    if not _PAGE.fullmatch(value):
        raise ValueError("is not the address of a page; write https://HOST/PATH, without a query or fragment")
    return value


class Catalog(SettingsModel):
    """A custom catalogue for OLM: an index image that OLM runs, or the address of a running registry.

    Attributes:
        image: an index image, which OLM runs.
        address: HOST:PORT of a running registry.
    """

    image: Image | None = None
    address: Annotated[str, AfterValidator(_address)] | None = None

    @model_validator(mode="after")
    def _exactly_one_origin(self) -> Self:
        if (self.image is None) == (self.address is None):
            raise ValueError("must hold either image or address")
        return self


class OperatorSource(SettingsModel):
    """Which operator is used, and where OLM finds it.

    Attributes:
        flavour: upstream's operator needs other gates and rights, and does not know the fields that ours added to the
            resource. Default: upstream's with olm, else ours.
        package: its name in the catalogue, if not the usual one.
        channel: of the package.
        source, source_namespace: the CatalogSource, for olm.
        starting_csv: first version to install; default: the channel's newest.
        approval: how InstallPlans are approved. Manual: `pulumi up` waits, and says what a person has to approve.
        catalog: the catalogue for install mode catalog.
        ready_seconds: how long each step of OLM may take before the update fails. Default: 300 for the catalogue, 600,
            and 3600 for an approval.
    """

    flavour: OperatorFlavour | None = None
    package: Subdomain | None = None
    channel: str = Field("stable", min_length=1)
    source: Subdomain | None = None
    source_namespace: Subdomain | None = None
    starting_csv: Subdomain | None = Field(None, alias="startingCSV")
    approval: Literal["Automatic", "Manual"] = "Automatic"
    catalog: Annotated[Catalog | None, BeforeValidator(absent_if_empty)] = None
    ready_seconds: int | None = Field(None, ge=10, le=86400)

    def is_upstream(self, mode: InstallMode) -> bool:
        """Whether upstream's operator is meant."""
        return (self.flavour or ("upstream" if mode == "olm" else "ours")) == "upstream"

    def package_in(self, mode: InstallMode) -> str:
        """The package that is subscribed to."""
        return self.package or _PACKAGES["upstream" if self.is_upstream(mode) else "ours"]

    @property
    def usual_source(self) -> tuple[str, str]:
        """Name and namespace of the CatalogSource, for olm."""
        return self.source or _USUAL_SOURCE, self.source_namespace or _MARKETPLACE


class AlertSettings(SettingsModel):
    """What the alerts say.

    Attributes:
        runbook_url: address of the page with the runbooks, docs/runbooks.md, where you publish it: alerts link to its
            sections.
    """

    runbook_url: Annotated[str, AfterValidator(_page)] | None = None


_EVERY_ATTEMPT: Final = 1_000_000
_PORTS: Final = {"http": 80, "https": 443}


def _endpoint(value: str) -> str:
    if "@" in value or "?" in value:
        raise ValueError("must not hold a user, a password or a query; put credentials into headersSecret")
    if address_problem(value) is not None:
        raise ValueError("is not a URL; write http://HOST:4318, where the collector takes OTLP over HTTP")
    return value


class HeadersSecret(SettingsModel):
    """A Secret in the scheduler's namespace, managed elsewhere, with HTTP headers: NAME=VALUE, separated by commas."""

    name: Subdomain
    key: SecretDataKey = "headers"


class TracingSettings(SettingsModel):
    """Where the scheduler's traces go.

    Attributes:
        endpoint: of a collector that takes OTLP over HTTP, such as http://collector.monitoring:4318; `/v1/traces` is
            added. The NetworkPolicies allow its port.
        sampling_rate_per_million: how many of a million attempts are traced.
        headers_secret: credentials for the collector.
    """

    endpoint: Annotated[str, AfterValidator(_endpoint)]
    sampling_rate_per_million: int = Field(_EVERY_ATTEMPT, ge=0, le=_EVERY_ATTEMPT)
    headers_secret: HeadersSecret | None = None

    @property
    def port(self) -> int:
        """The collector's TCP port."""
        address = urlsplit(self.endpoint)
        return address.port or _PORTS[address.scheme]

    def environment(self) -> list[dict[str, Any]]:
        """Return the environment variables, as a container has them."""
        variables: list[dict[str, Any]] = [{"name": "OTEL_EXPORTER_OTLP_ENDPOINT", "value": self.endpoint}]
        if self.sampling_rate_per_million < _EVERY_ATTEMPT:
            ratio = f"{self.sampling_rate_per_million / _EVERY_ATTEMPT:.6f}"
            variables.append({"name": "OTEL_TRACES_SAMPLER", "value": "traceidratio"})
            variables.append({"name": "OTEL_TRACES_SAMPLER_ARG", "value": ratio})
        if (secret := self.headers_secret) is not None:
            source = {"secretKeyRef": {"name": secret.name, "key": secret.key}}
            variables.append({"name": "OTEL_EXPORTER_OTLP_HEADERS", "valueFrom": source})
        return variables


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
            cluster. Default: the stack's name; set it before you rename the stack.
        context: context of the kubeconfig; default: its current one.
        server: address of the cluster's API server; a kubeconfig for another server is refused.
        kubernetes_version, openshift_version: the cluster's version, in quotes ("1.34"), for compatibilityCheck. The
            scheduler behaves as the kube-scheduler of this Kubernetes, or of the one that this OpenShift is made of.
            openshiftVersion also says that the cluster is OpenShift. See docs/versions.md.
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
        instances: further SecondarySchedulers that the operator serves. The stack grants it the rights; you create the
            resources and their namespaces.
        status_of: kinds of scheduler-plugins whose status the operator maintains; [] if another controller does.
            Default: those that plugins of this stack read, or all if there are further instances. See
            docs/quotas.md#status-of-podgroups-and-elasticquotas.
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


class StackSettings(ProfileSettings, SchedulerSettings):
    """All settings of a stack.

    Attributes:
        configuration_file: a KubeSchedulerConfiguration file, relative to the folder of the stack file. It replaces
            schedulerName, plugins, profiles, compatibility and metricProvider, whose credentials are still read. See
            docs/stack-settings.md#a-configuration-file.
        cluster: the cluster of the stack, and its versions for compatibilityCheck.
        scheduler_image: image of the scheduler (required).
        install_mode: how the operator is installed. manifests: CRD, RBAC and Deployment as explicit resources; direct:
            no operator, the stack owns the scheduler's Deployment; olm: a Subscription; catalog: a CatalogSource and a
            Subscription; none: it is already installed. See docs/guides/install-modes.md.
        namespace: where operator and scheduler run, for a new stack. The stack makes it, and deletes it with everything
            in it when it is destroyed; with installMode none it exists. Objects without a namespace get its name as a
            prefix. Upstream's operator knows the default only. It cannot be changed later. See
            docs/guides/install-modes.md#another-namespace.
        compatibility_check: what to do if versions of operator, scheduler image and cluster are incompatible. See
            docs/stack-settings.md#compatible-versions.
        retain_crds: keep the CRDs in the cluster when the stack is destroyed, without protecting other objects.
        adopt_existing: for one update: take over objects that already exist in the cluster, instead of failing. See
            docs/guides/adopt.md.
        allow_removal: for one update: delete the operator, a CRD, the namespace or the running scheduler of a live
            stack. Without it a preview or update that would delete one of them names it and fails. It reads the stack's
            state, not the cluster; pulumi destroy does not need it.
        check_cluster: previews ask the cluster, if it answers within 5 s, for its version, another installation and the
            namespace's owner. See docs/stack-settings.md#the-kubeconfig.
        force_conflicts: for one update: objects, as Kind/name, whose fields are taken over from other managers. See
            docs/guides/changed-by-hand.md.
        operator: which operator is used, where OLM finds it, and what it serves in addition to this stack's scheduler.
        operator_image: image of the operator, with installMode manifests only. Default: …/operator:TAG beside
            …/kube-scheduler:TAG, where schedulerImage is this project's image by tag.
        alerts: what the alerts of optionalObjects.prometheusRule say.
        opt_in: which pods get the scheduler's name as they are created. See docs/stack-settings.md#opting-pods-in.
        rebalance: a rebalancer, which moves pods off overloaded nodes. See docs/stack-settings.md#rebalancing.
        page: a page in the cluster about nodes, pods and decisions, which shows each visitor what it may read; with
            this project's scheduler. See docs/guides/page-in-the-cluster.md.
        allowed_images: repositories, without tag or digest, of images that a SecondaryScheduler may name, in addition
            to that of schedulerImage. See docs/security.md#who-creates-a-secondaryscheduler.
        resources: requests and limits of the scheduler's container. Default: requests of 100m CPU and 128Mi memory, and
            a limit of 2Gi memory.
        plan: a recorded cluster, on which previews show what a change of the configuration would do. See
            docs/plan.md#in-the-preview.
        tracing: an OpenTelemetry collector that traces of the scheduler's attempts are sent to; not with upstream's
            operator or images. See docs/operating.md#where-does-an-attempt-spend-its-time.
    """

    configuration_file: FileName | None = None
    cluster: ClusterSettings = ClusterSettings()
    scheduler_image: Image
    install_mode: InstallMode = "manifests"
    namespace: Annotated[str, AfterValidator(_namespace)] = OPERATOR_NAMESPACE
    compatibility_check: Literal["warn", "fail", "off"] = "warn"
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
    alerts: AlertSettings = AlertSettings()
    opt_in: OptInSettings = OptInSettings()
    rebalance: RebalancerSettings = RebalancerSettings()
    page: PageSettings = PageSettings()
    allowed_images: tuple[Repository, ...] = ()
    resources: Annotated[Resources | None, BeforeValidator(absent_if_empty)] = None
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
