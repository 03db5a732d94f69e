"""Which optional objects an installation creates."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OptionalObjects:
    """Which optional objects to create.

    Attributes:
        priority_class: a PriorityClass for the scheduler's pods.
        network_policy: limits of what the pods may reach, and who may reach them.
        flow_schemas: fair shares of a busy API server.
        admission_policies: limits of what a SecondaryScheduler may run; they need Kubernetes 1.30.
        service_monitor: None: the operator creates it where the cluster has the kind; without one on OpenShift only.
        prometheus_rule: None: on OpenShift only. Brings the scraping of our operator and of a rebalancer that the
            program installs, for the alerts about them, unless service_monitor is False.
        grafana_dashboard: a ConfigMap with the Grafana dashboard; for one installation of a cluster.
    """

    priority_class: bool = True
    network_policy: bool = True
    flow_schemas: bool = True
    admission_policies: bool = True
    service_monitor: bool | None = None
    prometheus_rule: bool | None = None
    grafana_dashboard: bool = False
