"""The page about metrics lists every metric that our processes register, with its type and labels."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics import MetricWrapperBase

from scheduler.observe.metrics import Metrics as SchedulerMetrics
from scheduler.observe.series import CounterFamily, Histograms
from secondary_scheduler.operator.metrics import OperatorMetrics as OperatorMetrics
from secondary_scheduler.rebalancer.metrics import RebalancerMetrics

CHECKOUT = Path(__file__).resolve().parents[3]
PAGE = (CHECKOUT / "docs" / "metrics.md").read_text(encoding="utf-8")
REGISTRIES = {
    "scheduler": SchedulerMetrics().registry,
    "operator": OperatorMetrics("0").registry,
    "rebalancer": RebalancerMetrics("0").registry,
}
_ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \|([^|]*)\|", re.MULTILINE)


def exposed_names(registry: CollectorRegistry) -> set[str]:
    """The names of the metrics in a registry, as Prometheus sees them."""
    return {family.name + "_total" * (family.type == "counter") for family in registry.collect()}


def own_metrics(registry: CollectorRegistry) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Type and labels by name; those of the Python client's collectors are left out."""
    own = [metric for metric in registry._collector_to_names if isinstance(metric, MetricWrapperBase)]
    listed = {
        metric._name + "_total" * (metric._type == "counter"): (metric._type, tuple(metric._labelnames))
        for metric in own
    }
    fast = [metric for metric in registry._collector_to_names if isinstance(metric, CounterFamily | Histograms)]
    return listed | {metric.name: (metric.kind, metric.label_names) for metric in fast}


@pytest.mark.parametrize("process", REGISTRIES)
def test_every_metric_stands_on_the_page(process: str) -> None:
    names = exposed_names(REGISTRIES[process])
    assert len(names) > 10
    assert not [name for name in sorted(names) if f"`{name}`" not in PAGE]


def test_the_page_lists_types_and_labels_and_nothing_that_does_not_exist() -> None:
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in _ROW.findall(PAGE)}
    assert listed == {name: entry for registry in REGISTRIES.values() for name, entry in own_metrics(registry).items()}
