"""Where the nodes' load comes from, and how old it is.

May import `framework`, `config`, `catalog` and `kube`; does I/O, in threads of its own, never on the scheduling
loop. What it hands over is a `LoadReading`: values with an age, where missing is missing and never zero.
"""

from scheduler.load.collector import Collector, LoadStatus
from scheduler.load.figures import MOST_PERCENT, Metric, instance_load, usable
from scheduler.load.metrics_server import MetricsServerSource
from scheduler.load.nodes import KnownNode, by_address, list_nodes
from scheduler.load.prometheus import PrometheusSource
from scheduler.load.reading import InstanceLoad, LoadError, LoadReading, LoadRefused, LoadSource
from scheduler.load.settings import LoadSettings, QueryTemplates
from scheduler.load.signalfx import SignalFxSource
from scheduler.load.watcher import WatcherSource, parse_watcher
from scheduler.load.watcherformat import watcher_document

__all__ = [
    "MOST_PERCENT",
    "Collector",
    "InstanceLoad",
    "KnownNode",
    "LoadError",
    "LoadReading",
    "LoadRefused",
    "LoadSettings",
    "LoadSource",
    "LoadStatus",
    "Metric",
    "MetricsServerSource",
    "PrometheusSource",
    "QueryTemplates",
    "SignalFxSource",
    "WatcherSource",
    "by_address",
    "instance_load",
    "list_nodes",
    "parse_watcher",
    "usable",
    "watcher_document",
]
