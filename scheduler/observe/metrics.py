"""Metrics, under upstream's names where upstream has the same, under `secondary_scheduler_` where it has not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

from scheduler.observe.clientmetrics import ClientMetrics
from scheduler.observe.processmetrics import BuildInfo, NetworkCollector
from scheduler.observe.series import CounterFamily, Histograms, MirroredCounters, exponential
from scheduler.observe.workqueue import WorkQueueMetrics

_FAST = exponential(0.00001, 1.5, 20)
_SLOW = exponential(0.001, 2, 15)

_OVER_BUDGET = "over_budget"
"""Observations begin with it that have a metric of their own (`scheduler.framework.OVER_BUDGET`)."""

_without_created_series: Callable[[], None] = disable_created_metrics


LATE_SECONDS = 5.0
"""A pod that waits longer for its Binding is late: the objective for which alerts and dashboard have a share."""
MAX_NAMESPACES = 500
"""Namespaces whose pods are counted by themselves; those of further ones are counted together, without a name."""


class _Factory:
    """Makes metrics in one registry: `counters` and `histograms` for the loop alone, the others for any thread."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self._registry)

    def counters(self, name: str, text: str, *labels: str) -> CounterFamily:
        return CounterFamily(name, text, labels, self._registry)

    def mirrored(self, name: str, text: str, counted: CounterFamily, label: tuple[str, str]) -> MirroredCounters:
        return MirroredCounters(name, text, counted, label, self._registry)

    def histograms(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histograms:
        return Histograms(name, text, buckets, labels, self._registry)

    def gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(name, text, labels, registry=self._registry)

    def histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)


def _plugin_series(new: _Factory) -> Mapping[str, Callable[..., None]]:
    """Return what adds a value to each metric that plugins fill, by the name of the metric."""
    claims = "ResourceClaims that the scheduler tried to create for extended resources"
    created = new.counters("scheduler_resourceclaim_creates_total", claims, "status")
    labels = ("status", "admin_access", "owner_api_group", "owner_api_kind")
    created_1_37 = new.counters("dynamic_resource_allocation_resourceclaim_creates_total", claims, *labels)
    by_driver = ("profile", "driver", "status")
    allocations = new.counters(
        "scheduler_dra_bindingconditions_allocations_total",
        "Allocated devices with binding conditions, by how the wait for them ended",
        *by_driver,
    )
    waits = new.histograms(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "Time that PreBind waited for the binding conditions of devices",
        exponential(0.1, 2, 14),
        *by_driver,
    )
    series: dict[str, Callable[..., None]] = {
        each.name: lambda value, *labels, each=each: each.labels(*labels).inc(value)
        for each in (created, created_1_37, allocations)
    }
    return series | {waits.name: lambda value, *labels: waits.labels(*labels).observe(value)}


