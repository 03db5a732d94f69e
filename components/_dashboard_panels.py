"""The panels of the Grafana dashboard, as a table: rows of panels with their queries.

In a query `$cluster`, `$namespace` and `$job` stand for variables of the dashboard, `$__rate_interval` for Grafana's
own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypedDict

from ._objective import OBJECTIVE

_CLUSTER: Final = 'cluster=~"$cluster"'
SCHEDULER: Final = f'{_CLUSTER},job="$job",namespace="$namespace"'
"""Selects the scheduler's series."""
OPERATOR: Final = f'{_CLUSTER},namespace="$namespace"'
"""Selects the operator's: it serves the instances of its namespace."""
REBALANCER: Final = OPERATOR
"""Selects the rebalancer's: its job is not the scheduler's."""
RATE: Final = "$__rate_interval"


class Query(TypedDict):
    """An expression in PromQL, and how its series are called: text with labels as `{{label}}`."""

    expr: str
    legend: str


class Verdict(TypedDict):
    """When a figure is bad: colours from a value on, lowest first, and what is shown for a value or for none."""

    colours: Sequence[tuple[float, str]]
    words: dict[str, str]
    none: str


class Panel(TypedDict):
    """One panel; `unit` is one of Grafana's, `width` is in the 24 columns of the grid. One with a verdict shows nothing
    but good or bad."""

    title: str
    description: str
    kind: Literal["timeseries", "stat"]
    unit: str
    width: int
    queries: Sequence[Query]
    verdict: Verdict | None


class Row(TypedDict):
    """A row with a title; `collapsed` where it is of use to few."""

    title: str
    collapsed: bool
    panels: Sequence[Panel]


def rows() -> list[Row]:
    """Return the rows in the order in which they are shown."""
    return [
        _row("Overview", _overview()),
        _row("Health and leader", _health()),
        _row("Queue and attempts", _queue()),
        _row("Latency", _latency()),
        _row("Nodes and placement", _placement()),
        _row("Load of the nodes", _load()),
        _row("Bindings and API server", _bindings()),
        _row("Preemption", _preemption()),
        _row("Gangs and quotas", _gangs()),
        _row("Devices", _devices(), collapsed=True),
        _row("Shadow profile", _shadow(), collapsed=True),
        _row("Rebalancer", _rebalancing(), collapsed=True),
        _row("Process", _process()),
    ]


def _row(title: str, panels: Sequence[Panel], *, collapsed: bool = False) -> Row:
    return {"title": title, "collapsed": collapsed, "panels": panels}


def _panel(
    title: str,
    description: str,
    *queries: tuple[str, str],
    unit: str = "short",
    width: int = 8,
    kind: Literal["timeseries", "stat"] = "timeseries",
    verdict: Verdict | None = None,
) -> Panel:
    return {
        "title": title,
        "description": description,
        "kind": kind,
        "unit": unit,
        "width": width,
        "queries": [{"expr": expr, "legend": legend} for expr, legend in queries],
        "verdict": verdict,
    }


def _verdict(
    title: str,
    description: str,
    expression: str,
    colours: Sequence[tuple[float, str]],
    words: dict[str, str] | None = None,
    *,
    none: str = "unknown",
    unit: str = "short",
) -> Panel:
    verdict: Verdict = {"colours": colours, "words": words or {}, "none": none}
    return _panel(title, description, (expression, title), unit=unit, width=4, kind="stat", verdict=verdict)


def _rate(metric: str, *labels: str, only: str = "") -> tuple[str, str]:
    """The rate of a counter by labels."""
    selected = f"{SCHEDULER},{only}" if only else SCHEDULER
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"sum{by} (rate({metric}{{{selected}}}[{RATE}]))", _legend(labels) or metric


def _quantile(share: float, histogram: str, *labels: str, only: str = "") -> tuple[str, str]:
    """A quantile of a histogram by labels."""
    selected = f"{SCHEDULER},{only}" if only else SCHEDULER
    by = ", ".join((*labels, "le"))
    expression = f"histogram_quantile({share}, sum by ({by}) (rate({histogram}_bucket{{{selected}}}[{RATE}])))"
    return expression, " ".join(filter(None, (_legend(labels), f"p{share * 100:g}")))


def _most(gauge: str, *labels: str, only: str = "") -> tuple[str, str]:
    """The largest value of a gauge among the replicas, by labels."""
    selected = f"{SCHEDULER},{only}" if only else SCHEDULER
    by = f" by ({', '.join(labels)})" if labels else ""
    return f"max{by} ({gauge}{{{selected}}})", _legend(labels) or gauge


