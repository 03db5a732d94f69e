"""What the alerts are, without pulumi: an expression over metrics of scheduler and operator for each way to fail.

Rules that all of them follow, so that a problem is one alert and nothing else is one:

- They keep `namespace` and `job`: two installations on one cluster are two problems.
- Replicas are aggregated away. One that waits for the Lease (`leader_election_master_status` 0) says nothing about
  the scheduler: its queue is full of pods that the leader places. It is left out with `unless`, so that a scheduler
  without the metric, which has no Lease, counts.
- A metric that does not exist yields no alert, but for the two `…Down`, which are about exactly that.
- `for` is longer than a rollout and a change of the leader take, some 30 s, and than scrapes need to show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pulumi_kubernetes as k8s

from scheduler.operand import shortage_of

RUNBOOKS = "docs/runbooks.md"
"""The page with a section for each alert."""
OPERATOR_JOB = "secondary-scheduler-operator-metrics"
"""The operator's Service for metrics, whose name is the label `job`."""
REFUSED = "Config.+|SpecInvalid|ImageMissing|SchedulerNameTaken"
"""Reasons of Degraded for which nothing is tried: the spec or the configuration has to be changed."""
NODES_WITHOUT_LOAD = 0.1
"""Share of nodes without fresh load above which there is an alert: the exporters of new nodes take a while."""
SLOW_SECONDS = 1
FEW_PODS = 10
"""So many unschedulable pods raise no alert, whatever their share: some are always forgotten somewhere."""
_DAY = 86400


@dataclass(frozen=True, kw_only=True)
class Alert:
    """One alert.

    Attributes:
        expression: in PromQL; its value is what the description shows.
        lasting: for how long it must hold, such as `5m`.
        summary: what is wrong and what follows, in one line.
        description: more about it, with the value, as a template of Prometheus.
    """

    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    description: str

    @property
    def anchor(self) -> str:
        """The section of the page with runbooks, as Git servers name it."""
        return self.name.lower()

    def rule(self, runbooks: str = "") -> dict[str, Any]:
        """The rule as a PrometheusRule has it; `runbooks` is the address of the page, "" where it is not published."""
        annotations = {"summary": self.summary, "description": self.description}
        if runbooks:
            annotations["runbook_url"] = f"{runbooks}#{self.anchor}"
        else:
            annotations["description"] += f" Runbook: {RUNBOOKS}#{self.anchor}."
        return {
            "alert": self.name,
            "expr": self.expression,
            "for": self.lasting,
            "labels": {"severity": self.severity},
            "annotations": annotations,
        }


def scheduler_alerts(job: str, namespace: str) -> Iterator[Alert]:
    """Yield the alerts about the scheduler whose metrics have these labels."""
    selected = f'job="{job}",namespace="{namespace}"'
    leading = f"unless on (instance) (leader_election_master_status{{{selected}}} == 0)"
    yield from _running(selected)
    yield from _load(selected, leading)
    yield from _placing(selected, leading)
    yield from _nodes(selected, leading)
    yield from _shadow(selected)


def operator_alerts(namespace: str) -> Iterator[Alert]:
    """Yield the alerts about our operator in a namespace and the instances that it serves."""
    selected = f'job="{OPERATOR_JOB}",namespace="{namespace}"'
    instance = "namespace, job, exported_namespace, name"
    place = "SecondaryScheduler {{ $labels.exported_namespace }}/{{ $labels.name }}"
    degraded = f"secondary_scheduler_operator_degraded{{{selected}"
    progressing = f'secondary_scheduler_operator_condition{{{selected},condition="Progressing",status="True"}}'
    yield Alert(
        name="SecondarySchedulerOperatorDown",
        expression=none_up(selected),
        lasting="10m",
        severity="warning",
        summary="No operator of the secondary scheduler is up: changes are not rolled out, and nothing is repaired.",
        description="Prometheus has scraped no operator in namespace {{ $labels.namespace }} for 10 minutes. The"
        " scheduler goes on; alerts about its configuration and rollouts cannot fire meanwhile.",
    )
    yield Alert(
        name="SecondarySchedulerConfigurationRefused",
        expression=f'max by ({instance}, reason) ({degraded},reason=~"{REFUSED}"}}) == 1',
        lasting="10m",
        severity="warning",
        summary="The operator refuses a configuration: what ran before goes on.",
        description=f"{place} has been Degraded for 10 minutes with the reason {{{{ $labels.reason }}}}: its spec or"
        " ConfigMap has to be changed. The condition's message names object and field.",
    )
    yield Alert(
        name="SecondarySchedulerDegraded",
        # Over ten minutes: a rollout that failed is tried again every five, and does not show its reason meanwhile.
        expression=f'max by ({instance}, reason) (max_over_time({degraded},reason!~"{REFUSED}"}}[10m])) == 1',
        lasting="15m",
        severity="warning",
        summary="The operator cannot run the secondary scheduler as it should be.",
        description=f"{place} has been Degraded for 15 minutes with the reason {{{{ $labels.reason }}}}. After"
        " CanaryFailed and RolledBack the former revision goes on.",
    )
    yield Alert(
        name="SecondarySchedulerRolloutStuck",
        expression=(
            f"max by ({instance}) ({progressing}) == 1"
            f" unless on (exported_namespace, name) (max_over_time({degraded}}}[10m]) == 1)"
        ),
        lasting="30m",
        severity="warning",
        summary="A rollout of the secondary scheduler does not end.",
        description=f"{place} has been Progressing for 30 minutes without being Degraded. The condition's message says"
        " what it waits for.",
    )


