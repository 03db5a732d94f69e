"""Nodes and their load as a snapshot has them, for benchmarks of commands on files."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

NOW = 1_700_000_000
"""When the snapshot was taken, seconds since the epoch."""
_WINDOW = 900
_AGE = 86_400


def at(moment: float) -> str:
    """Return a time as the API server writes it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


LONG_AGO = at(NOW - _AGE)
"""When nodes and running pods were started."""


def node(number: int, name: str) -> dict[str, Any]:
    """Return a node of 16, 32 or 64 cores in one of three zones."""
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{number % 3}"}
    amounts = {"cpu": ("16", "32", "64")[number % 3], "memory": "256Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "labels": labels, "creationTimestamp": LONG_AGO},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
        },
    }


def node_load(cpu: Mapping[str, float]) -> dict[str, Any]:
    """Return the load of nodes, in per cent of their CPU."""
    metrics = {
        name: {"metrics": [{"type": "CPU", "operator": "AVG", "rollup": "15m", "value": round(value, 2)}]}
        for name, value in cpu.items()
    }
    return {
        "apiVersion": "secondary-scheduler.io/v1",
        "kind": "NodeLoad",
        "timestamp": NOW,
        "window": {"duration": "15m", "start": NOW - _WINDOW, "end": NOW},
        "data": {"NodeMetricsMap": metrics},
    }