def _each(gauge: str, legend: str = "{{pod}}") -> tuple[str, str]:
    """A gauge of every replica."""
    return f"{gauge}{{{SCHEDULER}}}", legend


def _legend(labels: Sequence[str]) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in labels)


def _overview() -> list[Panel]:
    """What is good or bad, each in a word or a figure; the rows below have the details."""
    led = f"sum(leader_election_master_status{{{SCHEDULER}}})"
    bound = f'secondary_scheduler_pods_bound_total{{{SCHEDULER},attempt="first"'
    in_time = f'(sum(increase({bound},late="false"}}[1h])) or vector(0)) / sum(increase({bound}}}[1h]))'
    firing = f'count(ALERTS{{{OPERATOR},alertname=~"SecondaryScheduler.+",alertstate="firing"}}) or vector(0)'
    good_from_one = ((0.0, "red"), (1.0, "green"))
    bad_from_one = ((0.0, "green"), (1.0, "red"))
    return [
        _verdict("Alerts", "Alerts about scheduler, operator and rebalancer that fire now.", firing, bad_from_one),
        _verdict(
            "Scheduler",
            "Whether a replica leads; where there is no Lease, whether one is up.",
            f"clamp_max({led} or sum(up{{{SCHEDULER}}}), 1)",
            good_from_one,
            {"0": "places no pods", "1": "places pods"},
        ),
        _verdict(
            "Configuration and rollout",
            "Whether our operator reports a SecondaryScheduler as Degraded.",
            f"clamp_max(sum(secondary_scheduler_operator_degraded{{{OPERATOR}}}), 1)",
            bad_from_one,
            {"0": "good", "1": "degraded"},
            none="good, or no operator of ours",
        ),
        _verdict(
            "Bound within 5 s",
            f"Of the pods that were placed at their first attempt, in an hour. The objective is {OBJECTIVE * 100:g} %.",
            in_time,
            ((0.0, "red"), (0.95, "yellow"), (OBJECTIVE, "green")),
            none="no pods",
            unit="percentunit",
        ),
        _verdict(
            "Pods that fit no node",
            "Now. Their Events have the reasons.",
            f'max(scheduler_pending_pods{{{SCHEDULER},queue="unschedulable"}})',
            ((0.0, "green"), (1.0, "yellow")),
        ),
        _verdict(
            "Load of the nodes",
            "Whether every source has fresh load.",
            f"min(max by (source) (secondary_scheduler_load_data_fresh{{{SCHEDULER}}}))",
            good_from_one,
            {"0": "stale", "1": "fresh"},
            none="no plugin reads load",
        ),
    ]


def _placement() -> list[Panel]:
    def ratio(kind: str, resource: str, quantile: str = "") -> str:
        at = f',quantile="{quantile}"' if quantile else ""
        return f'max by (quantile) (secondary_scheduler_nodes_{kind}_ratio{{{SCHEDULER},resource="{resource}"{at}}})'

    def spread(resource: str) -> str:
        high, low = (f"max without (quantile) ({ratio('load', resource, quantile)})" for quantile in ("0.9", "0.1"))
        return f"{high} - {low}"

    def panel(kind: str, resource: str, title: str, description: str) -> Panel:
        return _panel(title, description, (ratio(kind, resource), "p{{quantile}}"), unit="percentunit")

    measured = "Measured load of the nodes, at quantiles; only with a plugin that reads load."
    return [
        panel(
            "requested",
            "cpu",
            "CPU that is requested",
            "Share of a node's allocatable CPU, at quantiles of the nodes: 1 is the fullest node.",
        ),
        panel("load", "cpu", "CPU that is used", measured),
        _panel(
            "How evenly nodes are used",
            "Load of the node at the 90th percentile minus that at the 10th: the lower, the more even. Profiles that"
            " pack pods onto few nodes want it high.",
            (spread("cpu"), "CPU"),
            (spread("memory"), "memory"),
            unit="percentunit",
        ),
        panel(
            "requested",
            "memory",
            "Memory that is requested",
            "Share of a node's allocatable memory, at quantiles of the nodes.",
        ),
        panel("load", "memory", "Memory that is used", measured),
        _panel(
            "What plugins observe",
            "Per second, by plugin: what they count about what they are given, such as nodes without load.",
            _rate("secondary_scheduler_plugin_observations_total", "plugin", "observation"),
        ),
    ]


