"""The queries of alerts and dashboard, and what they say about metrics: names, the labels they select and group by.

No PromQL parser: the queries are ours, and promtool parses them in tests/integration/alerts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as MetricFamily
from prometheus_client.parser import text_string_to_metric_families

from components._dashboard import dashboard
from components.alerts import alert_rules, recorded
from scheduler.observe import Metrics as SchedulerMetrics
from scheduler.observe.series import CounterFamily, Histograms
from secondary_scheduler.operator.metrics import OperatorMetrics
from secondary_scheduler.rebalancer.metrics import RebalancerMetrics

NAMESPACE = "scheduling"
_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{([^}]*)\}")
_MATCHER = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)\s*(?:=~|!~|!=|=)\s*"[^"]*"')
_GROUPING = re.compile(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)")
TARGET_LABELS = frozenset({"job", "namespace", "instance", "pod", "cluster"})
"""What a scrape adds to each series, and a Prometheus of several clusters to its own."""
_BY_LABEL = re.compile(r"(?<=_)pod_namespace(?=:)")
"""In the name of a recorded series, which begins with its labels, the one that no target has."""
_SUFFIXES = ("_bucket", "_sum", "_count")


@dataclass(frozen=True)
class Metric:
    """A metric as a page or a scrape has it; `labels` are its own, without those of the target."""

    kind: str
    labels: frozenset[str]


def panels(board: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """All panels with queries, also those in collapsed rows."""
    for panel in board["panels"]:
        yield from panel["panels"] if panel["type"] == "row" else [panel]


def dashboard_queries() -> dict[str, str]:
    """The dashboard's queries with values for its variables, by panel and reference."""
    values = {"$__rate_interval": "5m", "$namespace": NAMESPACE, "$job": "secondary-scheduler", "$cluster": ".*"}
    queries = {}
    for panel in panels(dashboard()):
        for target in panel["targets"]:
            text = target["expr"]
            for variable, value in values.items():
                text = text.replace(variable, value)
            queries[f"{panel['title']}/{target['refId']}"] = text
    return queries


def alert_queries() -> dict[str, str]:
    """The alerts' expressions by name."""
    return {rule["alert"]: rule["expr"] for rule in alert_rules(NAMESPACE, operator=True, rebalancer=True)}


def selected(query: str) -> list[tuple[str, frozenset[str]]]:
    """The metrics of a query with the labels that their selectors name."""
    return [(name, frozenset(_MATCHER.findall(matchers))) for name, matchers in _SELECTOR.findall(query)]


def grouped(query: str) -> frozenset[str]:
    """The labels by which a query aggregates or matches."""
    return frozenset(
        label.strip() for labels in _GROUPING.findall(query) for label in labels.split(",") if label.strip()
    )


def mistakes(query: str, metrics: Mapping[str, Metric]) -> list[str]:
    """Names of metrics that do not exist, and labels that they do not have."""
    problems: list[str] = []
    known = set(TARGET_LABELS)
    for name, labels in selected(query):
        own = labels_of(name, metrics)
        if own is None:
            problems.append(f"{name} does not exist")
            continue
        known |= own
        problems += [f"{name} has no label {label}" for label in sorted(labels - own - TARGET_LABELS)]
    return problems + [f"no metric of it has the label {label}" for label in sorted(grouped(query) - known)]


def labels_of(name: str, metrics: Mapping[str, Metric]) -> frozenset[str] | None:
    """The own labels of the series of that name; None where there are none."""
    if (labels := _MADE_BY_PROMETHEUS.get(name)) is not None:
        return labels
    if (metric := metrics.get(name)) is not None:
        return None if metric.kind == "histogram" else metric.labels
    for suffix in _SUFFIXES:
        metric = metrics.get(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if metric is not None and metric.kind == "histogram":
            return metric.labels | ({"le"} if suffix == "_bucket" else set())
    return None


def registered() -> dict[str, Metric]:
    """What the registries of scheduler, operator and rebalancer have, with the labels that they declare."""
    metrics: dict[str, Metric] = {}
    for registry in (SchedulerMetrics().registry, OperatorMetrics("0").registry, RebalancerMetrics("0").registry):
        # Those of the Python client's collectors have no labels that we use.
        metrics |= {_name(family): Metric(family.type, frozenset()) for family in registry.collect()}
        for metric in registry._collector_to_names:
            if isinstance(metric, MetricWrapperBase):
                name = metric._name + "_total" * (metric._type == "counter")
                metrics[name] = Metric(str(metric._type), _stored(metric._labelnames))
            elif isinstance(metric, CounterFamily | Histograms):
                metrics[metric.name] = Metric(str(metric.kind), _stored(metric.label_names))
    return metrics


def scraped(text: str) -> dict[str, Metric]:
    """What a scrape shows: the metrics that have series, with the labels of these."""
    families = [family for family in text_string_to_metric_families(text) if family.samples]
    return {
        _name(family): Metric(family.type, _stored({label for sample in family.samples for label in sample.labels}))
        for family in families
    }


def _name(family: MetricFamily) -> str:
    return str(family.name + "_total" * (family.type == "counter"))


def _stored(labels: Iterable[str]) -> frozenset[str]:
    """The labels as Prometheus stores them: one that the target has as well is renamed."""
    own = {f"exported_{label}" if label in TARGET_LABELS else label for label in labels}
    return frozenset(own - {"le"})


_RECORDED = {rule["record"]: rule["expr"] for rule in recorded(NAMESPACE)}
_MADE_BY_PROMETHEUS: Mapping[str, frozenset[str]] = {
    "up": frozenset(),
    "ALERTS": frozenset({"alertname", "alertstate", "severity"}),
    **{name: frozenset(_BY_LABEL.findall(name)) for name in _RECORDED},
}
"""Series that no scrape has, with their own labels."""
QUERIES = {**alert_queries(), **_RECORDED, **dashboard_queries()}
"""All queries by a name of their own."""


def mistakes_about(live: Mapping[str, Metric]) -> dict[str, list[str]]:
    """The mistakes of all queries by name: about what a scrape shows, and for the rest about what is registered."""
    metrics = {**registered(), **live}
    return {name: wrong for name, query in QUERIES.items() if (wrong := mistakes(query, metrics))}