class Metrics:
    """All metrics of one process, in a registry of their own so that tests do not share state."""

    def __init__(self, entity_label: str = "type") -> None:
        """`entity_label` says what is in the queue; as `entity` (1.38), metrics of PodGroups have it, too."""
        self._entity_label = entity_label
        self._pod_group_labels = (entity_label,) if entity_label == "entity" else ()
        # Upstream's metrics have no series for the time of creation, which would be one more per label combination.
        _without_created_series()
        registry = self.registry = CollectorRegistry(auto_describe=True)
        ProcessCollector(registry=registry)
        NetworkCollector(registry)
        BuildInfo(registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        new = _Factory(registry)
        self.clients = ClientMetrics(registry)
        self.work_queues = WorkQueueMetrics(registry)
        self._add_attempts(new)
        self._add_queue(new)
        self._add_plugins(new)
        self._add_preemption(new)
        self._add_outcomes(new)
        self._add_load(new)
        self._add_process(new)

    def _add_attempts(self, new: _Factory) -> None:
        """Attempts to place pods."""
        self.schedule_attempts = new.counters(
            "scheduler_schedule_attempts_total", "Attempts to schedule a pod, by result", "result", "profile"
        )
        self.attempt_duration = new.histograms(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of one attempt, from the queue to the end of the binding",
            _SLOW,
            "result",
            "profile",
        )
        self.algorithm_duration = new.histograms(
            "scheduler_scheduling_algorithm_duration_seconds", "Time of one decision", _SLOW
        )
        self.sli_duration = new.histograms(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's first entry into the active queue to its binding",
            exponential(0.01, 2, 20),
            "attempts",
        )
        self.attempts_per_pod = new.histograms(
            "scheduler_pod_scheduling_attempts", "Attempts that a bound pod needed", exponential(1, 2, 5)
        )
        self.scheduled_after_flush = new.counters(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods bound in an attempt that no event led to, but the timeout of unschedulable pods",
        )
        self.permit_wait = new.histograms(
            "scheduler_permit_wait_duration_seconds", "Time that pods were held by Permit plugins", _SLOW, "result"
        )
        self.volume_errors = new.counters(
            "scheduler_volume_scheduling_stage_error_total",
            "Failures of VolumeBinding, by stage: predicate (Filter), assume (Reserve), bind (PreBind)",
            "operation",
        )
        self.plugin_series = _plugin_series(new)
        self.unreadable_pods = new.gauge(
            "secondary_scheduler_unreadable_pods",
            "Pods that cannot be fully decoded: counted on their node, node closed (it gets no more pods), or left out",
            "state",
        )

    def _add_queue(self, new: _Factory) -> None:
        """Queues, cache, and the events of the cluster."""
        self.pending_pods = new.gauge("scheduler_pending_pods", "Pods waiting, by queue", "queue")
        self.unschedulable_pods = new.gauge(
            "scheduler_unschedulable_pods", "Waiting pods by the plugins that rejected them last", "plugin", "profile"
        )
        self.incoming_pods = new.counters(
            "scheduler_queue_incoming_pods_total", "Pods that entered a queue, by event", "queue", "event"
        )
        new.mirrored(
            "scheduler_queue_incoming_entities_total",
            f"As scheduler_queue_incoming_pods_total; {self._entity_label} is pod",
            self.incoming_pods,
            (self._entity_label, "pod"),
        )
        self.queued_entities = new.gauge(
            "scheduler_queued_entities",
            f"As scheduler_pending_pods; {self._entity_label} is pod",
            "queue",
            self._entity_label,
        )
        self.inflight_events = new.gauge(
            "scheduler_inflight_events", "Events kept for pods that are being tried, and these pods", "event"
        )
        self.event_handling = new.histograms(
            "scheduler_event_handling_duration_seconds",
            "Time to take in an event of the cluster",
            exponential(0.0001, 2, 12),
            "event",
        )
        self.hint_duration = new.histograms(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of a plugin's queueing hint; one of ten is measured",
            _FAST,
            "plugin",
            "event",
            "hint",
        )
        self.cache_size = new.gauge("scheduler_cache_size", "Objects in the cache", "type")
        self.goroutines = new.gauge("scheduler_goroutines", "Tasks beside the scheduling loop", "operation")

    def _add_plugins(self, new: _Factory) -> None:
        """Extension points and plugins."""
        self.point_duration = new.histograms(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins of an extension point",
            exponential(0.0001, 2, 12),
            "extension_point",
            "status",
            "profile",
        )
        self.plugin_duration = new.histograms(
            "scheduler_plugin_execution_duration_seconds",
            "Time of one plugin at an extension point; in one of ten attempts it is measured",
            _FAST,
            "plugin",
            "extension_point",
            "status",
        )
        self.plugin_evaluations = new.counters(
            "scheduler_plugin_evaluation_total",
            "Calls of plugins at PreFilter, Filter, PreScore and Score",
            "plugin",
            "extension_point",
            "profile",
        )

    def _add_preemption(self, new: _Factory) -> None:
        self.preemption_attempts = new.counters(
            "scheduler_preemption_attempts_total", "Attempts to make room for a pod by taking others away"
        )
        self.preemption_victims = new.histograms(
            "scheduler_preemption_victims", "Pods taken away per preemption", exponential(1, 2, 7)
        )
        self.preemption_duration = new.histograms(
            "scheduler_preemption_goroutines_duration_seconds",
            "Time to carry a preemption out at the API server",
            exponential(0.01, 2, 20),
            "result",
        )
        self.preemption_executions = new.counters(
            "scheduler_preemption_goroutines_execution_total", "Preemptions carried out, by result", "result"
        )

    def _add_outcomes(self, new: _Factory) -> None:
        """What became of gangs, Bindings and Events, and what plugins observed."""
        self.gangs = new.counter(
            "secondary_scheduler_gangs_total",
            "Gangs by outcome: placed (enough members bound), rejected (no member holds a node), incomplete",
            "outcome",
        )
        self.gang_duration = new.histogram(
            "secondary_scheduler_gang_binding_duration_seconds",
            "Time from a gang's first reservation to the Binding that makes it complete",
            exponential(0.001, 2, 18),
        )
        self.pod_group_attempts = new.counters(
            "scheduler_podgroup_schedule_attempts_total",
            "Attempts to place a PodGroup of scheduling.k8s.io that lacks members on nodes, by result",
            "result",
            "profile",
            *self._pod_group_labels,
        )
        self.pod_group_duration = new.histograms(
            "scheduler_podgroup_scheduling_attempt_duration_seconds",
            "Time of such an attempt",
            exponential(0.001, 2, 15),
            "result",
            "profile",
            *self._pod_group_labels,
        )
        self.pod_group_algorithm_duration = new.histograms(
            "scheduler_podgroup_scheduling_algorithm_duration_seconds",
            "Time of the decisions of such an attempt",
            exponential(0.001, 2, 15),
            *(("profile", *self._pod_group_labels) if self._pod_group_labels else ()),
        )
        self.bindings = new.counters(
            "secondary_scheduler_bindings_total",
            "Bindings by outcome: bound, conflict, gone, unknown (answer lost, read back), failed",
            "outcome",
        )
        self.overcommits = new.counter(
            "secondary_scheduler_overcommits_total",
            "Bindings after which a node's pods request more than is allocatable, by whose pod it was: own, other",
            "resource",
            "scheduler",
        )
        self.overcommitted_nodes = new.gauge(
            "secondary_scheduler_overcommitted_nodes",
            "Nodes whose bound pods request more than is allocatable",
            "resource",
        )
        self.kubelet_rejections = new.counter(
            "secondary_scheduler_kubelet_rejections_total",
            "Pods that their kubelet rejected for want of room, by reason (such as OutOfcpu) and whose: own, other",
            "reason",
            "scheduler",
        )
        self.node_checks = new.counter(
            "secondary_scheduler_node_checks_total",
            "Nodes read again before a Binding, by outcome: fits, full (filled up meanwhile), failed (not readable)",
            "outcome",
        )
        self.node_check_duration = new.histogram(
            "secondary_scheduler_node_check_duration_seconds",
            "Time to read a node's pods before a Binding",
            exponential(0.001, 2, 14),
        )
        self.extender_duration = new.histogram(
            "secondary_scheduler_extender_duration_seconds",
            "Time of a call of an extender, by what came of it: answered, refused, timeout, nonsense, failed",
            exponential(0.001, 2, 20),
            "extender",
            "verb",
            "result",
        )
        self.events_dropped = new.counter(
            "secondary_scheduler_events_dropped_total",
            "Events not written: the queue was full, or the API server refused them",
        )
        self.shadow_decisions = new.counters(
            "secondary_scheduler_shadow_decisions_total",
            "Decisions compared with those of a shadow profile: sameNode, otherNode, onlyLivePlaced, onlyShadowPlaced, "
            "neitherPlaced",
            "profile",
            "shadow",
            "outcome",
        )
        self.shadow_skipped = new.counters(
            "secondary_scheduler_shadow_skipped_total",
            "Decisions not compared with a shadow: sample, queue (many pods wait), time (its share is used), extender, "
            "error",
            "profile",
            "reason",
        )
        self.shadow_score_loss = new.counters(
            "secondary_scheduler_shadow_score_loss_total",
            "Sum of how much lower the live node's score is than the best one, as the shadow scores",
            "profile",
            "shadow",
        )
        self.over_budget = new.counter(
            "secondary_scheduler_pods_over_budget_total",
            "Attempts given up as too much work, by the plugin with which they became it",
            "plugin",
        )
        self.hints_unasked = new.counter(
            "secondary_scheduler_hints_unasked_total",
            "Waiting pods that were not asked about an event, as they or the pod that changed list too much",
            "event",
        )
        self.objects_left_out = new.counter(
            "secondary_scheduler_objects_left_out_total",
            "Objects that could not be decoded, or list more than is read, and are left out",
            "kind",
        )
        self.plugin_observations = new.counter(
            "secondary_scheduler_plugin_observations_total",
            "What plugins report about their input, such as nodes without load data",
            "plugin",
            "observation",
        )

        self.pods_bound = new.counters(
            "secondary_scheduler_pods_bound_total",
            "Pods that are bound, by namespace, by whether their first attempt led to it, and by whether it took more "
            f"than {LATE_SECONDS:g} s",
            "pod_namespace",
            "attempt",
            "late",
        )
        self._bound_namespaces: set[str] = set()

    def _add_load(self, new: _Factory) -> None:
        """Load sources and the nodes they know; how full nodes are."""
        self.nodes_requested = new.gauge(
            "secondary_scheduler_nodes_requested_ratio",
            "Share of a node's allocatable amount that its pods request, at quantiles of the nodes",
            "resource",
            "quantile",
        )
        self.nodes_load = new.gauge(
            "secondary_scheduler_nodes_load_ratio",
            "Measured load of a node as a share of its capacity, at quantiles of the nodes with fresh load",
            "source",
            "resource",
            "quantile",
        )
        self.load_fresh = new.gauge(
            "secondary_scheduler_load_data_fresh", "1 while the load source's data are fresh", "source"
        )
        self.load_age = new.gauge(
            "secondary_scheduler_load_data_age_seconds", "Age of the newest sample of a load source", "source"
        )
        self.load_failures = new.counter(
            "secondary_scheduler_load_refresh_failures_total", "Failed reads of a load source", "source"
        )
        self.load_rejected = new.counter(
            "secondary_scheduler_load_rejected_values_total",
            "Values of a load source that can be no load: NaN, infinite, negative, absurdly large",
            "source",
            "query",
        )
        self.load_unmatched = new.gauge(
            "secondary_scheduler_load_unmatched_instances", "Series whose instance is no node of the cluster", "source"
        )
        self.load_node_states = new.gauge(
            "secondary_scheduler_load_node_states",
            "Nodes by what the source says of them: fresh, stale (too old) or absent",
            "source",
            "state",
        )
        self.load_nodes = new.gauge("secondary_scheduler_load_nodes", "Nodes with a load from the source", "source")

    def _add_process(self, new: _Factory) -> None:
        """This process."""
        self.watch_refused = new.gauge(
            "secondary_scheduler_watch_refused",
            "1 while the API server refuses the watch of a resource: the copy grows old, or there never was one.",
            "resource",
        )
        self.restores = new.counter(
            "secondary_scheduler_etcd_restores_total",
            "How often the cluster went back to an older state, so that everything was listed anew",
        )
        self.watch_served = new.gauge(
            "secondary_scheduler_watched_resource_served",
            "0 while the API server does not serve a resource that an enabled plugin reads",
            "resource",
        )
        self.features = new.gauge(
            "kubernetes_feature_enabled",
            "1 where a feature is on by default in the version of kube-scheduler that this is, or was switched on",
            "name",
            "stage",
        )
        self.configuration = new.gauge(
            "secondary_scheduler_configuration_info", "1 for the configuration that is loaded", "hash"
        )
        self.leader = new.gauge("leader_election_master_status", "1 while this process holds the Lease", "name")
        self.lease_slow_paths = new.counters(
            "leader_election_slowpath_total", "Renewals that had to read the Lease before they wrote it", "name"
        )
        self.certificate = new.gauge(
            "secondary_scheduler_serving_certificate_timestamp_seconds",
            "Since when and until when the certificate of --tls-cert-file is valid: not_before, not_after",
            "bound",
        )
        self.dropped_connections = new.counter(
            "secondary_scheduler_dropped_connections_total",
            "Connections not served to their end: address_limit, total_limit, timeout, large_head, no_descriptor, "
            "malformed",
            "reason",
        )
        self.spans = new.counter(
            "secondary_scheduler_spans_total",
            "Spans of traced attempts: exported, queue_full (dropped before they were sent), export_failed",
            "outcome",
        )
        self.loop_lag = new.gauge("secondary_scheduler_loop_lag_seconds", "How late the event loop was last")

    def show_features(self, gates: Iterable[tuple[str, str, bool]]) -> None:
        """Set which features are on: name and stage of a gate, and whether it is."""
        for name, stage, enabled in gates:
            self.features.labels(name, stage).set(enabled)

    def count_spans(self, outcome: str, count: int) -> None:
        """Count spans by what became of them; on any thread."""
        self.spans.labels(outcome).inc(count)

    def count_drop(self, reason: str) -> None:
        """Count a connection that was not served to its end; on any thread."""
        self.dropped_connections.labels(reason).inc()

    def show_certificate(self, not_before: float, not_after: float) -> None:
        """Set for how long the serving certificate is valid, in seconds since 1970."""
        self.certificate.labels("not_before").set(not_before)
        self.certificate.labels("not_after").set(not_after)

    def count_observations(self, counters: Mapping[str, int]) -> None:
        """Add what plugins counted in one attempt, by observation."""
        for observation, count in counters.items():
            kind, _, plugin = observation.partition("/")
            if kind == _OVER_BUDGET:
                self.over_budget.labels(plugin).inc(count)
            else:
                self.plugin_observations.labels(plugin, kind).inc(count)

    def count_bound(self, namespace: str, attempts: int, waited: float) -> None:
        """Count a pod that is bound, after so many attempts and seconds since it was first to be tried."""
        if namespace not in self._bound_namespaces:
            if len(self._bound_namespaces) < MAX_NAMESPACES:
                self._bound_namespaces.add(namespace)
            else:
                namespace = ""
        late = "true" if waited > LATE_SECONDS else "false"
        self.pods_bound.labels(namespace, "first" if attempts == 1 else "later", late).inc()

    def show_sizes(self, cache: Mapping[str, int], queues: Mapping[str, int]) -> None:
        """Set the gauges of the cache (nodes, pods, assumed_pods) and of the queues."""
        for kind, size in cache.items():
            self.cache_size.labels(kind).set(size)
        for queue, size in queues.items():
            self.pending_pods.labels(queue).set(size)

    def show_entities(self, counts: Mapping[tuple[str, str], int]) -> None:
        """Set how many pods and PodGroups are queued, by queue and `pod` or `podgroup`."""
        for (queue, kind), count in counts.items():
            self.queued_entities.labels(queue, kind).set(count)

    def pod_group_tried(self, result: str, profile: str, seconds: float) -> None:
        """Count an attempt to place a PodGroup."""
        labels = (result, profile, *("podgroup" for _ in self._pod_group_labels))
        self.pod_group_attempts.labels(*labels).inc()
        self.pod_group_duration.labels(*labels).observe(seconds)

    def pod_group_decided(self, profile: str, seconds: float) -> None:
        """Count the time that the decisions of such an attempt took."""
        if self._pod_group_labels:
            self.pod_group_algorithm_duration.labels(profile, "podgroup").observe(seconds)
        else:
            self.pod_group_algorithm_duration.observe(seconds)

    def show_rejections(self, pods: Mapping[tuple[str, str], int]) -> None:
        """Set how many waiting pods a plugin rejected, by plugin and profile; those not named have none any more."""
        self._show(self.unschedulable_pods, pods)

    def show_in_flight(self, events: Mapping[tuple[str], int]) -> None:
        """Set how many events are kept, by their label; those not named have none any more."""
        self._show(self.inflight_events, events)

    @staticmethod
    def _show(gauge: Gauge, numbers: Mapping[Any, int]) -> None:
        present = {tuple(sample.labels.values()) for metric in gauge.collect() for sample in metric.samples}
        for labels in present | numbers.keys():
            gauge.labels(*labels).set(numbers.get(labels, 0))