def _health() -> list[Panel]:
    condition = f'secondary_scheduler_operator_condition{{{OPERATOR},status="True"}}'
    degraded = f"secondary_scheduler_operator_degraded{{{OPERATOR}}}"
    return [
        _panel(
            "Schedulers up",
            "Replicas that Prometheus scrapes. None: pods that request this scheduler stay pending.",
            (f"sum(up{{{SCHEDULER}}})", "up"),
            kind="stat",
            width=4,
        ),
        _panel(
            "Leaders",
            "Replicas that hold the Lease: one. For a moment it is none while the leader changes.",
            (f"sum(leader_election_master_status{{{SCHEDULER}}})", "leaders"),
            kind="stat",
            width=4,
        ),
        _panel("Leader", "1 for the replica that schedules.", _each("leader_election_master_status")),
        _panel(
            "Watches that are refused",
            "1 while the API server refuses the watch of a kind (401, 403): the copy of it grows old.",
            _most("secondary_scheduler_watch_refused", "resource"),
        ),
        _panel(
            "Conditions",
            "Conditions of SecondarySchedulers that are True, as our operator reports them.",
            (f"max by (exported_namespace, name, condition) ({condition})", "{{name}} {{condition}}"),
            width=12,
        ),
        _panel(
            "Degraded",
            "Why a SecondaryScheduler is Degraded; nothing while all is well, or without our operator.",
            (f"max by (exported_namespace, name, reason) ({degraded})", "{{name}} {{reason}}"),
            width=12,
        ),
    ]


def _queue() -> list[Panel]:
    return [
        _panel(
            "Waiting pods",
            "Pods by queue: active (to be tried next), backoff, unschedulable, gated. Replicas that do not lead count"
            " pods as active that the leader is about to place.",
            _most("scheduler_pending_pods", "queue"),
        ),
        _panel(
            "Attempts per second",
            "By result: scheduled, unschedulable, error.",
            _rate("scheduler_schedule_attempts_total", "result"),
        ),
        _panel(
            "Waiting pods by plugin",
            "Pods by the plugins that rejected them last.",
            _most("scheduler_unschedulable_pods", "plugin"),
        ),
        _panel(
            "Pods that enter a queue",
            "Per second, by queue and by the event that led there.",
            _rate("scheduler_queue_incoming_pods_total", "queue", "event"),
            width=12,
        ),
        _panel(
            "Cache",
            "Nodes, pods and assumed pods (placed, and not yet seen on their node).",
            _most("scheduler_cache_size", "type"),
            width=12,
        ),
    ]


def _latency() -> list[Panel]:
    decision = "scheduler_scheduling_algorithm_duration_seconds"
    attempt = "scheduler_scheduling_attempt_duration_seconds"
    waited = "scheduler_pod_scheduling_sli_duration_seconds"
    return [
        _panel(
            "Decision",
            "Time to choose a node for a pod, without the binding.",
            *(_quantile(share, decision) for share in (0.5, 0.9, 0.99)),
            unit="s",
        ),
        _panel(
            "Attempt",
            "Time of an attempt from the queue to the end of the binding; gangs wait for their members in between.",
            _quantile(0.5, attempt, "result"),
            _quantile(0.99, attempt, "result"),
            unit="s",
        ),
        _panel(
            "From the queue to the node",
            "Time from a pod's first entry into the active queue to its binding, whatever the number of attempts.",
            *(_quantile(share, waited) for share in (0.5, 0.99)),
            unit="s",
        ),
        _panel(
            "Extension points",
            "p99 of all plugins of an extension point.",
            _quantile(0.99, "scheduler_framework_extension_point_duration_seconds", "extension_point"),
            unit="s",
            width=12,
        ),
        _panel(
            "Plugins",
            "p99 of one plugin at one extension point; a tenth of the attempts is measured.",
            _quantile(0.99, "scheduler_plugin_execution_duration_seconds", "plugin", "extension_point"),
            unit="s",
            width=12,
        ),
    ]


def _load() -> list[Panel]:
    return [
        _panel(
            "Load is fresh",
            "1 while the source has fresh load that matches nodes; nothing without a plugin that reads load.",
            _most("secondary_scheduler_load_data_fresh", "source"),
        ),
        _panel(
            "Age of the newest sample",
            "By source.",
            _most("secondary_scheduler_load_data_age_seconds", "source"),
            unit="s",
        ),
        _panel(
            "Nodes by load",
            "Nodes whose load is fresh, stale (too old) or absent.",
            _most("secondary_scheduler_load_node_states", "source", "state"),
        ),
        _panel(
            "Failed reads",
            "Per second.",
            _rate("secondary_scheduler_load_refresh_failures_total", "source"),
        ),
        _panel(
            "Series without a node",
            "Series of the source that match no node of the cluster.",
            _most("secondary_scheduler_load_unmatched_instances", "source"),
        ),
        _panel(
            "Values that can be no load",
            "Per second: NaN, infinite, negative or absurdly large ones are dropped.",
            _rate("secondary_scheduler_load_rejected_values_total", "source", "query"),
        ),
    ]


