"""The component as a package for programs in every language: what Pulumi's analyzer of Python components can describe.

No `from __future__ import annotations` here: the analyzer reads annotations. Args are a TypedDict, because they
arrive as a plain dict. What decides which objects there are is plain, so that no SDK takes an Output for it. An object
that is an Output as a whole would be lost on the way, so only leaves are Inputs.
"""

from collections.abc import Mapping
from typing import Any, TypedDict, cast

import pulumi

from scheduler.config import OptionalObjects as _OptionalObjects

from .installation import InstallMode
from .metric_credentials import MetricAccess
from .scheduler_installation import SchedulerInstallation as _SchedulerInstallation, SchedulerInstallationArgs as _Args

NAME = "secondary-scheduler"
"""The package's name, with which every type token begins."""
_MODES = ("manifests", "direct", "none")


class OptionalObjects(TypedDict, total=False):
    """Which optional objects to create."""

    # begin: make schemas
    priority_class: bool | None
    """A PriorityClass, so that ordinary pods do not preempt the scheduler's. Default: true."""
    network_policy: bool | None
    """Limits of what the pods may reach, and who may reach them. Default: true."""
    flow_schemas: bool | None
    """Fair shares of a busy API server: they keep Lease and bindings alive. Default: true."""
    admission_policies: bool | None
    """Limits of what a SecondaryScheduler may run, and what our operator may bind; they need Kubernetes 1.30. Default: true."""
    service_monitor: bool | None
    """Scraping by the Prometheus operator, whose CRDs must exist. Default: where the cluster has the kind; without an operator on OpenShift only."""
    prometheus_rule: bool | None
    """Alerts of the Prometheus operator, with the scraping that those about our operator and a rebalancer need. Default: on OpenShift only."""
    grafana_dashboard: bool | None
    """A ConfigMap with the Grafana dashboard, for the sidecar of Grafana's Helm chart; for one installation of a cluster. See docs/runbooks.md#dashboard."""
    # end: make schemas


class SchedulerInstallationArgs(TypedDict):
    """What a secondary scheduler and what belongs to it are."""

    image: pulumi.Input[str]
    """The scheduler's image. If it is another resource's output, flavour is required."""
    flavour: str | None
    """What the image is, where its name does not show it: ours, custom, or scheduler-plugins@0.NN."""
    settings: dict[str, Any] | None
    """Plugins, metricProvider, profiles: what a stack file has for the scheduler. Wrong ones fail the preview."""
    configuration: str | None
    """Instead of settings: a KubeSchedulerConfiguration as YAML. A wrong one fails the preview."""
    mode: str | None
    """How the operator is installed: manifests (the default), direct (no operator) or none (it is there already)."""
    namespace: pulumi.Input[str] | None
    """Where operator and scheduler run. Default: openshift-secondary-scheduler-operator."""
    resource_name: str | None
    """Name of the SecondaryScheduler. Default: cluster."""
    operator_image: pulumi.Input[str] | None
    """The operator's image, for mode manifests."""
    upstream_operator: bool | None
    """Whether the operator is OpenShift's own."""
    token: pulumi.Input[str] | None
    """Bearer token for the metric source; it goes into a Secret."""
    certificate_authority: pulumi.Input[str] | None
    """PEM bundle with which the metric source's certificate is verified."""
    resources: dict[str, Any] | None
    """Requests and limits of the scheduler's container, with Kubernetes' names."""
    env: list[dict[str, Any]] | None
    """Environment variables of the scheduler's container, with Kubernetes' names."""
    runbook_url: str | None
    """Address of the page with the runbooks, docs/runbooks.md, where it is published: alerts link to it."""
    allowed_images: list[pulumi.Input[str]] | None
    """Repositories of images that a SecondaryScheduler may name, beside that of the image."""
    openshift: bool | None
    """Whether the cluster is OpenShift."""
    opt_in: dict[str, Any] | None
    """Which pods get the scheduler's name as they are created: optIn of a stack file. Wrong ones fail the preview."""
    kubernetes_version: str | None
    """The cluster's version, such as 1.36, which optIn needs."""
    keep_crds: bool | None
    """Keep the CRDs when the installation is destroyed."""
    # begin: make schemas
    log_level: str | None
    """Log level of the scheduler: Normal, Debug, Trace or TraceAll. Default: Normal."""
    replicas: int | None
    """Number of schedulers; one leads, the others wait for the Lease. An operator runs at most one per suitable node; if there are fewer, the output health.replicas and a warning say so. Default: 1."""
    ready_seconds: int | None
    """How long the scheduler, and an operator from manifests, may each take to become ready before the update fails. With an operator, an update of the scheduler may take twice as long, and fails as soon as the operator has rejected it. Default: 180."""
    objects: OptionalObjects | None
    """Which optional objects to create."""
    egress_ports: list[int] | None
    """TCP ports that the NetworkPolicies of scheduler and operator let them reach, in addition to those of DNS, API servers (443, 6443, 8443, 16443) and the metric sources. See docs/security.md#the-network."""
    scrape_namespaces: list[str] | None
    """Namespaces, such as that of Prometheus, whose pods alone the NetworkPolicies of scheduler, operator and rebalancer let reach their ports; at most 32, and not with upstream's operator. Default: all sources. See docs/security.md#who-may-reach-the-ports."""
    install_plugin_crds: bool | None
    """Install the CRDs that the enabled plugins need, such as PodGroup. Default: true."""
    protect_objects: bool | None
    """Refuse to delete namespace, CRDs and SecondaryScheduler; for production. In a stack file it also keeps the CRDs when the stack is destroyed."""
    # end: make schemas


class SchedulerInstallation(_SchedulerInstallation):
    """Namespace, operator or Deployment, configuration and credentials of one scheduler; done when it is available."""

    name: pulumi.Output[str]
    """Name of the SecondaryScheduler or, in mode direct, of the Deployment."""
    namespace: pulumi.Output[str]
    """Where the scheduler runs."""
    ready_replicas: pulumi.Output[int]
    """How many schedulers are ready."""
    health: pulumi.Output[dict[str, Any]]
    """Conditions and the last rollout."""
    operator: pulumi.Output[str]
    """The running operator: its image, or nothing if it is not known."""
    config_map_name: pulumi.Output[str]
    """The ConfigMap with the scheduler's configuration."""

    def __init__(self, name: str, args: SchedulerInstallationArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__(name, _described(name, args), opts)


def _described(name: str, args: SchedulerInstallationArgs) -> _Args:
    """The Args of the component itself; what a program leaves out keeps its default there."""
    values: dict[str, Any] = {key: whole(value) for key, value in args.items() if value is not None}
    mode = values.pop("mode", "manifests")
    if mode not in _MODES:
        raise pulumi.RunError(f"{name}: mode: {mode!r} is not one of {', '.join(_MODES)}")
    token, authority = values.pop("token", None), values.pop("certificate_authority", None)
    objects = _OptionalObjects(**{key: value for key, value in values.pop("objects", {}).items() if value is not None})
    if "protect_objects" in values:
        values["protect"] = values.pop("protect_objects")
    access = MetricAccess(token, authority)
    return _Args(mode=cast(InstallMode, mode), metric_access=access, objects=objects, **values)


def whole(value: Any) -> Any:
    """Return the value with its integers: on the way through the engine every number becomes a float."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: whole(nested) for key, nested in value.items()}
    if isinstance(value, list):
        return [whole(nested) for nested in value]
    return value
