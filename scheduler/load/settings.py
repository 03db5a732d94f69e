"""Settings of a load source, as the configuration gives them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from string import Template

WINDOW = "$window"


@dataclass(frozen=True, slots=True)
class QueryTemplates:
    """PromQL for each figure; `$window` stands for the averaging window. Results are ratios, 1 is all of the node.

    The series are the ones that load-watcher 0.2.4 asks for (recording rules of kube-prometheus), with the node in
    the label `LoadSettings.node_label`. `sample_time` yields the time of the newest sample, from which the value's age
    follows: an average over a window says nothing of how old its newest sample is.
    """

    cpu_average: str = "avg_over_time(instance:node_cpu:ratio[$window])"
    cpu_stddev: str = "stddev_over_time(instance:node_cpu:ratio[$window])"
    memory_average: str = "avg_over_time(instance:node_memory_utilisation:ratio[$window])"
    memory_stddev: str = "stddev_over_time(instance:node_memory_utilisation:ratio[$window])"
    sample_time: str = "max_over_time(timestamp(instance:node_cpu:ratio)[$window:15s])"

    def render(self, template: str, window: str) -> str:
        """Put the window into a template."""
        return Template(template).safe_substitute(window=window)


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Where and how to read the load.

    Attributes:
        address: base URL of the source.
        token: bearer token given in the configuration itself; a token file is preferred and wins.
        token_file: file with the bearer token, read again when it changes.
        ca_file: certificate authority for the source; the system's where it is None.
        verify_tls: off only where the configuration says `insecureSkipVerify: true`.
        window: averaging window as a Prometheus duration.
        refresh_seconds: pause between two reads.
        max_age_seconds: a sample older than this is stale and not used for scores.
        timeout_seconds: deadline of one query, connecting and reading included.
        max_bytes: cap on one answer; 16 MiB hold the loads of some 80,000 nodes.
        node_label: label of the series that says which node they are of: its name, or an address with or without port.
        credential_header: header that carries the token; empty for `Authorization: Bearer`.
        host_suffix, cluster: filters of SignalFx.
    """

    address: str
    token: str | None = None
    token_file: Path | None = None
    ca_file: Path | None = None
    verify_tls: bool = True
    window: str = "15m"
    refresh_seconds: float = 30.0
    max_age_seconds: float = 300.0
    timeout_seconds: float = 10.0
    max_bytes: int = 16 * 1024 * 1024
    queries: QueryTemplates = QueryTemplates()
    node_label: str = "instance"
    credential_header: str = ""
    host_suffix: str = ""
    cluster: str = ""

    def __repr__(self) -> str:
        """Leave the token out: settings end up in logs."""
        return f"LoadSettings(address={self.address!r}, window={self.window!r})"