def _bindings() -> list[Panel]:
    return [
        _panel(
            "Bindings per second",
            "By outcome; unknown ones had no answer and are looked up.",
            _rate("secondary_scheduler_bindings_total", "outcome"),
        ),
        _panel(
            "Requests per second",
            "Requests to the API server by HTTP status and method.",
            _rate("rest_client_requests_total", "code", "method"),
        ),
        _panel(
            "Time of requests",
            "p99 by verb, without watches.",
            _quantile(0.99, "rest_client_request_duration_seconds", "verb"),
            unit="s",
        ),
        _panel(
            "Wait for the rate limit",
            "p99 of the wait that clientConnection.qps causes.",
            _quantile(0.99, "rest_client_rate_limiter_duration_seconds", "verb"),
            unit="s",
        ),
        _panel(
            "Nodes with too many pods",
            "Nodes whose pods request more than is allocatable, and pods that came too late per second.",
            _most("secondary_scheduler_overcommitted_nodes", "resource"),
            _rate("secondary_scheduler_overcommits_total", "scheduler", "resource"),
        ),
        _panel(
            "Pods that kubelets reject",
            "Per second, by scheduler and reason: there was no room when the pod arrived.",
            _rate("secondary_scheduler_kubelet_rejections_total", "scheduler", "reason"),
        ),
    ]


def _preemption() -> list[Panel]:
    return [
        _panel(
            "Attempts to preempt",
            "Per second: attempts, and what came of those that were carried out.",
            _rate("scheduler_preemption_attempts_total"),
            _rate("scheduler_preemption_goroutines_execution_total", "result"),
        ),
        _panel(
            "Victims",
            "Pods that are preempted at a time.",
            *(_quantile(share, "scheduler_preemption_victims") for share in (0.5, 0.99)),
        ),
        _panel(
            "Time to carry it out",
            "p99, at the API server.",
            _quantile(0.99, "scheduler_preemption_goroutines_duration_seconds", "result"),
            unit="s",
        ),
    ]


def _gangs() -> list[Panel]:
    groups = "scheduler_podgroup_schedule_attempts_total"
    return [
        _panel("Gangs per second", "By outcome.", _rate("secondary_scheduler_gangs_total", "outcome"), width=6),
        _panel(
            "Time until a gang is bound",
            "p99 from its first reservation to the Binding that makes it complete.",
            _quantile(0.99, "secondary_scheduler_gang_binding_duration_seconds"),
            unit="s",
            width=6,
        ),
        _panel(
            "PodGroups of Kubernetes",
            "Attempts per second, by result; with the plugin GangScheduling.",
            _rate(groups, "result"),
            width=6,
        ),
        _panel(
            "Pods that a gang or a quota keeps waiting",
            "Waiting pods that the plugins for gangs and quotas rejected last.",
            _most("scheduler_unschedulable_pods", "plugin", only='plugin=~"Coscheduling|GangScheduling|Capacity.*"'),
            width=6,
        ),
    ]


def _devices() -> list[Panel]:
    waits = "scheduler_dra_bindingconditions_wait_duration_seconds"
    return [
        _panel(
            "Pods that wait for devices",
            "Waiting pods that DynamicResources rejected last.",
            _most("scheduler_unschedulable_pods", "profile", only='plugin="DynamicResources"'),
        ),
        _panel(
            "ResourceClaims for extended resources",
            "Created per second, by status; on Kubernetes 1.36 and newer.",
            _rate("scheduler_resourceclaim_creates_total", "status"),
            _rate("dynamic_resource_allocation_resourceclaim_creates_total", "status"),
        ),
        _panel(
            "Wait for binding conditions",
            "p99 by driver; on Kubernetes 1.36 and newer.",
            _quantile(0.99, waits, "driver", "status"),
            unit="s",
        ),
    ]


