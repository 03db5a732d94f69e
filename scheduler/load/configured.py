"""From a configuration to the sources that its plugins read: settings, and the source that a key names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.catalog import (
    DEFAULT_ADDRESSES,
    ArgsModel,
    CredentialRules,
    HighLoadFilterArgs,
    LoadOptions,
    TrimaranArgs,
)
from scheduler.config import EffectiveProfile
from scheduler.imports import import_requests
from scheduler.kube.client import ClientConfig
from scheduler.load.answers import MAX_BYTES
from scheduler.load.settings import LoadSettings, LoadSource, ObjectCount

if TYPE_CHECKING:
    from scheduler.load.prometheus import PodSeriesSource

WATCHER, METRICS_SERVER = "watcher", "KubernetesMetricsServer"
"""What keys of sources begin with (`ArgsModel.source_key`); the others are types of metricProvider, too."""
_PART = re.compile(r"([0-9]+)(ms|[smhdwy])")
_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800, "y": 31536000}


def window_seconds(window: str) -> float:
    """Return the seconds of a PromQL duration such as `15m` or `1h30m`."""
    return sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(window))


def provider_of(key: str) -> str:
    """Return what a source is, of its key: `watcher`, or the type of a metricProvider."""
    return key.partition(":")[0]


_STRICT = CredentialRules()


def load_settings(args: ArgsModel, options: LoadOptions, rules: CredentialRules = _STRICT) -> LoadSettings:
    """Combine a plugin's upstream args with our options into the settings of its source.

    `rules` say where credentials may come from and go to; by default only from the directory of mounted credentials.
    """
    key = args.source_key() or ""
    settings = LoadSettings(
        address=key.removeprefix(f"{WATCHER}:"),
        token_file=Path(options.token_file) if options.token_file else None,
        ca_file=Path(options.ca_file) if options.ca_file else None,
        window=options.window,
        refresh_seconds=options.refresh_seconds,
        max_age_seconds=options.max_age_seconds,
        timeout_seconds=options.timeout_seconds,
        queries=options.queries,
        node_label=options.node_label,
        rules=rules,
    )
    if provider_of(key) == WATCHER or not isinstance(args, TrimaranArgs):
        # Upstream's load-watcher asks for no token, so over plain HTTP it would only be shown to the network.
        return settings if settings.address.startswith("https://") else replace(settings, token_file=None)
    provider = args.metric_provider
    settings = replace(
        settings,
        address=provider.address or DEFAULT_ADDRESSES.get(provider.type, ""),
        token=provider.token or None,
        verify_tls=not provider.insecure_skip_verify,
    )
    return _signalfx_settings(settings, os.environ) if provider.type == "SignalFx" else settings


def _signalfx_settings(settings: LoadSettings, environment: Mapping[str, str]) -> LoadSettings:
    """Complete the settings of SignalFx by the environment variables that load-watcher reads."""
    return replace(
        settings,
        credential_header="X-SF-Token",
        host_suffix=environment.get("SIGNALFX_HOST_NAME_SUFFIX", ""),
        cluster=environment.get("SIGNALFX_CLUSTER_NAME", ""),
    )


def configured_sources(
    profiles: Iterable[EffectiveProfile], rules: CredentialRules = _STRICT
) -> tuple[dict[str, LoadSettings], list[str]]:
    """Return the sources that enabled plugins read, by key, and the plugins whose load options are ignored.

    `rules` are those of `load_settings`.

    Plugins and profiles share one collector per source, and the first that names a source decides its options. A
    later plugin whose options differ is named as `schedulerName/plugin`. Args that name an interval can only shorten
    that of the options.
    """
    sources: dict[str, LoadSettings] = {}
    intervals: dict[str, int] = {}
    ignored: list[str] = []
    for profile in profiles:
        for plugin in profile.enabled:
            args = profile.args(plugin)
            key = args.source_key() if args is not None else None
            if args is None or key is None:
                continue
            settings = load_settings(args, profile.options.load, rules)
            if sources.setdefault(key, settings) != settings:
                ignored.append(f"{profile.scheduler_name}/{plugin}")
            if isinstance(args, HighLoadFilterArgs):
                interval = args.metrics_update_interval_seconds
                intervals[key] = min(interval, intervals.get(key, interval))
    for key, interval in intervals.items():
        sources[key] = replace(sources[key], refresh_seconds=min(interval, sources[key].refresh_seconds))
    return sources, ignored


def is_averaged(key: str) -> bool:
    """Whether a source is asked for averages over the window of its settings: a load-watcher has one of its own, and a
    metrics server none."""
    return provider_of(key) in ("Prometheus", "SignalFx")


def load_source(
    key: str,
    settings: LoadSettings,
    api: ClientConfig,
    capacity_of: Callable[[str], tuple[int, int] | None] | None = None,
    object_count: ObjectCount | None = None,
) -> LoadSource:
    """Return the source that a key names (`ArgsModel.source_key`).

    `api` and `capacity_of` are for the metrics server: the connection, and the capacity of a node (CPU in milli-units,
    memory in bytes) where the caller knows the nodes. `object_count` says how many nodes there are, where the caller
    knows.
    """
    provider = provider_of(key)
    # Imported here: the HTTP libraries take some hundredths of a second, and most configurations need none of them.
    if provider == METRICS_SERVER:
        from scheduler.kube.client import SyncConnection
        from scheduler.load.metrics_server import MetricsServerSource

        connection = SyncConnection(api, timeout=settings.timeout_seconds, max_bytes=MAX_BYTES)
        return MetricsServerSource(connection, capacity_of, object_count=object_count)
    import_requests()
    if provider == WATCHER:
        from scheduler.load.watcher import WatcherSource

        return WatcherSource(settings, object_count=object_count)
    if provider == "SignalFx":
        from scheduler.load.signalfx import SignalFxSource

        return SignalFxSource(settings, window_seconds(settings.window), object_count=object_count)
    from scheduler.load.prometheus import PrometheusSource

    return PrometheusSource(settings, object_count=object_count)


def pod_series_source(
    key: str, settings: LoadSettings, object_count: ObjectCount | None = None
) -> PodSeriesSource | None:
    """Return what reads the use of pods from the source that a key names; None where that has none, as it is not
    Prometheus. `object_count` says how many pods there are."""
    if provider_of(key) != "Prometheus":
        return None
    from scheduler.load.prometheus import PodSeriesSource

    return PodSeriesSource(settings, object_count=object_count)
