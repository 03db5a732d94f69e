"""What upstream shows of its process beside what the Prometheus client of Python does."""

from __future__ import annotations

import platform
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from scheduler import __version__

_INTERFACES: Final = Path("/proc/self/net/dev")
COMPATIBLE: Final = ("1", "34")
"""The minor version of Kubernetes whose behaviour this is."""


class NetworkCollector(Collector):
    """Bytes over the network interfaces that the process sees, and the limit of its address space, as Go's client
    shows them. Where /proc has no such file, there is no series."""

    def __init__(self, registry: CollectorRegistry, interfaces: Path = _INTERFACES) -> None:
        self._interfaces = interfaces
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """Return what a scrape shows."""
        limit, _ = resource.getrlimit(resource.RLIMIT_AS)
        value = float(2**64 - 1) if limit == resource.RLIM_INFINITY else float(limit)
        text = "Most bytes of virtual memory that the process may have; 2^64 - 1 is no limit"
        yield GaugeMetricFamily("process_virtual_memory_max_bytes", text, value)
        try:
            lines = self._interfaces.read_text(encoding="ascii", errors="replace").splitlines()[2:]
            fields = [line.partition(":")[2].split() for line in lines]
            received, sent = (
                sum(int(interface[0]) for interface in fields),
                sum(int(interface[8]) for interface in fields),
            )
        except (OSError, ValueError, IndexError):
            return
        text = "Bytes {} over the network interfaces of the process's network namespace"
        yield CounterMetricFamily("process_network_receive_bytes_total", text.format("received"), received)
        yield CounterMetricFamily("process_network_transmit_bytes_total", text.format("sent"), sent)

    def describe(self) -> list[Metric]:
        """Return the names, without reading anything."""
        return [
            GaugeMetricFamily("process_virtual_memory_max_bytes", ""),
            CounterMetricFamily("process_network_receive_bytes_total", ""),
            CounterMetricFamily("process_network_transmit_bytes_total", ""),
        ]


class BuildInfo:
    """`kubernetes_build_info`, by which dashboards show versions."""

    def __init__(self, registry: CollectorRegistry) -> None:
        major, minor = COMPATIBLE
        values = {
            "major": major,
            "minor": minor,
            "git_version": f"v{major}.{minor}.0+secondary-scheduler-{__version__}",
            "git_commit": "",
            "git_tree_state": "",
            "build_date": "",
            "go_version": f"python{platform.python_version()}",
            "compiler": platform.python_implementation().lower(),
            "platform": f"{platform.system().lower()}/{platform.machine()}",
        }
        text = "1; the version of this scheduler, and the minor version of Kubernetes whose behaviour it has"
        Gauge("kubernetes_build_info", text, values, registry=registry).labels(*values.values()).set(1)
