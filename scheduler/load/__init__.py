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
from scheduler.load.answers import (
    MAX_BYTES as MAX_BYTES,
    AnswerDecoder as AnswerDecoder,
    AnswerError as AnswerError,
    LoadAnswer as LoadAnswer,
    max_bytes as max_bytes,
)
from scheduler.load.collector import LoadCollector as LoadCollector, LoadStatus as LoadStatus
from scheduler.load.configured import (
    METRICS_SERVER as METRICS_SERVER,
    WATCHER as WATCHER,
    configured_sources as configured_sources,
    is_averaged as is_averaged,
    load_settings as load_settings,
    load_source as load_source,
    pod_series_source as pod_series_source,
    provider_of as provider_of,
    window_seconds as window_seconds,
)
from scheduler.load.nodes import (
    AddressedNode as AddressedNode,
    NodeAddresses as NodeAddresses,
    list_nodes as list_nodes,
    match_nodes as match_nodes,
    nodes_by_address as nodes_by_address,
)
from scheduler.load.settings import (
    LoadError as LoadError,
    LoadRefused as LoadRefused,
    LoadSettings as LoadSettings,
    LoadSource as LoadSource,
    ObjectCount as ObjectCount,
)
from scheduler.load.watcherformat import watcher_document as watcher_document

if TYPE_CHECKING:
    from scheduler.load.feed import LoadFeed as LoadFeed, PreparesLoad as PreparesLoad
    from scheduler.load.metrics_server import MetricsServerSource as MetricsServerSource
    from scheduler.load.prometheus import (
        PodSeriesSource as PodSeriesSource,
        PodUse as PodUse,
        PodUseAnswer as PodUseAnswer,
        PrometheusSource as PrometheusSource,
    )
    from scheduler.load.session import GuardedSession as GuardedSession, tls_advice as tls_advice
    from scheduler.load.signalfx import SignalFxSource as SignalFxSource
    from scheduler.load.watcher import WatcherSource as WatcherSource, parse_watcher as parse_watcher

if not TYPE_CHECKING:
    __getattr__ = lazy_attributes(
        __name__,
        {
            "GuardedSession": "session",
            "LoadFeed": "feed",
            "PreparesLoad": "feed",
            "MetricsServerSource": "metrics_server",
            "PodSeriesSource": "prometheus",
            "PodUse": "prometheus",
            "PodUseAnswer": "prometheus",
            "PrometheusSource": "prometheus",
            "SignalFxSource": "signalfx",
            "WatcherSource": "watcher",
            "parse_watcher": "watcher",
            "tls_advice": "session",
        },
    )
