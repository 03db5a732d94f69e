"""The settings of a scheduler that are the same however it is installed: keys of a stack file, Args of the components,
inputs of the component package and, where the operator needs them, fields of a SecondaryScheduler.

A field here is all that such a setting needs but its use: `make schemas` writes what is derived from it.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

LogLevel = Literal["Normal", "Debug", "Trace", "TraceAll"]
Replicas = Annotated[int, Field(ge=1, le=9)]
Port = Annotated[int, Field(ge=1, le=65535)]


class SettingsModel(BaseModel):
    """Base of the settings models: camelCase names, no coercion, no unknown keys, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, alias_generator=to_camel)


class OptionalObjects(SettingsModel):
    """Which optional objects to create.

    Attributes:
        priority_class: a PriorityClass, so that ordinary pods do not preempt the scheduler's.
        network_policy: limits of what the pods may reach, and who may reach them.
        flow_schemas: fair shares of a busy API server: they keep Lease and bindings alive.
        admission_policies: limits of what a SecondaryScheduler may run, and what our operator may bind; they need
            Kubernetes 1.30.
        service_monitor: scraping by the Prometheus operator, whose CRDs must exist. Default: where the cluster has the
            kind; without an operator on OpenShift only.
        prometheus_rule: alerts of the Prometheus operator, with the scraping that those about our operator and a
            rebalancer need. Default: on OpenShift only.
        grafana_dashboard: a ConfigMap with the Grafana dashboard, for the sidecar of Grafana's Helm chart; for one
            installation of a cluster. See docs/runbooks.md#dashboard.
    """

    # A program writes the names of Python; in a stack file they are unknown keys.
    model_config = ConfigDict(populate_by_name=True)

    priority_class: bool = True
    network_policy: bool = True
    flow_schemas: bool = True
    admission_policies: bool = True
    service_monitor: bool | None = None
    prometheus_rule: bool | None = None
    grafana_dashboard: bool = False

    def on(self, *, openshift: bool) -> OptionalObjects:
        """Return the same with alerts decided, where the settings leave that to the cluster."""
        alerts = openshift if self.prometheus_rule is None else self.prometheus_rule
        return self.model_copy(update={"prometheus_rule": alerts})

    def scraped(self, *, openshift: bool) -> bool:
        """Whether this program creates ServiceMonitors."""
        return openshift if self.service_monitor is None else self.service_monitor


class SchedulerSettings(SettingsModel):
    """What a scheduler is beside its configuration, and what belongs to it.

    Attributes:
        log_level: log level of the scheduler: Normal, Debug, Trace or TraceAll.
        replicas: number of schedulers; one leads, the others wait for the Lease. An operator runs at most one per
            suitable node; if there are fewer, the output health.replicas and a warning say so.
        ready_seconds: how long the scheduler, and an operator from manifests, may each take to become ready before the
            update fails. With an operator, an update of the scheduler may take twice as long, and fails as soon as the
            operator has rejected it.
        objects: which optional objects to create.
        egress_ports: TCP ports that the NetworkPolicies of scheduler and operator let them reach, in addition to those
            of DNS, API servers (443, 6443, 8443, 16443) and the metric sources. See docs/security.md#the-network.
        scrape_namespaces: namespaces, such as that of Prometheus, whose pods alone the NetworkPolicies of scheduler,
            operator and rebalancer let reach their ports; at most 32, and not with upstream's operator. Default: all
            sources. See docs/security.md#who-may-reach-the-ports.
        install_plugin_crds: install the CRDs that the enabled plugins need, such as PodGroup.
        protect: refuse to delete namespace, CRDs and SecondaryScheduler; for production. In a stack file it also keeps
            the CRDs when the stack is destroyed.
    """

    model_config = ConfigDict(populate_by_name=True)

    log_level: LogLevel = "Normal"
    replicas: Replicas = 1
    ready_seconds: int = Field(180, ge=10, le=3600)
    objects: OptionalObjects = Field(OptionalObjects(), alias="optionalObjects")
    egress_ports: tuple[Port, ...] = Field((), max_length=32)
    scrape_namespaces: tuple[str, ...] = ()
    install_plugin_crds: bool = True
    protect: bool = False