def none_up(selected: str) -> str:
    """The expression that holds while Prometheus scrapes none of these."""
    # `absent(up == 1)` would yield an alert without labels, the same one for every installation.
    return f"max by (namespace, job) (up{{{selected}}}) == 0 or absent(up{{{selected}}})"


def _running(selected: str) -> Iterator[Alert]:
    """Whether there is a scheduler that may schedule."""
    yield Alert(
        name="SecondarySchedulerDown",
        expression=none_up(selected),
        lasting="5m",
        severity="critical",
        summary="No secondary scheduler is up: pods that request it stay pending.",
        description="Prometheus has scraped no scheduler of job {{ $labels.job }} in namespace {{ $labels.namespace }}"
        " for 5 minutes: none runs, or its metrics cannot be read.",
    )
    yield Alert(
        name="SecondarySchedulerNoLeader",
        expression=f"max by (namespace, job) (leader_election_master_status{{{selected}}}) == 0",
        lasting="5m",
        severity="critical",
        summary="No replica of the secondary scheduler holds the Lease: pods that request it stay pending.",
        description="Schedulers of job {{ $labels.job }} in namespace {{ $labels.namespace }} run, and for 5 minutes"
        " none has led. A leader that ended is replaced within the Lease's duration, 15 s by default.",
    )
    refused = f"secondary_scheduler_watch_refused{{{selected}}}"
    yield Alert(
        name="SecondarySchedulerWatchRefused",
        expression=f"max by (namespace, job) (sum by (namespace, job, instance) ({refused})) > 0",
        lasting="5m",
        severity="warning",
        summary="The API server refuses watches of the secondary scheduler: its copy of the cluster grows old.",
        description="{{ $value }} kinds of objects cannot be watched (401 or 403) by job {{ $labels.job }} in namespace"
        " {{ $labels.namespace }}. secondary_scheduler_watch_refused has their names.",
    )
    end = f'secondary_scheduler_serving_certificate_timestamp_seconds{{{selected},bound="not_after"}}'
    begin = end.replace("not_after", "not_before")
    left = f"({end} - time())"
    yield Alert(
        name="SecondarySchedulerCertificateExpiring",
        # Of a certificate for a day, days are never left.
        expression=(
            f"min by (namespace, job) ({left} < {7 * _DAY}"
            f" and on (instance) {left} < on (instance) 0.15 * ({end} - ignoring (bound) {begin}))"
        ),
        lasting="15m",
        severity="warning",
        summary="The serving certificate of the secondary scheduler is not renewed and ends soon.",
        description="The certificate of --tls-cert-file that job {{ $labels.job }} in namespace"
        " {{ $labels.namespace }} serves is valid for another {{ $value | humanizeDuration }}. After that, clients that"
        " verify it, such as Prometheus on OpenShift, cannot read metrics.",
    )


