"""Where the nodes' load comes from, and how old it is.

May import `framework`, `config`, `catalog` and `kube`; does I/O, in threads of its own, never on the scheduling
loop. What it hands over is a `LoadReading`: values with an age, where missing is missing and never zero.

The sources are imported when they are asked for: their HTTP libraries take a tenth of a second, and most
configurations read no load.
"""

import importlib
from typing import TYPE_CHECKING, Any

from scheduler.load.collector import Collector, LoadStatus
from scheduler.load.configured import DEFAULT_ADDRESSES, load_settings, load_source, wanted_sources, window_seconds
from scheduler.load.figures import MOST_PERCENT, Metric, instance_load, usable
from scheduler.load.matching import match_nodes, nodes_by_address
from scheduler.load.nodes import KnownNode, list_nodes
from scheduler.load.settings import LoadSettings, QueryTemplates
from scheduler.load.source import LoadError, LoadRefused, LoadSource
from scheduler.load.watcherformat import watcher_document

if TYPE_CHECKING:
    from scheduler.load.feed import LoadFeed, PreparesLoad
    from scheduler.load.metrics_server import MetricsServerSource
    from scheduler.load.prometheus import PrometheusSource
    from scheduler.load.signalfx import SignalFxSource
    from scheduler.load.watcher import WatcherSource, parse_watcher

_PLACES = {
    "LoadFeed": "feed",
    "PreparesLoad": "feed",
    "MetricsServerSource": "metrics_server",
    "PrometheusSource": "prometheus",
    "SignalFxSource": "signalfx",
    "WatcherSource": "watcher",
    "parse_watcher": "watcher",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)


__all__ = [
    "DEFAULT_ADDRESSES",
    "MOST_PERCENT",
    "Collector",
    "KnownNode",
    "LoadError",
    "LoadFeed",
    "LoadRefused",
    "LoadSettings",
    "LoadSource",
    "LoadStatus",
    "Metric",
    "MetricsServerSource",
    "PreparesLoad",
    "PrometheusSource",
    "QueryTemplates",
    "SignalFxSource",
    "WatcherSource",
    "instance_load",
    "list_nodes",
    "load_settings",
    "load_source",
    "match_nodes",
    "nodes_by_address",
    "parse_watcher",
    "usable",
    "wanted_sources",
    "watcher_document",
    "window_seconds",
]