def _shadow() -> list[Panel]:
    decisions, profile = "secondary_scheduler_shadow_decisions_total", "profile"
    compared = f"sum by ({profile}) (rate({decisions}{{{SCHEDULER}}}[{RATE}]))"
    differs = f'sum by ({profile}) (rate({decisions}{{{SCHEDULER},outcome!~"sameNode|neitherPlaced"}}[{RATE}]))'
    loss = f"sum by ({profile}) (rate(secondary_scheduler_shadow_score_loss_total{{{SCHEDULER}}}[{RATE}]))"
    return [
        _panel(
            "Decisions compared",
            "Per second: where a shadow profile would have put the pods that the live one decided about.",
            _rate(decisions, profile, "outcome"),
            width=6,
        ),
        _panel(
            "Share that differs",
            "Of the decisions compared: another node, or only one of the two found one.",
            (f"{differs} / {compared}", _legend((profile,))),
            unit="percentunit",
            width=6,
        ),
        _panel(
            "Score lost per decision",
            "How much lower the live node's total is than the best one, as the shadow scores; on average.",
            (f"{loss} / {compared}", _legend((profile,))),
            width=6,
        ),
        _panel(
            "Not compared",
            "Per second, by reason: the sample, a long queue, the comparisons' share of time, extenders, errors.",
            _rate("secondary_scheduler_shadow_skipped_total", profile, "reason"),
            width=6,
        ),
    ]


def _rebalancing() -> list[Panel]:
    prefix = "secondary_scheduler_rebalance"

    def most(gauge: str, *labels: str) -> str:
        by = ", ".join(("job", *labels))
        return f"max by ({by}) ({prefix}_{gauge}{{{REBALANCER}}})"

    def rate(counter: str, label: str) -> tuple[str, str]:
        return f"sum by (job, {label}) (increase({prefix}_{counter}_total{{{REBALANCER}}}[1h]))", _legend((label,))

    def quantile(histogram: str, share: float) -> tuple[str, str]:
        buckets = f"sum by (job, le) (rate({prefix}_{histogram}_bucket{{{REBALANCER}}}[1h]))"
        return f"histogram_quantile({share}, {buckets})", f"p{share * 100:g}"

    return [
        _panel(
            "Pods may be moved",
            "1 while the rebalancer evicts (Automatic, and no safety rule forbids it); and 1 for the mode in effect.",
            (most("active"), "moves pods"),
            (most("mode", "mode"), "{{mode}}"),
        ),
        _panel(
            "Why nothing is moved",
            "1 for each reason for which the last round moved nothing.",
            (f"{most('stopped', 'reason')} == 1", "{{reason}}"),
        ),
        _panel(
            "Overloaded nodes",
            "Nodes above a threshold, and moves that were planned, in the last round.",
            (most("overloaded_nodes"), "overloaded nodes"),
            (most("planned_moves"), "planned moves"),
            (most("moves_in_flight"), "moves in flight"),
        ),
        _panel(
            "Moves by outcome",
            "In an hour: landed where planned, elsewhere, back, refused, or expired without a replacement.",
            rate("moves", "outcome"),
        ),
        _panel(
            "Evictions that are only tried",
            "In an hour, by the API server's answer: mode Predictive.",
            rate("dry_runs", "answer"),
        ),
        _panel(
            "Pods that stay on overloaded nodes",
            "In an hour, by the rule that keeps them there; a pod counts in every round.",
            rate("blocked", "reason"),
        ),
        _panel("Gain of moves", "Points of the total score by which the other node was better.", quantile("gain", 0.5)),
        _panel("Time of a round", "Of making a plan.", quantile("round_duration_seconds", 0.99), unit="s"),
        _panel(
            "Since the last round",
            "Of the leader.",
            (f"time() - {most('last_round_timestamp_seconds')}", "{{job}}"),
            unit="s",
        ),
    ]


def _process() -> list[Panel]:
    certificate = f'secondary_scheduler_serving_certificate_timestamp_seconds{{{SCHEDULER},bound="not_after"}}'
    return [
        _panel("CPU", "Cores in use.", (f"rate(process_cpu_seconds_total{{{SCHEDULER}}}[{RATE}])", "{{pod}}"), width=6),
        _panel("Memory", "Resident memory.", _each("process_resident_memory_bytes"), unit="bytes", width=6),
        _panel(
            "Lag of the event loop",
            "How late the event loop was last: a busy one decides late.",
            _each("secondary_scheduler_loop_lag_seconds"),
            unit="s",
            width=6,
        ),
        _panel("Open files", "File descriptors.", _each("process_open_fds"), width=6),
        _panel(
            "Configuration",
            "Hash of the configuration that a replica has loaded; two only while a new one is rolled out.",
            (f"count by (hash) (secondary_scheduler_configuration_info{{{SCHEDULER}}})", "{{hash}}"),
        ),
        _panel(
            "Age of the process",
            "It begins again with each restart.",
            (f"time() - process_start_time_seconds{{{SCHEDULER}}}", "{{pod}}"),
            unit="s",
        ),
        _panel(
            "Serving certificate",
            "Time until the certificate of --tls-cert-file ends; nothing where it is self-signed.",
            (f"{certificate} - time()", "{{pod}}"),
            unit="s",
        ),
    ]