def _load(selected: str, leading: str) -> Iterator[Alert]:
    """Whether the nodes' load is known; without a plugin that reads load there is nothing to tell."""
    source = "namespace, job, source"
    fresh = f"max by ({source}) (secondary_scheduler_load_data_fresh{{{selected}}} {leading})"
    yield Alert(
        name="SecondarySchedulerLoadDataStale",
        expression=f"{fresh} == 0",
        lasting="10m",
        severity="warning",
        summary="The nodes' load cannot be read: pods are scheduled without it.",
        description="{{ $labels.source }} has given job {{ $labels.job }} in namespace {{ $labels.namespace }} no fresh"
        " load of a node for 10 minutes.",
    )
    states = f"secondary_scheduler_load_node_states{{{selected}"
    without = f'sum by ({source}) ({states},state!="fresh"}} {leading})'
    every = f"sum by ({source}) ({states}}} {leading})"
    yield Alert(
        name="SecondarySchedulerNodesWithoutLoad",
        # Where nothing is fresh, that is the problem, and it has an alert.
        expression=f"{without} / {every} > {NODES_WITHOUT_LOAD} and {fresh} == 1",
        lasting="15m",
        severity="warning",
        summary="The load of many nodes is unknown: pods are placed there without regard to it, or elsewhere.",
        description="{{ $value | humanizePercentage }} of the nodes have no fresh load in {{ $labels.source }}, for"
        " job {{ $labels.job }} in namespace {{ $labels.namespace }}.",
    )


def _placing(selected: str, leading: str) -> Iterator[Alert]:
    """Whether pods are tried, decided and bound."""
    bindings = f"secondary_scheduler_bindings_total{{{selected}"
    failed = f'sum by (namespace, job) (increase({bindings},outcome=~"failed|unknown"}}[5m]))'
    every = f"sum by (namespace, job) (increase({bindings}}}[5m]))"
    yield Alert(
        name="SecondarySchedulerBindingsFailing",
        # A pod whose Binding fails is tried every ten seconds; a few failures are a restart of an API server.
        expression=f"{failed} > 5 and {failed} / {every} > 0.05",
        lasting="10m",
        severity="critical",
        summary="Bindings of the secondary scheduler fail: pods get a node late or not at all.",
        description="{{ $value | humanize }} Bindings of job {{ $labels.job }} in namespace {{ $labels.namespace }}"
        " failed within 5 minutes, or have no answer, which is more than 5 %.",
    )
    attempts = f"increase(scheduler_schedule_attempts_total{{{selected}}}[5m])"
    yield Alert(
        name="SecondarySchedulerPodsNotTried",
        # `unless`, as no series of attempts exists before the first one.
        expression=(
            f'max by (namespace, job) (scheduler_pending_pods{{{selected},queue="active"}} {leading}'
            f" unless on (instance) (sum by (instance) ({attempts}) > 0)) > 0"
        ),
        lasting="10m",
        severity="critical",
        summary="Pods wait for the secondary scheduler, and it tries none.",
        description="{{ $value }} pods are in the active queue of job {{ $labels.job }} in namespace"
        " {{ $labels.namespace }}, which leads, and there has been no attempt for 5 minutes.",
    )
    decisions = f"scheduler_scheduling_algorithm_duration_seconds_bucket{{{selected}"
    yield Alert(
        name="SecondarySchedulerAttemptsSlow",
        # Decisions, not whole attempts: a gang waits in Permit, a volume in PreBind, for as long as it takes.
        expression=(
            f"histogram_quantile(0.99, sum by (namespace, job, le) (rate({decisions}}}[10m]))) > {SLOW_SECONDS}"
            f' and on (namespace, job) sum by (namespace, job) (increase({decisions},le="+Inf"}}[10m])) > 20'
        ),
        lasting="15m",
        severity="warning",
        summary="Decisions of the secondary scheduler take long: pods wait for it.",
        description="One decision in a hundred of job {{ $labels.job }} in namespace {{ $labels.namespace }} takes"
        " {{ $value | humanizeDuration }} or more. Extenders count; gangs that wait for members do not.",
    )
    pending = f'scheduler_pending_pods{{{selected},queue="unschedulable"}}'
    stuck = f"max by (namespace, job) ({pending})"
    scheduled = f'increase(scheduler_schedule_attempts_total{{{selected},result="scheduled"}}[1h])'
    placed = f"(sum by (namespace, job) ({scheduled}) or 0 * {stuck})"
    yield Alert(
        name="SecondarySchedulerPodsUnschedulable",
        # By share: beside thousands of pods that are placed, a dozen that nobody misses is no problem of the cluster.
        expression=(
            f"{stuck} > {FEW_PODS} and ({stuck} / ({stuck} + {placed}) > 0.1"
            f" or max by (namespace, job) (delta({pending}[20m])) > 0.1 * {stuck})"
        ),
        lasting="30m",
        severity="warning",
        summary="Many pods that request the secondary scheduler fit no node, or ever more of them.",
        description="{{ $value }} pods fit no node, says job {{ $labels.job }} in namespace {{ $labels.namespace }}."
        " For 30 minutes that has been more than a tenth of what was placed in an hour, or has grown by a tenth every"
        " 20 minutes. Their Events have the reasons.",
    )


