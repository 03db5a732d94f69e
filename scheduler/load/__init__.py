"""Where the nodes' load comes from, and how old it is.

Belongs here: the sources, the collector that reads one in a thread of its own, the matching of a source's instances to
nodes, and the feed that takes readings to the scheduler. May import `observe`, `framework`, `config`, `catalog` and
`kube`. Does I/O, never on the scheduling loop. A missing value is missing (NaN) and never zero, and every value has an
age, which `scheduler.framework.is_fresh` alone judges.

The sources are imported when they are used: their HTTP libraries take a tenth of a second, and most configurations
read no load.
"""

from typing import TYPE_CHECKING

from scheduler.lazy import lazy_attributes
from scheduler.load.answers import MOST_BYTES, Answer, AnswerDecoder, AnswerError, most_bytes
from scheduler.load.collector import Collector, LoadStatus
from scheduler.load.configured import (
    METRICS_SERVER,
    WATCHER,
    configured_sources,
    is_averaged,
    load_settings,
    load_source,
    pod_series_source,
    provider_of,
    window_seconds,
)
from scheduler.load.nodes import KnownNode, NodeAddresses, list_nodes, match_nodes, nodes_by_address
from scheduler.load.settings import Known, LoadError, LoadRefused, LoadSettings, LoadSource
from scheduler.load.watcherformat import watcher_document

if TYPE_CHECKING:
    from scheduler.load.feed import LoadFeed, PreparesLoad
    from scheduler.load.metrics_server import MetricsServerSource
    from scheduler.load.podseries import PodSeriesSource, PodUse, PodUses
    from scheduler.load.prometheus import PrometheusSource
    from scheduler.load.session import GuardedSession, tls_advice
    from scheduler.load.signalfx import SignalFxSource
    from scheduler.load.watcher import WatcherSource, parse_watcher

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "GuardedSession": "session",
            "LoadFeed": "feed",
            "PreparesLoad": "feed",
            "MetricsServerSource": "metrics_server",
            "PodSeriesSource": "podseries",
            "PodUse": "podseries",
            "PodUses": "podseries",
            "PrometheusSource": "prometheus",
            "SignalFxSource": "signalfx",
            "WatcherSource": "watcher",
            "parse_watcher": "watcher",
            "tls_advice": "session",
        },
    )


__all__ = [
    "METRICS_SERVER",
    "MOST_BYTES",
    "WATCHER",
    "Answer",
    "AnswerDecoder",
    "AnswerError",
    "Collector",
    "GuardedSession",
    "Known",
    "KnownNode",
    "LoadError",
    "LoadFeed",
    "LoadRefused",
    "LoadSettings",
    "LoadSource",
    "LoadStatus",
    "MetricsServerSource",
    "NodeAddresses",
    "PodSeriesSource",
    "PodUse",
    "PodUses",
    "PreparesLoad",
    "PrometheusSource",
    "SignalFxSource",
    "WatcherSource",
    "configured_sources",
    "is_averaged",
    "list_nodes",
    "load_settings",
    "load_source",
    "match_nodes",
    "most_bytes",
    "nodes_by_address",
    "parse_watcher",
    "pod_series_source",
    "provider_of",
    "tls_advice",
    "watcher_document",
    "window_seconds",
]
