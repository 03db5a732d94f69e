"""The settings among the Args of `SchedulerInstallation`. Written by `make schemas`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduler.config import OptionalObjects as OptionalObjects, SchedulerSettings as SchedulerSettings


@dataclass(frozen=True, kw_only=True)
class SettingsArgs:
    """Attributes:
    log_level: log level of the scheduler: Normal, Debug, Trace or TraceAll.
    replicas: number of schedulers; one leads, the others wait for the Lease. An operator runs at most one per suitable
        node; if there are fewer, the output health.replicas and a warning say so.
    ready_seconds: how long the scheduler, and an operator from manifests, may each take to become ready before the
        update fails. With an operator, an update of the scheduler may take twice as long, and fails as soon as the
        operator has rejected it.
    objects: which optional objects to create.
    egress_ports: TCP ports that the NetworkPolicies of scheduler and operator let them reach, in addition to those of
        DNS, API servers (443, 6443, 8443, 16443) and the metric sources. See docs/security.md#the-network.
    scrape_namespaces: namespaces, such as that of Prometheus, whose pods alone the NetworkPolicies of scheduler,
        operator and rebalancer let reach their ports; at most 32, and not with upstream's operator. Default: all
        sources. See docs/security.md#who-may-reach-the-ports.
    install_plugin_crds: install the CRDs that the enabled plugins need, such as PodGroup.
    protect: refuse to delete namespace, CRDs and SecondaryScheduler; for production. In a stack file it also keeps the
        CRDs when the stack is destroyed.
    """

    log_level: str = "Normal"
    replicas: int = 1
    ready_seconds: int = 180
    objects: OptionalObjects = field(default_factory=OptionalObjects)
    egress_ports: Sequence[int] = ()
    scrape_namespaces: Sequence[str] = ()
    install_plugin_crds: bool = True
    protect: bool = False