def _nodes(selected: str, leading: str) -> Iterator[Alert]:
    """Whether nodes have room for the pods that they got."""
    yield Alert(
        name="SecondarySchedulerNodesOvercommitted",
        expression=(
            f"max by (namespace, job, resource) (secondary_scheduler_overcommitted_nodes{{{selected}}} {leading}) > 0"
        ),
        # A device plugin that restarts makes its devices vanish for minutes.
        lasting="10m",
        severity="warning",
        summary="Pods request more than is allocatable on some nodes: another scheduler may use them, too.",
        description="On {{ $value }} nodes the pods request more {{ $labels.resource }} than is allocatable, says job"
        " {{ $labels.job }} in namespace {{ $labels.namespace }}.",
    )
    rejections = f'secondary_scheduler_kubelet_rejections_total{{{selected},scheduler="own"}}'
    yield Alert(
        name="SecondarySchedulerPodsRejectedByKubelet",
        # Every replica counts them.
        expression=f"max by (namespace, job, reason) (increase({rejections}[15m])) > 0",
        lasting="0m",
        severity="warning",
        summary="Kubelets reject pods of the secondary scheduler for want of room.",
        description="Kubelets rejected {{ $value | humanize }} pods of job {{ $labels.job }} in namespace"
        " {{ $labels.namespace }} within 15 minutes, with the reason {{ $labels.reason }}.",
    )


def _shadow(selected: str) -> Iterator[Alert]:
    """Whether a shadow profile learns anything; without one there is nothing to tell."""
    profile = "namespace, job, profile"
    # What the sample leaves out is meant to be left out.
    skipped = f'increase(secondary_scheduler_shadow_skipped_total{{{selected},reason!="sample"}}[30m])'
    compared = f"increase(secondary_scheduler_shadow_decisions_total{{{selected}}}[30m])"
    yield Alert(
        name="SecondarySchedulerShadowNotCompared",
        expression=f"sum by ({profile}) ({skipped}) > 0 unless sum by ({profile}) ({compared}) > 0",
        lasting="30m",
        severity="warning",
        summary="A shadow profile is tried, and none of its decisions is compared: the trial says nothing.",
        description="{{ $value | humanize }} decisions of profile {{ $labels.profile }}, of job {{ $labels.job }} in"
        " namespace {{ $labels.namespace }}, were due for comparison within 30 minutes, and none was compared."
        " secondary_scheduler_shadow_skipped_total has the reasons. Pods are placed as without a shadow.",
    )


_LOAD = "LoadDataFresh"
_ROUND = "Rebalancing"
_OF_A_ROLLOUT = ("outcome", "image", "configurationHash")


def health_of(status: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a SecondaryScheduler's conditions, whether there is fresh load, how the last rollout ended, and why
    fewer replicas run than were asked for."""
    status = status or {}
    conditions = {str(each["type"]): str(each["status"]) for each in status.get("conditions") or ()}
    health: dict[str, Any] = {}
    # It changes from round to round, and says nothing of the installation.
    conditions.pop(_ROUND, None)
    if _LOAD in conditions:
        health[_LOAD] = conditions.pop(_LOAD)
    health["conditions"] = conditions
    if shortage := shortage_of(status.get("conditions") or ()):
        health["replicas"] = shortage
    if rollout := status.get("lastRollout"):
        health["lastRollout"] = {name: rollout[name] for name in _OF_A_ROLLOUT if name in rollout}
    return health


def health_of_deployment(status: k8s.apps.v1.outputs.DeploymentStatus | None) -> dict[str, Any]:
    """Return a Deployment's conditions."""
    conditions = (status.conditions if status else None) or ()
    return {"conditions": {str(condition.type): str(condition.status) for condition in conditions}}
